#!/usr/bin/python3
"""Runs programs with gradients in MXNet 1.9.1 and writes what they gave: programs.py [OUT]

Needs an environment with mxnet==1.9.1 and numpy==1.19.5 (Python 3.8), which nothing else here needs. For each program it
writes OUT/NAME.params, by default into expected/ beside this script: arrays "in:NAME" that the program starts from, and
"out:NAME" that it computes. mxnet_programs_test.cc has the same programs in C++, under the same names, and compares.
"""

import sys
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

import mxnet as mx  # pylint: disable=import-error
import numpy as np
from mxnet import autograd, nd  # pylint: disable=import-error

Arrays = Dict[str, Any]


class Inputs:
    """Random arrays that a program asks for by name and shape."""

    def __init__(self, seed: int):
        self.random = np.random.RandomState(seed)
        self.saved: Arrays = {}

    def uniform(self, name: str, *shape: int, low: float = -0.5, high: float = 0.5) -> Any:
        array = nd.array(self.random.uniform(low, high, shape).astype("float32"))
        self.saved["in:" + name] = array.copy()
        return array

    def parameter(self, name: str, *shape: int, grad_req: str = "write", **limits: float) -> Any:
        array = self.uniform(name, *shape, **limits)
        array.attach_grad(grad_req)
        return array

    def integers(self, name: str, count: int, below: int) -> Any:
        array = nd.array(self.random.randint(0, below, count).astype("float32"))
        self.saved["in:" + name] = array.copy()
        return array


def dense(x: Any, weight: Any, bias: Any) -> Any:
    return nd.FullyConnected(x, weight, bias, num_hidden=weight.shape[0])


def gradients(names: str, arrays: List[Any], prefix: str = "") -> Arrays:
    return {prefix + "grad_" + name: array.grad.copy() for name, array in zip(names.split(), arrays)}


def lstm_cells(inputs: Inputs) -> Arrays:
    """Four unrolled LSTM cells, gates in MXNet's order: input, forget, cell, output."""
    x = inputs.parameter("x", 4, 3, 5)
    target = inputs.uniform("target", 3, 6)
    names = "wx bx wh bh"
    weights = [inputs.parameter("wx", 24, 5), inputs.parameter("bx", 24), inputs.parameter("wh", 24, 6),
               inputs.parameter("bh", 24)]
    h, c = nd.zeros((3, 6)), nd.zeros((3, 6))
    with autograd.record():
        loss = 0
        for t in range(4):
            gates = dense(x[t], weights[0], weights[1]) + dense(h, weights[2], weights[3])
            i, f, g, o = nd.SliceChannel(gates, num_outputs=4, axis=1)
            c = nd.sigmoid(f) * c + nd.sigmoid(i) * nd.tanh(g)
            h = nd.sigmoid(o) * nd.tanh(c)
            loss = loss + nd.sum(nd.square(h - target))
    loss.backward()
    return {"loss": loss, "h": h, "grad_x": x.grad, **gradients(names, weights)}


def lstm_operator(inputs: Inputs) -> Arrays:
    """Two layers of the operator RNN, whose parameters are one vector."""
    x = inputs.parameter("x", 5, 2, 3)
    weights = inputs.parameter("parameters", 4 * 4 * (3 + 4) + 4 * 4 * (4 + 4) + 2 * 2 * 4 * 4)
    h, c = inputs.parameter("h", 2, 2, 4), inputs.parameter("c", 2, 2, 4)
    with autograd.record():
        out, last_h, last_c = nd.RNN(x, weights, h, c, state_size=4, num_layers=2, mode="lstm", state_outputs=True)
        loss = nd.sum(nd.square(out)) + nd.sum(last_h * last_c)
    loss.backward()
    return {"loss": loss, "out": out, **gradients("x parameters h c", [x, weights, h, c])}


def residual_block(inputs: Inputs) -> Arrays:
    """Two convolutions with a third beside them, BatchNorm in training, a classifier behind it."""
    x = inputs.parameter("x", 4, 3, 6, 6)
    label = inputs.integers("label", 4, 5)
    conv = {name: inputs.parameter(name, *shape) for name, shape in (
        ("w1", (8, 3, 3, 3)), ("w2", (8, 8, 3, 3)), ("w3", (8, 3, 1, 1)))}
    norm = {}
    for layer in "123":
        norm[layer] = [inputs.parameter("gamma" + layer, 8, low=0.5, high=1.5), inputs.parameter("beta" + layer, 8),
                       inputs.uniform("mean" + layer, 8), inputs.uniform("var" + layer, 8, low=0.5, high=1.5)]
    w, b = inputs.parameter("w", 5, 8), inputs.parameter("b", 5)

    def convolve(data: Any, layer: str, kernel: int, pad: int, stride: int) -> Any:
        y = nd.Convolution(data, conv["w" + layer], kernel=(kernel, kernel), pad=(pad, pad), stride=(stride, stride),
                           num_filter=8, no_bias=True)
        return nd.BatchNorm(y, *norm[layer], fix_gamma=False)

    with autograd.record():
        y = convolve(nd.relu(convolve(x, "1", 3, 1, 2)), "2", 3, 1, 1)
        y = nd.relu(y + convolve(x, "3", 1, 0, 2))
        y = nd.Flatten(nd.Pooling(y, kernel=(3, 3), pool_type="avg", global_pool=True))
        loss = nd.softmax_cross_entropy(dense(y, w, b), label)
    loss.backward()
    result = {"loss": loss, **gradients("x w1 w2 w3 w b", [x, *conv.values(), w, b])}
    for layer in "123":
        result.update(gradients(f"gamma{layer} beta{layer}", norm[layer][:2]))
        result.update({"mean" + layer: norm[layer][2], "var" + layer: norm[layer][3]})
    return result


