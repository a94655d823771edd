#!/usr/bin/python3
"""Writes networks with MXNet 1.9.1's outputs: zoo.py OUT [--small | --graphs FOLDER] [--only NAME]

Needs an environment with mxnet==1.9.1 and numpy==1.19.5 (Python 3.8), which nothing else here needs. For each network it
writes into OUT, for compare_models:

- NAME-symbol.json and NAME-0000.params, as HybridBlock.export writes them, with random weights;
- NAME-expected.params: the inputs as input/NAME and the outputs that MXNet computes from them as output/I.

Without options they are nine networks of Gluon's model zoo (800 MB in all). --small writes the two of tests/graphs/models.
--graphs writes those graphs of FOLDER for which its graphs.tsv has shapes.
"""

import argparse
import ast
import csv
import os
import sys
from pathlib import Path
from typing import Any, Dict

# oneDNN's fused forms compute some graphs otherwise than MXNet's own code does.
os.environ.update(MXNET_MKLDNN_ENABLED="0")

# pylint: disable=wrong-import-position
import mxnet as mx  # pylint: disable=import-error
import numpy as np
from mxnet.gluon import nn  # pylint: disable=import-error
from mxnet.gluon.model_zoo import vision  # pylint: disable=import-error

ZOO = {
    "alexnet": vision.alexnet, "vgg11": vision.vgg11, "resnet18_v1": vision.resnet18_v1,
    "resnet50_v2": vision.resnet50_v2, "densenet121": vision.densenet121, "mobilenet1_0": vision.mobilenet1_0,
    "mobilenet_v2_1_0": vision.mobilenet_v2_1_0, "squeezenet1_0": vision.squeezenet1_0,
    "inceptionv3": vision.inception_v3,
}


def residual() -> Any:
    """A small network of residual blocks, with and without a convolution beside them."""
    return vision.ResNetV1(vision.BasicBlockV1, layers=[2, 1], channels=[8, 8, 16], classes=10)


def mobile() -> Any:
    """A small network of inverted residual blocks, with depthwise convolutions and relu6."""
    net = nn.HybridSequential(prefix="mobile_")
    with net.name_scope():
        net.add(nn.Conv2D(8, 3, strides=2, padding=1, use_bias=False), nn.BatchNorm(), nn.Activation("relu"))
        before = 8
        for channels, expansion, stride in ((8, 1, 1), (12, 4, 2), (12, 4, 1), (16, 3, 1)):
            net.add(vision.mobilenet.LinearBottleneck(
                in_channels=before, channels=channels, t=expansion, stride=stride))
            before = channels
        net.add(nn.Conv2D(32, 1, use_bias=False), nn.BatchNorm(), nn.GlobalAvgPool2D(),
                nn.Conv2D(10, 1, use_bias=False), nn.Flatten())
    return net


def fill(name: str, shape: tuple, random: np.random.RandomState) -> np.ndarray:
    """Random numbers that keep the values of a network in range."""
    if name.endswith("var"):
        return random.uniform(0.5, 1.5, shape).astype("float32")
    if name.endswith("gamma"):
        return random.uniform(0.75, 1.25, shape).astype("float32")
    if len(shape) >= 2:
        spread = np.sqrt(6 / max(1, np.prod(shape[1:])))
        return random.uniform(-spread, spread, shape).astype("float32")
    return random.uniform(-0.1, 0.1, shape).astype("float32")


def save(out: Path, name: str, symbol: Any, shapes: Dict[str, tuple], random: np.random.RandomState) -> None:
    """Writes the three files of a network whose inputs have these shapes."""
    arg_shapes, _, aux_shapes = symbol.infer_shape(**shapes)
    inputs = {key: random.uniform(0, 1, shape).astype("float32") for key, shape in shapes.items()}
    arguments = {key: inputs[key] if key in inputs else
                 np.zeros(shape, "float32") if "label" in key else fill(key, shape, random)
                 for key, shape in zip(symbol.list_arguments(), arg_shapes)}
    states = {key: fill(key, shape, random) for key, shape in zip(symbol.list_auxiliary_states(), aux_shapes)}
    executor = symbol.bind(mx.cpu(), {key: mx.nd.array(value) for key, value in arguments.items()},
                           aux_states={key: mx.nd.array(value) for key, value in states.items()}, grad_req="null")
    outputs = executor.forward(is_train=False)
    saved = {f"arg:{key}": mx.nd.array(value) for key, value in arguments.items() if key not in inputs}
    saved.update({f"aux:{key}": mx.nd.array(value) for key, value in states.items()})
    mx.nd.save(str(out / f"{name}-0000.params"), saved)
    expected = {f"input/{key}": mx.nd.array(value) for key, value in inputs.items()}
    expected.update({f"output/{i}": value for i, value in enumerate(outputs)})
    mx.nd.save(str(out / f"{name}-expected.params"), expected)
    sizes = ", ".join(f"{float(value.abs().mean().asscalar()):.3g}" for value in outputs)
    print(f"{name}: mean absolute values of the outputs: {sizes}", flush=True)


def export(out: Path, name: str, net: Any, shape: tuple) -> None:
    """Writes a Gluon network by its own export, with random weights."""
    random = np.random.RandomState(1)
    net.initialize()
    net.hybridize()
    net(mx.nd.zeros(shape))  # allocates the parameters
    for key, parameter in net.collect_params().items():
        parameter.set_data(mx.nd.array(fill(key, parameter.shape, random)))
    image = mx.nd.array(random.uniform(0, 1, shape).astype("float32"))
    output = net(image)
    net.export(str(out / name))
    mx.nd.save(str(out / f"{name}-expected.params"), {"input/data": image, "output/0": output})
    print(f"{name}: mean absolute output {float(output.abs().mean().asscalar()):.3g}", flush=True)


def main(arguments: list) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--graphs", type=Path)
    parser.add_argument("--only")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)

    def wanted(name: str) -> bool:
        return options.only in (None, name)

    if options.small:
        export(options.out, "residual", residual(), (2, 3, 32, 32))
        export(options.out, "mobile", mobile(), (2, 3, 24, 24))
    elif options.graphs:
        with open(options.graphs / "graphs.tsv", encoding="utf-8") as table:
            rows = [row for row in csv.DictReader(table, delimiter="\t") if row["output_shapes"]]
        for row in rows:
            name = row["file"].replace("-symbol.json", "")
            if not wanted(name):
                continue
            text = (options.graphs / row["file"]).read_text(encoding="utf-8")
            (options.out / row["file"]).write_text(text, encoding="utf-8")
            shape = tuple(ast.literal_eval(row["input_shape"]))
            save(options.out, name, mx.sym.load_json(text), {row["input"]: shape}, np.random.RandomState(1))
    else:
        for name, make in ZOO.items():
            if wanted(name):
                size = 299 if name == "inceptionv3" else 224
                export(options.out, name, make(), (1, 3, size, size))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
