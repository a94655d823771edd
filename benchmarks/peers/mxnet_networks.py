"""Networks of Gluon with what they are given, by the names of mxnet_python_benchmark.cc's cases.

  net_f8/NAME               inference of Gluon's model of that name with eight images of 224 x 224
  net_train8_32/NAME        a step of training with eight images of 32 x 32
  transformer_f/8x128x256x4 inference of four layers of width 256 with eight sequences of 128; transformer_train/…
  graph/8_elementwise_16Mi  eight operators on elements; graph/gelu_tanh_4Mi
"""

import re
from typing import Any, NamedTuple, Optional, Tuple

import numpy as np

CLASSES = 10


class Network(NamedTuple):
    net: Any
    data: np.ndarray
    labels: Optional[np.ndarray]  # in training


def numbers(seed: int, shape: Tuple[int, ...]) -> np.ndarray:
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype("float32")


def labels(count: int) -> np.ndarray:
    return (np.arange(count) * 7 % CLASSES).astype("float32")


def eight_elementwise(F: Any, x: Any) -> Any:
    y = F.relu(x * 0.9 + 0.1)
    return F.sigmoid(F.elemwise_mul(y * 1.1, x) + 0.2) * 2


def gelu_tanh(F: Any, x: Any) -> Any:
    cube = F.elemwise_mul(F.elemwise_mul(x, x), x)
    return F.elemwise_mul(x * 0.5, F.tanh(F.elemwise_add(x, cube * 0.044715) * 0.7978845608) + 1)


def transformer(mx: Any, batch: int, steps: int, width: int, layers: int) -> Any:
    """An encoder with normalization before each part, and a classifier of the mean over the steps."""
    nn = mx.gluon.nn
    size = 64  # of a head
    heads = width // size

    def dense(outputs: int, inputs: int) -> Any:
        return nn.Dense(outputs, flatten=False, in_units=inputs)

    class Layer(mx.gluon.HybridBlock):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            with self.name_scope():
                self.first_norm, self.second_norm = nn.LayerNorm(in_channels=width), nn.LayerNorm(in_channels=width)
                self.query, self.key, self.value = dense(width, width), dense(width, width), dense(width, width)
                self.out, self.up, self.down = dense(width, width), dense(4 * width, width), dense(width, 4 * width)

        def hybrid_forward(self, F: Any, x: Any) -> Any:
            def of_heads(y: Any) -> Any:
                y = F.transpose(F.reshape(y, shape=(batch, steps, heads, size)), axes=(0, 2, 1, 3))
                return F.reshape(y, shape=(batch * heads, steps, size))
            h = self.first_norm(x)
            query, key, value = of_heads(self.query(h)), of_heads(self.key(h)), of_heads(self.value(h))
            weights = F.softmax(F.batch_dot(query, key, transpose_b=True) * size ** -0.5)
            mixed = F.reshape(F.batch_dot(weights, value), shape=(batch, heads, steps, size))
            mixed = F.reshape(F.transpose(mixed, axes=(0, 2, 1, 3)), shape=(batch, steps, width))
            x = F.elemwise_add(x, self.out(mixed))
            h = F.LeakyReLU(self.up(self.second_norm(x)), act_type="gelu")
            return F.elemwise_add(x, self.down(h))

    net = nn.HybridSequential()
    for _ in range(layers):
        net.add(Layer())
    net.add(nn.HybridLambda(lambda F, x: F.mean(x, axis=1)), nn.Dense(CLASSES, in_units=width))
    return net


def build(mx: Any, case: str) -> Network:
    way, name = case.split("/")
    if way == "graph":
        graphs = {"8_elementwise_16Mi": (eight_elementwise, 1 << 24), "gelu_tanh_4Mi": (gelu_tanh, 1 << 22)}
        function, size = graphs[name]
        return Network(mx.gluon.nn.HybridLambda(function), numbers(1, (size,)), None)
    if way in ("transformer_f", "transformer_train"):
        batch, steps, width, layers = map(int, name.split("x"))
        net = transformer(mx, batch, steps, width, layers)
        return Network(net, numbers(1, (batch, steps, width)), labels(batch) if way == "transformer_train" else None)
    match = re.fullmatch(r"net_(f|train)(\d+)(?:_(\d+))?", way)
    if match is None:
        raise ValueError(f"{case} is no network")
    batch = int(match[2])
    size = int(match[3] or (299 if name == "inceptionv3" else 224))
    # Of small images the first layer keeps the size.
    small = {"thumbnail": True} if size <= 32 else {}
    net = mx.gluon.model_zoo.vision.get_model(name, classes=1000 if size > 32 else CLASSES, **small)
    return Network(net, numbers(1, (batch, 3, size, size)), labels(batch) if match[1] == "train" else None)