def gan(inputs: Inputs) -> Arrays:
    """Two losses over one graph: the discriminator's keeps it for the generator's."""
    z, real = inputs.uniform("z", 6, 3), inputs.uniform("real", 6, 4)
    names = "g1 g2 g3 g4 d1 d2 d3 d4"
    shapes = ((8, 3), (8,), (4, 8), (4,), (8, 4), (8,), (1, 8), (1,))
    p = [inputs.parameter(name, *shape) for name, shape in zip(names.split(), shapes)]

    def discriminate(x: Any) -> Any:
        return dense(nd.LeakyReLU(dense(x, p[4], p[5]), act_type="leaky", slope=0.2), p[6], p[7])

    def softplus(x: Any) -> Any:
        return nd.Activation(x, act_type="softrelu")

    with autograd.record():
        fake = nd.tanh(dense(nd.relu(dense(z, p[0], p[1])), p[2], p[3]))
        judged = discriminate(fake)
        loss_d = nd.mean(softplus(-discriminate(real))) + nd.mean(softplus(judged))
        loss_g = nd.mean(softplus(-judged))
    loss_d.backward(retain_graph=True)
    of_discriminator = gradients(names, p, "d_")
    loss_g.backward()
    return {"loss_d": loss_d, "loss_g": loss_g, **of_discriminator, **gradients(names, p, "g_")}


def accumulation(inputs: Inputs) -> Arrays:
    """Gradients of three batches that are added up, with a step in between."""
    w, b = inputs.parameter("w", 3, 4, grad_req="add"), inputs.parameter("b", 3, grad_req="add")
    for batch in range(3):
        x = inputs.uniform(f"x{batch}", 5, 4)
        with autograd.record():
            loss = nd.mean(nd.square(nd.tanh(dense(x, w, b))))
        loss.backward()
    nd.sgd_update(w, w.grad, lr=0.5, out=w)
    return {"loss": loss, "w": w, **gradients("w b", [w, b])}


def detach(inputs: Inputs) -> Arrays:
    """Values that gradients do not pass: by detach, by BlockGrad and by a pause."""
    x, w = inputs.parameter("x", 4, 3), inputs.parameter("w", 3, 3)
    with autograd.record():
        y = nd.tanh(nd.dot(x, w))
        z = y * y.detach() + nd.BlockGrad(nd.exp(y)) * x
        with autograd.pause():
            factor = y * 2
        loss = nd.sum(z * factor)
    loss.backward()
    return {"loss": loss, **gradients("x w", [x, w])}


def penalized(arrays: List[Any]) -> Tuple[Any, Any]:
    """The loss of WGAN-GP, whose second part is the norm of a gradient, and that gradient."""
    x, w1, b1, w2, b2 = arrays
    with autograd.record():
        score = dense(nd.tanh(dense(x, w1, b1)), w2, b2)
        slope = autograd.grad(score, x, create_graph=True, retain_graph=True)[0]
        norm = nd.sqrt(nd.sum(nd.square(slope), axis=1) + 1e-6)
        return nd.mean(score) + 10 * nd.mean(nd.square(norm - 1)), slope


def gradient_penalty(inputs: Inputs) -> Arrays:
    """The gradient's norm as a part of a loss.

    MXNet's gradient of FullyConnected's gradient leaves out the head gradient (that of sum(square(grad(square(fc)))) with
    respect to x is 0), so the gradients here are differences of MXNet's loss in float64.
    """
    names = "x w1 b1 w2 b2"
    arrays = [inputs.parameter(name, *shape) for name, shape in zip(names.split(), (
        (5, 4), (6, 4), (6,), (1, 6), (1,)))]
    loss, slope = penalized(arrays)
    doubles = [nd.array(array.asnumpy(), dtype="float64") for array in arrays]
    doubles[0].attach_grad()
    result = {"loss": loss, "slope": slope}
    step = 1e-5
    for name, array in zip(names.split(), doubles):
        values = array.asnumpy()
        gradient = np.zeros(values.shape)
        for index in np.ndindex(*values.shape):
            losses = []
            for sign in (1, -1):
                moved = values.copy()
                moved[index] += sign * step
                array[:] = moved
                losses.append(penalized(doubles)[0].asscalar())
            gradient[index] = (losses[0] - losses[1]) / (2 * step)
        array[:] = values
        result["grad_" + name] = nd.array(gradient.astype("float32"))
    return result


SECOND = ("sin", "cos", "exp", "log", "tanh", "sigmoid", "sqrt", "square", "reciprocal", "arctan", "cbrt")


def second_derivatives(inputs: Inputs) -> Arrays:
    """First and second derivatives of functions of elements."""
    result = {}
    for name in SECOND:
        x = inputs.parameter("x_" + name, 7, low=0.3, high=1.7)
        factor = inputs.uniform("factor_" + name, 7)
        with autograd.record():
            y = getattr(nd, name)(x)
            first = autograd.grad(y, x, head_grads=factor, create_graph=True, retain_graph=True)[0]
        first.backward()
        result.update({"first_" + name: first, "second_" + name: x.grad.copy()})
    return result


PROGRAMS: List[Callable[[Inputs], Arrays]] = [
    lstm_cells, lstm_operator, residual_block, gan, accumulation, detach, gradient_penalty, second_derivatives]


def main() -> None:
    out = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent / "expected"
    out.mkdir(parents=True, exist_ok=True)
    for seed, program in enumerate(PROGRAMS):
        inputs = Inputs(seed)
        result = program(inputs)
        nd.save(str(out / f"{program.__name__}.params"),
                {**inputs.saved, **{"out:" + name: array for name, array in result.items()}})
        print(program.__name__, len(result), "results")


if __name__ == "__main__":
    main()
