"""Calls of operators in MXNet or PyTorch: operator_peer.py mxnet:THREADS or torch:THREADS

Answers the requests of peer_requests.py. The arguments of a case are OP STEPS GRADIENTS LOW HIGH PARAMETERS INPUTS.
OP is MXNet's name. STEPS is `forward`, or `gradients` where the outputs are computed once, before anything is timed.
GRADIENTS are positions of inputs, `0,1`. PARAMETERS are `kernel=(3,3);pad=(1,1)`, and INPUTS are shapes,
`8x64x56x56,64x64x3x3`; `32x128:10000` is an array of integers below 10000. Each of the three may be `-`.
peer_cases.cc has the cases.
"""

import ast
import importlib
import os
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

FRAMEWORK, _, THREADS = (sys.argv[1:] or [""])[0].partition(":")
# OpenMP reads it when the first package loads.
os.environ.update(OMP_NUM_THREADS=THREADS or "1")

import numpy as np  # pylint: disable=wrong-import-position

sys.path.append(str(Path(__file__).parents[2] / "tools" / "benchmark"))
from peer_requests import Case, serve  # pylint: disable=wrong-import-position

FIRST_HEAD_GRADIENT = 100

Shape = Tuple[int, ...]


def values(number: int, shape: Shape, low: float, high: float, is_index: bool = False) -> np.ndarray:
    """The elements of an array, those of Layer::Array in layer.cc."""
    x = np.arange(int(np.prod(shape)), dtype="uint32")
    x += np.uint32(number * 0x9E3779B9 & 0xFFFFFFFF)
    x ^= x >> np.uint32(16)
    x *= np.uint32(0x7FEB352D)
    x ^= x >> np.uint32(15)
    x *= np.uint32(0x846CA68B)
    x ^= x >> np.uint32(16)
    elements = low + (high - low) * ((x >> np.uint32(8)) / 2.0 ** 24)
    return (np.floor(elements) if is_index else elements).astype("float32").reshape(shape)


def checksum(array: np.ndarray) -> float:
    """The sum of |x[i]| (1 + i % 7 / 7)."""
    flat = np.abs(np.asarray(array, dtype="float64")).ravel()
    return float((flat * (1 + np.arange(flat.size) % 7 / 7)).sum())


class Call:
    """What a request asks for."""

    def __init__(self, op: str, steps: str, gradients: str, low: str, high: str, parameters: str, inputs: str):
        def parts(text: str, separator: str) -> List[str]:
            return [] if text == "-" else text.split(separator)
        self.op = op
        self.computes_outputs = steps == "forward"
        self.gradients = [int(position) for position in parts(gradients, ",")]
        self.low, self.high = float(low), float(high)
        self.texts = dict(part.split("=", 1) for part in parts(parameters, ";"))
        self.inputs: List[Tuple[Shape, int]] = []  # shapes, and what integers are below: 0 for other numbers
        for part in parts(inputs, ","):
            extents, _, below = part.partition(":")
            self.inputs.append((tuple(map(int, extents.split("x"))), int(below or 0)))

    def arrays(self) -> List[np.ndarray]:
        return [values(number, shape, 0, below, True) if below else values(number, shape, self.low, self.high)
                for number, (shape, below) in enumerate(self.inputs)]

    def head_gradient(self, shape: Shape) -> np.ndarray:
        return values(FIRST_HEAD_GRADIENT, shape, self.low, self.high)

    def parameters(self) -> Dict[str, Any]:
        """The parameters as numbers, tuples and truth values, where their texts are these."""
        def value(text: str) -> Any:
            try:
                return ast.literal_eval(text)
            except (ValueError, SyntaxError):
                return text
        return {name: value(text) for name, text in self.texts.items()}


def case_of(run: Callable[[], Any], results: Callable[[], List[np.ndarray]]) -> Case:
    """A case that shows the sum over the arrays of its last run: the output if it was computed, the first gradient."""
    return Case(run, lambda: sum(checksum(array) for array in results()))


class Mxnet:
    """Calls in MXNet's Python."""

    def __init__(self) -> None:
        self.mx = importlib.import_module("mxnet")

    def case(self, call: Call) -> Case:
        nd, autograd = self.mx.nd, self.mx.autograd
        operator = getattr(nd, call.op, None) or getattr(nd._internal, call.op)  # pylint: disable=protected-access
        inputs = [nd.array(array) for array in call.arrays()]
        leaves = [inputs[position] for position in call.gradients]
        for leaf in leaves:
            leaf.attach_grad()
        last: List[Any] = []

        def output() -> Any:
            last[:] = [operator(*inputs, **call.texts)]
            return last[0]

        if not leaves:
            return case_of(lambda: output().wait_to_read(), lambda: [last[0].asnumpy()])
        with autograd.record():
            y = output()
        head = nd.array(call.head_gradient(y.shape))

        def both() -> None:
            with autograd.record():
                out = output()
            autograd.backward([out], [head])
            for leaf in leaves:
                leaf.grad.wait_to_read()

        def gradients() -> None:
            autograd.backward([y], [head], retain_graph=True)
            for leaf in leaves:
                leaf.grad.wait_to_read()

        if call.computes_outputs:
            return case_of(both, lambda: [last[0].asnumpy(), leaves[0].grad.asnumpy()])
        return case_of(gradients, lambda: [leaves[0].grad.asnumpy()])


