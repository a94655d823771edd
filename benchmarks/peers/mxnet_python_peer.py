"""Programs written for MXNet's Python, on one of two libraries: mxnet_python_peer.py LIBRARY

LIBRARY is `mxnet`, for MXNet's own, `mxnet:THREADS`, for MXNet's own with so many threads, or the path of Tessera's.
Answers the requests of peer_requests.py. A case is a method of Programs or a name of mxnet_networks.py; these can be saved
for torch_network_peer.py.
"""

import importlib
import logging
import os
import struct
import subprocess
import sys
import tempfile
import warnings
import zlib
from typing import Any, Callable, List, Tuple

import numpy as np

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/benchmark"))
from peer_requests import Case, serve  # pylint: disable=wrong-import-position

from mxnet_networks import CLASSES, build, labels, numbers

BATCH = 32
STEPS = 16
DISPATCHES = 1000
LOOP_STEPS = 1000
IMAGES = 4 * BATCH
IM2REC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools/im2rec/im2rec")
SGD = {"learning_rate": 0.01, "momentum": 0.9}


def write_png(path: str, image: np.ndarray) -> None:
    """Writes levels of shape (height, width, 3)."""
    def chunk(kind: bytes, contents: bytes) -> bytes:
        return struct.pack(">I", len(contents)) + kind + contents + struct.pack(">I", zlib.crc32(kind + contents))
    height, width, _ = image.shape
    rows = b"".join(b"\0" + row.tobytes() for row in image)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1)) +
                   chunk(b"IEND", b""))


