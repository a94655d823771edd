"""The cases of layer_cases.cc and optimizer_cases.cc in MXNet's Gluon or PyTorch: training_peer.py mxnet

Answers the requests of peer_requests.py. A network's argument is PATH: its first parameters are in PATH.params and in
PATH.safetensors, by Gluon's names. A network's results are shown by the loss of the first step in a run less that of
the last, and an optimizer's by how far the weights have moved.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import numpy as np

sys.path.append(str(Path(__file__).parents[2] / "tools" / "benchmark"))
from peer_requests import Case, serve  # pylint: disable=wrong-import-position

STEPS = 2
WORDS, UNITS, TIME, BATCH = 10000, 256, 35, 32
SGD = {"learning_rate": 0.1, "momentum": 0.9}
ARRAYS, WEIGHTS = 100, 1000


def numbers(shape: Tuple[int, ...], factor: int, count: int) -> np.ndarray:
    """Numbers from 0 to count - 1, those of Numbers in layer_cases.cc."""
    return (np.arange(np.prod(shape)) * factor % count).reshape(shape)


def uniform(size: int, seed: int) -> np.ndarray:
    """Numbers in [-1, 1), those of Uniform in optimizer_cases.cc."""
    words = np.arange(size, dtype="uint32") * np.uint32(2654435761) + np.uint32(seed) * np.uint32(40503)
    return (words.astype("float64") / 2.0 ** 31 - 1).astype("float32")


def first_weights() -> List[np.ndarray]:
    return [uniform(WEIGHTS, 2 * i) for i in range(ARRAYS)]


def gradients() -> List[np.ndarray]:
    return [uniform(WEIGHTS, 2 * i + 1) for i in range(ARRAYS)]


def moved(weights: List[np.ndarray]) -> float:
    """The sum of the distances that weights have moved."""
    return sum(float(np.abs(now.astype("float64") - first).sum()) for now, first in zip(weights, first_weights()))


def batch(name: str) -> Tuple[np.ndarray, np.ndarray]:
    """The data and the labels of a network."""
    if name == "language_model":
        return numbers((TIME, BATCH), 7919, WORDS), numbers((TIME, BATCH), 7, 50)
    return numbers((BATCH, 3, 32, 32), 7919, 1000).astype("float32") / 1000, numbers((BATCH,), 7, 10)


def load_safetensors(path: str) -> Dict[str, np.ndarray]:
    """The float32 arrays of a file: eight bytes for the header's length, the header, the elements."""
    contents = Path(path).read_bytes()
    begin = 8 + int.from_bytes(contents[:8], "little")
    arrays = {}
    for name, entry in json.loads(contents[8:begin]).items():
        if name != "__metadata__":
            first, last = entry["data_offsets"]
            arrays[name] = np.frombuffer(contents[begin + first:begin + last], "float32").reshape(entry["shape"])
    return arrays