class Torch:
    """Calls in PyTorch, eager."""

    def __init__(self) -> None:
        self.torch = importlib.import_module("torch")
        self.f = importlib.import_module("torch.nn.functional")
        self.torch.set_num_threads(int(THREADS or 1))

    def case(self, call: Call) -> Case:
        torch = self.torch
        inputs = [torch.from_numpy(array).long() if below else torch.from_numpy(array)
                  for array, (_, below) in zip(call.arrays(), call.inputs)]
        leaves: List[Any] = []
        if call.op == "RNN":
            function, weights = self.lstm(call, inputs[1])
            for position in call.gradients:
                leaves += weights if position == 1 else [inputs[position].requires_grad_(True)]
        else:
            function = self.function(call)
            leaves = [inputs[position].requires_grad_(True) for position in call.gradients]
        last: List[Any] = []

        def forward() -> None:
            with torch.inference_mode():
                last[:] = [function(*inputs)]

        if not leaves:
            return case_of(forward, lambda: [last[0].numpy()])
        y = function(*inputs)
        head = torch.from_numpy(call.head_gradient(tuple(y.shape)))

        def both() -> None:
            out = function(*inputs)
            last[:] = [out, *torch.autograd.grad(out, leaves, head)]

        def gradients() -> None:
            last[:] = torch.autograd.grad(y, leaves, head, retain_graph=True)

        if call.computes_outputs:
            return case_of(both, lambda: [array.detach().numpy() for array in last[:2]])
        return case_of(gradients, lambda: [last[0].numpy()])

    def function(self, call: Call) -> Callable[..., Any]:
        """The operator as a function of its inputs. What PyTorch returns as a view is copied, as in MXNet."""
        torch, f = self.torch, self.f
        p = call.parameters()
        axis = p.get("axis", -1)
        training = bool(call.gradients)
        functions: Dict[str, Callable[..., Any]] = {
            "elemwise_add": torch.add,
            "broadcast_add": torch.add,
            "broadcast_mul": torch.mul,
            "relu": torch.relu,
            "sigmoid": torch.sigmoid,
            "LeakyReLU": f.gelu,
            "sum": lambda x: x.sum(axis) if "axis" in p else x.sum(),
            "mean": lambda x: x.mean(axis),
            "max": lambda x: x.amax(axis),
            "argmax": lambda x: x.argmax(axis),
            "Pooling": self.pooling(p),
            "softmax": lambda x: f.softmax(x, axis),
            "log_softmax": lambda x: f.log_softmax(x, axis),
            "LayerNorm": lambda x, gamma, beta: f.layer_norm(x, x.shape[-1:], gamma, beta),
            "BatchNorm": lambda x, gamma, beta, mean, var: f.batch_norm(x, mean, var, gamma, beta, training, 0.1, 1e-3),
            "Concat": lambda *xs: torch.cat(xs, p["dim"]),
            "slice_axis": lambda x: x.narrow(axis, p["begin"], p["end"] - p["begin"]).contiguous(),
            "transpose": lambda x: x.permute(p["axes"]).contiguous(),
            "Embedding": f.embedding,
            "take": lambda x, index: x.index_select(axis, index),
            "one_hot": lambda index: f.one_hot(index, p["depth"]).float(),
            "topk": lambda x: x.topk(p["k"], axis).indices,
            "sort": lambda x: x.sort(axis).values,
            "dot": torch.mm,
            "batch_dot": torch.bmm,
            "FullyConnected": f.linear,
            "Convolution": lambda x, w, b=None: f.conv2d(
                x, w, b, p["stride"], p["pad"], p["dilate"], p["num_group"]),
            "Dropout": lambda x: f.dropout(x, p["p"], True),
            "_random_uniform": lambda: torch.empty(p["shape"]).uniform_(p["low"], p["high"]),
            "_random_normal": lambda: torch.empty(p["shape"]).normal_(p["loc"], p["scale"]),
        }
        return functions[call.op]

    def pooling(self, p: Dict[str, Any]) -> Callable[..., Any]:
        if p.get("global_pool"):
            return lambda x: self.f.adaptive_avg_pool2d(x, 1)
        return lambda x: self.f.max_pool2d(x, p["kernel"], p["stride"], p["pad"])

    def lstm(self, call: Call, packed: Any) -> Tuple[Callable[..., Any], List[Any]]:
        """Layers with the weights of RNN's packed vector: those of all layers, then all biases."""
        torch, p = self.torch, call.parameters()
        layers = p["num_layers"]
        net = torch.nn.LSTM(call.inputs[0][0][2], p["state_size"], layers)
        net.train(bool(call.gradients))
        weights = [getattr(net, f"{kind}_{source}_l{layer}")
                   for kind in ("weight", "bias") for layer in range(layers) for source in ("ih", "hh")]
        start = 0
        with torch.no_grad():
            for weight in weights:
                weight.copy_(packed[start:start + weight.numel()].view_as(weight))
                start += weight.numel()
        return lambda x, parameters, h, c: net(x, (h, c))[0], weights


def load(_: str) -> Any:
    return {"mxnet": Mxnet, "torch": Torch}[FRAMEWORK]()


def make(framework: Any, _: str, arguments: List[str]) -> Case:
    return framework.case(Call(*arguments))


if __name__ == "__main__":
    sys.exit(serve(load, make))