class Programs:
    """The cases, named by their methods."""

    def __init__(self, mx: Any):
        self.mx = mx

    def nd_dispatch(self) -> Case:
        """Calls of operators on small arrays, as an interpreter's loop makes them."""
        nd = self.mx.nd
        a, b = nd.array(numbers(1, (4, 4))), nd.array(numbers(2, (4, 4)))
        last: List[Any] = []

        def run() -> None:
            c = a
            for _ in range(DISPATCHES // 4):
                c = nd.tanh(nd.dot(c * 0.5, b) + a)
            c.wait_to_read()
            last[:] = [c]
        return Case(run, lambda: float((last[0].asnumpy() ** 2).sum()))

    def perceptron_module_fit(self) -> Case:
        """An epoch of Module.fit over images of the digits' size."""
        mx = self.mx
        net = mx.sym.Variable("data")
        for number, neurons in enumerate((128, 64), 1):
            net = mx.sym.FullyConnected(net, num_hidden=neurons, name=f"fc{number}")
            net = mx.sym.Activation(net, act_type="relu")
        net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=CLASSES, name="fc3"), name="softmax")
        count = BATCH * STEPS
        batches = mx.io.NDArrayIter(np.abs(numbers(1, (count, 64))), labels(count), BATCH)
        module = mx.mod.Module(net, logger=logging.getLogger("silent"))
        module.bind(batches.provide_data, batches.provide_label)
        module.init_params(mx.init.One())
        arguments, _ = module.get_params()
        module.set_params({name: mx.nd.array(0.1 * numbers(seed, array.shape))
                           for seed, (name, array) in enumerate(sorted(arguments.items()))}, {})
        module.init_optimizer(optimizer_params=SGD)

        def run() -> None:
            batches.reset()
            module.fit(batches, num_epoch=1, eval_metric="acc", optimizer_params=SGD)
        return Case(run, lambda: float((module.get_outputs()[0].asnumpy() ** 2).sum()))

    def _hybridize(self, net: Any, data: np.ndarray) -> None:
        """Gives a network its first values."""
        mx = self.mx
        net.initialize(mx.init.One())
        net(mx.nd.array(data))
        for seed, parameter in enumerate(net.collect_params().values()):
            if not parameter.name.endswith(("gamma", "beta", "mean", "var")):
                scale = np.sqrt(3 / np.prod(parameter.shape[1:])) if len(parameter.shape) > 1 else 0.1
                parameter.set_data(mx.nd.array(scale * numbers(seed, parameter.shape)))
        net.hybridize(static_alloc=True, static_shape=True)

    def _save(self, net: Any, path: str, **arrays: np.ndarray) -> None:
        net(self.mx.nd.array(arrays["data"]))  # a network that has not run has no graph
        net.export(path)
        parameters = {name: parameter.data().asnumpy() for name, parameter in net.collect_params().items()}
        np.savez(path + ".npz", **parameters, **arrays)

    def network(self, name: str) -> Case:
        """Inference, or a step of training."""
        mx = self.mx
        net, data, targets = build(mx, name)
        if targets is not None:
            return self._training(net, [data])
        self._hybridize(net, data)
        batch = mx.nd.array(data)
        last: List[Any] = []

        def run() -> None:
            last[:] = [net(batch)]
            last[0].wait_to_read()
        return Case(run, lambda: float((last[0].asnumpy() ** 2).sum()), lambda path: self._save(net, path, data=data))

    def _training(self, net: Any, data: List[np.ndarray]) -> Case:
        """Steps of a hybridized network by gradient descent."""
        mx = self.mx
        self._hybridize(net, data[0])
        trainer = mx.gluon.Trainer(net.collect_params(), "sgd", SGD)
        loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
        batches = [(mx.nd.array(batch), mx.nd.array(labels(len(batch)))) for batch in data]
        last: List[Any] = []

        def run() -> None:
            for batch, label in batches:
                with mx.autograd.record():
                    loss = loss_of(net(batch), label)
                loss.backward()
                trainer.step(len(label))
            mx.nd.waitall()
            last[:] = [loss]
        return Case(run, lambda: float(last[0].asnumpy().sum()),
                    lambda path: self._save(net, path, data=data[0], labels=labels(len(data[0]))))

    def _digits(self, net: Any, shape: Tuple[int, ...]) -> Case:
        return self._training(net, [np.abs(numbers(step, (BATCH, *shape))) for step in range(STEPS)])

    def perceptron_gluon(self) -> Case:
        nn = self.mx.gluon.nn
        net = nn.HybridSequential()
        net.add(nn.Dense(128, activation="relu"), nn.Dense(64, activation="relu"), nn.Dense(CLASSES))
        return self._digits(net, (64,))

    def convolutional_gluon(self) -> Case:
        nn = self.mx.gluon.nn
        net = nn.HybridSequential()
        net.add(nn.Conv2D(32, 3, padding=1, activation="relu"), nn.Conv2D(64, 3, padding=1, activation="relu"),
                nn.MaxPool2D(), nn.Flatten(), nn.Dense(128, activation="relu"), nn.Dense(CLASSES))
        return self._digits(net, (1, 8, 8))

    def lstm(self) -> Case:
        """Two layers of 256 over sequences of 32."""
        gluon = self.mx.gluon
        net = gluon.nn.HybridSequential()
        net.add(gluon.rnn.LSTM(256, num_layers=2, layout="NTC"), gluon.nn.HybridLambda(lambda F, x: F.mean(x, axis=1)),
                gluon.nn.Dense(CLASSES))
        return self._training(net, [numbers(step, (BATCH, 32, 256)) for step in range(2)])

    def _loop(self, step: Callable[[Any, List[Any]], Tuple[Any, List[Any]]], num_states: int,
              shape: Tuple[int, ...]) -> Case:
        """Inference by a bound foreach over rows of that shape, which its states have, too."""
        mx = self.mx
        names = [f"state{number}" for number in range(num_states)]
        outs, last = mx.sym.contrib.foreach(step, mx.sym.Variable("data"), [mx.sym.Variable(name) for name in names])
        executor = mx.sym.Group([outs, *last]).simple_bind(
            mx.cpu(), grad_req="null", data=(LOOP_STEPS, *shape), **{name: shape for name in names})
        for seed, (_, array) in enumerate(sorted(executor.arg_dict.items())):
            array[:] = numbers(seed, array.shape) / np.sqrt(array.shape[-1])

        def run() -> None:
            executor.forward(is_train=False)
            executor.outputs[0].wait_to_read()
        return Case(run, lambda: float((executor.outputs[0].asnumpy() ** 2).sum()))

    def foreach_16(self) -> Case:
        """Steps of so few elements that a step costs what calls cost."""
        sym = self.mx.sym

        def step(row: Any, states: List[Any]) -> Tuple[Any, List[Any]]:
            state = sym.tanh(row + states[0] * 0.5)
            return state * row, [state]
        return self._loop(step, 1, (16,))

    def foreach_lstm(self) -> Case:
        """Steps of a cell of 256 over eight sequences."""
        return self._loop(self.mx.rnn.LSTMCell(256), 2, (8, 256))

    def image_record_iter(self) -> Case:
        """An epoch over JPEG files of 256 x 256 pixels, cut to 224 x 224, mirrored and normalized."""
        folder = tempfile.TemporaryDirectory()
        prefix = os.path.join(folder.name, "images")
        y, x = np.mgrid[:256, :256]
        with open(prefix + ".lst", "w") as lines:
            for i in range(IMAGES):
                smooth = (x * (i % 3 + 1) + y * (3 - i % 3)) / 8
                image = smooth[..., None] + 30 * np.abs(numbers(i, (256, 256, 3)))
                write_png(f"{folder.name}/{i}.png", np.clip(image, 0, 255).astype(np.uint8))
                lines.write(f"{i}\t{i}\t{i}.png\n")
        subprocess.run([IM2REC, "--quality=90", prefix, folder.name], check=True)
        batches = self.mx.io.ImageRecordIter(
            path_imgrec=prefix + ".rec", data_shape=(3, 224, 224), batch_size=BATCH, mirror=True, mean_r=123.7,
            mean_g=116.3, mean_b=103.5, std_r=58.4, std_g=57.1, std_b=57.4, preprocess_threads=os.cpu_count())
        last: List[Any] = []

        def run(folder: Any = folder) -> None:  # which holds the files as long as the case
            batches.reset()
            for batch in batches:
                last[:] = batch.data
            last[0].wait_to_read()
        return Case(run, lambda: float((last[0].asnumpy() ** 2).sum()))


def load(library: str) -> Programs:
    """The programs on the library; raises where the package has loaded another, which it does without an error."""
    warnings.simplefilter("ignore")
    logging.getLogger("silent").setLevel(logging.ERROR)
    os.environ.pop("MXNET_LIBRARY_PATH", None)
    is_own = library.split(":")[0] == "mxnet"
    if not is_own:
        os.environ["MXNET_LIBRARY_PATH"] = os.path.realpath(library)
    elif ":" in library:
        os.environ.update(OMP_NUM_THREADS=library.split(":")[1])
    mx = importlib.import_module("mxnet")
    loaded = mx.base._LIB._name  # pylint: disable=protected-access
    if (os.path.realpath(loaded) == os.path.realpath(library)) == is_own:
        raise ImportError(f"mxnet has loaded {loaded}")
    return Programs(mx)


def make(programs: Programs, name: str, _: List[str]) -> Case:
    return programs.network(name) if "/" in name else getattr(programs, name)()


if __name__ == "__main__":
    sys.exit(serve(load, make))