class Mxnet:
    """The cases in MXNet's Gluon, with hybridized networks."""

    OPTIMIZERS: Dict[str, Tuple[str, Dict[str, Any]]] = {
        "sgd": ("sgd", {"learning_rate": 0.01}),
        "sgd_momentum": ("sgd", {"learning_rate": 0.01, "momentum": 0.9}),
        "nag": ("nag", {"learning_rate": 0.01, "momentum": 0.9}),
        "signum": ("signum", {"learning_rate": 0.01}),
        "lars": ("lars", {"learning_rate": 0.01, "momentum": 0.9}),
        "adam": ("adam", {"learning_rate": 0.001}),
        "adamax": ("adamax", {"learning_rate": 0.002}),
        "lamb": ("lamb", {"learning_rate": 0.001}),
        "adagrad": ("adagrad", {"learning_rate": 0.01}),
        "adadelta": ("adadelta", {}),
        "rmsprop": ("rmsprop", {"learning_rate": 0.001}),
        "rmsprop_centered": ("rmsprop", {"learning_rate": 0.001, "centered": True}),
        "ftrl": ("ftrl", {"learning_rate": 0.1}),
        "ftml": ("ftml", {"learning_rate": 0.0025}),
    }

    def __init__(self) -> None:
        self.mx = importlib.import_module("mxnet")
        self.gluon = importlib.import_module("mxnet.gluon")

    def language_model(self) -> Any:
        nn, net = self.gluon.nn, self.gluon.nn.HybridSequential()
        net.add(nn.Embedding(WORDS, UNITS), self.gluon.rnn.LSTM(UNITS, num_layers=2, input_size=UNITS),
                nn.Dense(WORDS, flatten=False, in_units=UNITS))
        return net

    def resnet20(self) -> Any:
        nn = self.gluon.nn

        class HalvingShortcut(self.gluon.HybridBlock):
            """Every second pixel, and as many channels of zeros."""

            def hybrid_forward(self, F: Any, x: Any) -> Any:  # pylint: disable=arguments-differ
                y = F.Pooling(x, kernel=(1, 1), stride=(2, 2), pool_type="avg")
                return F.concat(y, F.zeros_like(y), dim=1)

        class Residual(self.gluon.HybridBlock):
            """body(x) + shortcut(x)."""

            def __init__(self, body: Any, shortcut: Any):
                super().__init__()
                self.body, self.shortcut = body, shortcut

            def hybrid_forward(self, F: Any, x: Any) -> Any:  # pylint: disable=arguments-differ,unused-argument
                return self.body(x) + (x if self.shortcut is None else self.shortcut(x))

        def convolution(channels: int, stride: int) -> Any:
            return nn.Conv2D(channels, 3, stride, 1, use_bias=False)

        net = nn.HybridSequential()
        net.add(convolution(16, 1), nn.BatchNorm(), nn.Activation("relu"))
        for channels in (16, 32, 64):
            for block in range(3):
                stride = 2 if block == 0 and channels > 16 else 1
                body = nn.HybridSequential()
                body.add(convolution(channels, stride), nn.BatchNorm(), nn.Activation("relu"),
                         convolution(channels, 1), nn.BatchNorm())
                net.add(Residual(body, None if stride == 1 else HalvingShortcut()), nn.Activation("relu"))
        net.add(nn.GlobalAvgPool2D(), nn.Dense(10))
        return net

    def network(self, name: str, path: str) -> Case:
        net = getattr(self, name)()
        net.load_parameters(path + ".params")
        net.hybridize(static_alloc=True, static_shape=True)
        loss_function = self.gluon.loss.SoftmaxCrossEntropyLoss()
        loss_function.hybridize()
        trainer = self.gluon.Trainer(net.collect_params(), "sgd", SGD)
        data, label = (self.mx.nd.array(array, dtype="float32") for array in batch(name))
        losses: List[Any] = []

        def run() -> None:
            losses.clear()
            for _ in range(STEPS):
                with self.mx.autograd.record():
                    loss = loss_function(net(data), label)
                loss.backward()
                trainer.step(loss.shape[0])
                losses.append(loss)
            self.mx.nd.waitall()
        return Case(run, lambda: float(losses[0].asnumpy().mean() - losses[-1].asnumpy().mean()))

    def step(self, name: str) -> Case:
        optimizer, parameters = self.OPTIMIZERS[name]
        update = self.mx.optimizer.get_updater(self.mx.optimizer.create(optimizer, wd=0, **parameters))
        weights = [self.mx.nd.array(array) for array in first_weights()]
        grads = [self.mx.nd.array(array) for array in gradients()]
        indices = list(range(ARRAYS))

        def run() -> None:
            update(indices, grads, weights)
            self.mx.nd.waitall()
        return Case(run, lambda: moved([weight.asnumpy() for weight in weights]))


