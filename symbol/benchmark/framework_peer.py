"""The cases of executor_benchmark.cc in MXNet or PyTorch: framework_peer.py mxnet

Answers the requests of peer_requests.py. The arguments of a case are PATH and SHAPE: its network, a file that
Symbol::Save wrote, and the shape of its data. executor_benchmark.cc explains the cases.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any, Dict, List, Tuple

import numpy as np

sys.path.append(str(Path(__file__).parents[2] / "tools" / "benchmark"))
from peer_requests import Case, serve  # pylint: disable=wrong-import-position
from torch_graph import TorchGraph, attributes  # pylint: disable=wrong-import-position

CALLS = 10000
LAYERS = 100
STEPS = 16
TRAINING = {"lr": 0.01, "momentum": 0.9, "wd": 1e-4}

Shape = Tuple[int, ...]


def contents(name: str, number: int, shape: Shape) -> np.ndarray:
    """The first values of an argument, those of FirstValues in executor_benchmark.cc."""
    if name.endswith(("gamma", "var")):
        return np.ones(shape, "float32")
    if name.endswith(("beta", "bias", "mean")):
        return np.zeros(shape, "float32")
    size = int(np.prod(shape))
    words = np.arange(size, dtype="uint32") * np.uint32(2654435761) + np.uint32(number) * np.uint32(40503)
    values = words.astype("float64") / 2.0 ** 31 - 1
    if name == "data":
        return (np.abs(values)).astype("float32").reshape(shape)
    fan_in = int(np.prod(shape[1:]))
    return (values * np.sqrt(6.0 / fan_in)).astype("float32").reshape(shape)


def labels(batch: int, step: int, classes: int) -> np.ndarray:
    return ((np.arange(batch) * 7 + step * 3) % classes).astype("float32")


class Mxnet:
    """The cases in MXNet's Python."""

    def __init__(self) -> None:
        self.mx = importlib.import_module("mxnet")

    def arrays(self) -> Tuple[Any, Any]:
        return (self.mx.nd.array(np.linspace(-1, 1, 16)), self.mx.nd.array(np.full(16, 0.5)))

    def add(self, taped: bool) -> Case:
        a, b = self.arrays()
        last = []
        if taped:
            a.attach_grad()

        def run() -> None:
            c = None
            for _ in range(CALLS):
                c = a + b
            c.wait_to_read()
            last[:] = [c]

        def run_taped() -> None:
            with self.mx.autograd.record():
                run()
        return Case(run_taped if taped else run, lambda: float(last[0].asnumpy().sum()))

    def chain_tape(self) -> Case:
        a, b = self.arrays()
        a.attach_grad()
        nd = self.mx.nd

        def run() -> None:
            with self.mx.autograd.record():
                x = a
                for _ in range(LAYERS // 4):
                    x = nd.relu((x + 0.01) * 0.99) + b
            x.backward()
            a.grad.wait_to_read()
        return Case(run, lambda: float(a.grad.asnumpy().sum()))

    def chain_executor(self, path: str) -> Case:
        a, b = self.arrays()
        grad = self.mx.nd.zeros(16)
        executor = self.mx.sym.load(path).bind(self.mx.cpu(), {"a": a, "b": b}, {"a": grad}, {"a": "write", "b": "null"})
        one = self.mx.nd.ones(16)

        def run() -> None:
            executor.forward(is_train=True)
            executor.backward([one])
            grad.wait_to_read()
        return Case(run, lambda: float(grad.asnumpy().sum()))

    def chain_cached_op(self, path: str) -> Case:
        a, b = self.arrays()
        a.attach_grad()
        symbol = self.mx.sym.load(path)
        block = self.mx.gluon.SymbolBlock(symbol, [self.mx.sym.var("a"), self.mx.sym.var("b")])
        block.hybridize(static_alloc=True, static_shape=True)

        def run() -> None:
            with self.mx.autograd.record():
                x = block(a, b)
            x.backward()
            a.grad.wait_to_read()
        return Case(run, lambda: float(a.grad.asnumpy().sum()))

    def bound(self, path: str, shape: Shape, grad_req: str) -> Any:
        symbol = self.mx.sym.load(path)
        requests = {name: "null" if name in ("data", "softmax_label") else grad_req for name in symbol.list_arguments()}
        executor = symbol.simple_bind(self.mx.cpu(), grad_req=requests, data=shape)
        for number, name in enumerate(symbol.list_arguments()):
            array = executor.arg_dict[name]
            array[:] = contents(name, number, array.shape) if name != "softmax_label" else 0
        for name, array in executor.aux_dict.items():
            array[:] = contents(name, 0, array.shape)
        return executor

    def training(self, path: str, shape: Shape, steps: int) -> Case:
        executor = self.bound(path, shape, "write")
        nd = self.mx.nd
        classes = executor.outputs[0].shape[1]
        data = contents("data", 0, (shape[0] * steps, *shape[1:]))
        batches = [(nd.array(data[i * shape[0]:(i + 1) * shape[0]]), nd.array(labels(shape[0], i, classes)))
                   for i in range(steps)]
        weights = [(w, executor.grad_dict[name], nd.zeros(w.shape)) for name, w in executor.arg_dict.items()
                   if name not in ("data", "softmax_label")]
        parameters = {**TRAINING, "rescale_grad": 1 / shape[0]}

        def run() -> None:
            for batch, label in batches:
                executor.forward(is_train=True, data=batch, softmax_label=label)
                executor.backward()
                for weight, grad, momentum in weights:
                    nd.sgd_mom_update(weight, grad, momentum, out=weight, **parameters)
            nd.waitall()
        return Case(run, lambda: float((executor.outputs[0].asnumpy() ** 2).sum()))

    def inference(self, path: str, shape: Shape) -> Case:
        executor = self.bound(path, shape, "null")

        def run() -> None:
            executor.forward(is_train=False)
            executor.outputs[0].wait_to_read()
        return Case(run, lambda: float((executor.outputs[0].asnumpy() ** 2).sum()))


class Torch:
    """The cases in PyTorch, called eagerly."""

    def __init__(self) -> None:
        self.torch = importlib.import_module("torch")
        self.f = importlib.import_module("torch.nn.functional")

    def arrays(self) -> Tuple[Any, Any]:
        return self.torch.linspace(-1, 1, 16), self.torch.full((16,), 0.5)

    def add(self, taped: bool) -> Case:
        a, b = self.arrays()
        a.requires_grad_(taped)
        last = []

        def run() -> None:
            c = None
            for _ in range(CALLS):
                c = a + b
            last[:] = [c]
        return Case(run, lambda: float(last[0].detach().sum()))

    def chain_tape(self) -> Case:
        a, b = self.arrays()
        a.requires_grad_(True)
        one = self.torch.ones(16)

        def run() -> None:
            a.grad = None
            x = a
            for _ in range(LAYERS // 4):
                x = self.torch.relu((x + 0.01) * 0.99) + b
            x.backward(one)
        return Case(run, lambda: float(a.grad.sum()))

    def network(self, path: str, shape: Shape, training: bool) -> TorchGraph:
        """The graph of a file with its first values."""
        with open(path, encoding="utf-8") as file:
            nodes = json.load(file)["nodes"]
        sizes = self.shapes(nodes, shape)
        arrays = {}
        number = 0
        for i, node in enumerate(nodes):
            name = node["name"]
            is_state = name.endswith(("moving_mean", "moving_var"))
            if node["op"] != "null":
                continue
            if i in sizes and name not in ("data", "softmax_label"):
                arrays[name] = contents(name, 0 if is_state else number, sizes[i])
            if not is_state:
                number += 1
        return TorchGraph(self.torch, nodes, arrays, training)

    def shapes(self, nodes: List[Any], shape: Shape) -> Dict[int, Shape]:
        """The shapes of the parameters, found by running the graph's shapes through it."""
        known: Dict[int, Shape] = {i: shape for i, node in enumerate(nodes) if node["name"] == "data"}
        for i, node in enumerate(nodes):
            if node["op"] == "null":
                continue
            inputs = [entry[0] for entry in node["inputs"]]
            x = known[inputs[0]]
            attrs = attributes(node)
            if node["op"] == "Convolution":
                filters, kernel = int(attrs["num_filter"]), attrs["kernel"]
                known[inputs[1]] = (filters, x[1], *kernel)
                if len(inputs) > 2:
                    known[inputs[2]] = (filters,)
                known[i] = (x[0], filters, *self.windows(x[2:], attrs))
            elif node["op"] == "Pooling":
                known[i] = (*x[:2], 1, 1) if attrs.get("global_pool") else (*x[:2], *self.windows(x[2:], attrs))
            elif node["op"] == "BatchNorm":
                known.update({j: (x[1],) for j in inputs[1:]})
                known[i] = x
            elif node["op"] == "FullyConnected":
                hidden = int(attrs["num_hidden"])
                known[inputs[1]], known[inputs[2]] = (hidden, int(np.prod(x[1:]))), (hidden,)
                known[i] = (x[0], hidden)
            elif node["op"] == "Flatten":
                known[i] = (x[0], int(np.prod(x[1:])))
            else:
                known[i] = x
        return known

    @staticmethod
    def windows(image: Shape, attrs: Dict[str, Any]) -> Shape:
        kernel, stride = attrs["kernel"], attrs.get("stride") or (1, 1)
        pad = attrs.get("pad") or (0, 0)
        return tuple((size + 2 * p - k) // s + 1 for size, p, k, s in zip(image, pad, kernel, stride))

    def training(self, path: str, shape: Shape, steps: int) -> Case:
        torch = self.torch
        network = self.network(path, shape, True)
        parameters = network.parameters
        optimizer = torch.optim.SGD(parameters, lr=TRAINING["lr"], momentum=TRAINING["momentum"],
                                    weight_decay=TRAINING["wd"])
        classes = parameters[-1].shape[0]
        data = torch.from_numpy(contents("data", 0, (shape[0] * steps, *shape[1:])))
        batches = [(data[i * shape[0]:(i + 1) * shape[0]].clone(),
                    torch.from_numpy(labels(shape[0], i, classes)).long()) for i in range(steps)]
        last = []

        def run() -> None:
            for batch, label in batches:
                scores = network(batch)
                optimizer.zero_grad(set_to_none=True)
                self.f.cross_entropy(scores, label).backward()
                optimizer.step()
            last[:] = [scores]
        return Case(run, lambda: float((torch.softmax(last[0].detach(), 1) ** 2).sum()))

    def inference(self, path: str, shape: Shape) -> Case:
        torch = self.torch
        network = self.network(path, shape, False)
        data = torch.from_numpy(contents("data", 0, shape))
        last = []

        def run() -> None:
            with torch.inference_mode():
                last[:] = [torch.softmax(network(data), 1)]
        return Case(run, lambda: float((last[0] ** 2).sum()))


def make(framework: Any, name: str, arguments: List[str]) -> Case:
    path, shape = arguments[0], tuple(map(int, arguments[1].split(",")))
    if name in ("add", "add_taped"):
        return framework.add(name == "add_taped")
    if name == "chain_tape":
        return framework.chain_tape()
    if name in ("chain_executor", "chain_cached_op"):
        return getattr(framework, name)(path)
    if name.endswith("inference"):
        return framework.inference(path, shape)
    return framework.training(path, shape, 1 if name.endswith("training") else STEPS)


if __name__ == "__main__":
    sys.exit(serve(lambda name: {"mxnet": Mxnet, "torch": Torch}[name](), make))