class Torch:
    """The cases in PyTorch, called eagerly."""

    OPTIMIZERS: Dict[str, Tuple[str, Dict[str, Any]]] = {
        "sgd": ("SGD", {"lr": 0.01}),
        "sgd_momentum": ("SGD", {"lr": 0.01, "momentum": 0.9}),
        "nag": ("SGD", {"lr": 0.01, "momentum": 0.9, "nesterov": True}),
        "adam": ("Adam", {"lr": 0.001}),
        "adamw": ("AdamW", {"lr": 0.001, "weight_decay": 0}),
        "adamax": ("Adamax", {"lr": 0.002}),
        "adagrad": ("Adagrad", {"lr": 0.01}),
        "adadelta": ("Adadelta", {"lr": 1, "rho": 0.9, "eps": 1e-5}),
        "rmsprop": ("RMSprop", {"lr": 0.001, "alpha": 0.9}),
        "rmsprop_centered": ("RMSprop", {"lr": 0.001, "alpha": 0.9, "momentum": 0.9, "centered": True}),
    }

    def __init__(self) -> None:
        self.torch = importlib.import_module("torch")

    def language_model(self, arrays: Dict[str, np.ndarray]) -> Tuple[List[Any], Callable[[Any], Any]]:
        """The parameters, and the function of the network."""
        nn = self.torch.nn
        embedding, lstm, output = nn.Embedding(WORDS, UNITS), nn.LSTM(UNITS, UNITS, 2), nn.Linear(UNITS, WORDS)
        names = {embedding.weight: "0.weight", output.weight: "2.weight", output.bias: "2.bias"}
        for layer in range(2):
            for ours, theirs in (("i2h", "ih"), ("h2h", "hh")):
                for kind in ("weight", "bias"):
                    names[getattr(lstm, f"{kind}_{theirs}_l{layer}")] = f"1._unfused.{layer}.{ours}_{kind}"
        with self.torch.no_grad():
            for parameter, name in names.items():
                parameter.copy_(self.torch.tensor(arrays[name]))
        return list(names), lambda x: output(lstm(embedding(x))[0])

    def resnet20(self, arrays: Dict[str, np.ndarray]) -> Tuple[List[Any], Callable[[Any], Any]]:
        """The parameters, and the function of the network."""
        torch, nn = self.torch, self.torch.nn

        class Residual(nn.Module):
            """body(x) + shortcut(x)."""

            def __init__(self, body: Any, halves: bool):
                super().__init__()
                self.body, self.halves = body, halves

            def forward(self, x: Any) -> Any:
                """The module's function."""
                y = self.body(x)
                if self.halves:
                    x = x[:, :, ::2, ::2]
                    x = torch.cat((x, torch.zeros_like(x)), 1)
                return y + x

        def convolution(inputs: int, channels: int, stride: int) -> Any:
            return nn.Conv2d(inputs, channels, 3, stride, 1, bias=False)

        layers = [convolution(3, 16, 1), nn.BatchNorm2d(16), nn.ReLU()]
        inputs = 16
        for channels in (16, 32, 64):
            for block in range(3):
                stride = 2 if block == 0 and channels > 16 else 1
                body = nn.Sequential(
                    convolution(inputs, channels, stride), nn.BatchNorm2d(channels), nn.ReLU(),
                    convolution(channels, channels, 1), nn.BatchNorm2d(channels))
                layers += [Residual(body, stride == 2), nn.ReLU()]
                inputs = channels
        # The pool is one layer, so that the linear one has the same number as Gluon's.
        net = nn.Sequential(*layers, nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), nn.Linear(64, 10))
        state = {name.replace("gamma", "weight").replace("beta", "bias"): torch.tensor(array)
                 for name, array in arrays.items()}
        missing, unexpected = net.load_state_dict(state, strict=False)
        if unexpected or any(not name.endswith("num_batches_tracked") for name in missing):
            raise ValueError(f"parameters do not fit: {missing} {unexpected}")
        return list(net.parameters()), net

    def network(self, name: str, path: str) -> Case:
        torch = self.torch
        parameters, net = getattr(self, name)(load_safetensors(path + ".safetensors"))
        optimizer = torch.optim.SGD(parameters, lr=SGD["learning_rate"], momentum=SGD["momentum"])
        data, label = (torch.from_numpy(array) for array in batch(name))
        losses: List[Any] = []

        def run() -> None:
            losses.clear()
            for _ in range(STEPS):
                scores = net(data)
                loss = torch.nn.functional.cross_entropy(scores.flatten(0, -2), label.flatten())
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                losses.append(loss.detach())
        return Case(run, lambda: float(losses[0] - losses[-1]))

    def step(self, name: str) -> Case:
        torch = self.torch
        weights = [torch.tensor(array, requires_grad=True) for array in first_weights()]
        for weight, array in zip(weights, gradients()):
            weight.grad = torch.tensor(array)
        optimizer, parameters = self.OPTIMIZERS[name]
        return Case(getattr(torch.optim, optimizer)(weights, **parameters).step,
                    lambda: moved([weight.detach().numpy() for weight in weights]))


def make(framework: Any, name: str, arguments: List[str]) -> Case:
    if name.startswith("step_"):
        return framework.step(name[len("step_"):])
    return framework.network(name, arguments[0])


if __name__ == "__main__":
    sys.exit(serve(lambda name: {"mxnet": Mxnet, "torch": Torch}[name](), make))
