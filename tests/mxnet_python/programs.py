"""Programs whose numbers are the same on both libraries: programs.py OUT

Each returns arrays by name. Run as a program, they write OUT/NAME.npz on MXNet's own library, and
OUT/files, which the tests of files read. No program depends on random numbers of the library's.
"""

import os
import sys

import mxnet as mx
import numpy as np
from mxnet import autograd, gluon, nd

import files
import networks

OPTIMIZERS = {
    "sgd": {"learning_rate": 0.1, "wd": 0.01},
    "sgd_momentum": {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01},
    "sgd_clipped": {"learning_rate": 0.1, "clip_gradient": 0.2, "rescale_grad": 0.5},
    "nag": {"learning_rate": 0.1, "momentum": 0.9},
    "adam": {"learning_rate": 0.1, "wd": 0.01},
    "rmsprop": {"learning_rate": 0.1},
    "rmsprop_centered": {"learning_rate": 0.1, "centered": True},
    "signum": {"learning_rate": 0.1, "momentum": 0.9},
    "signum_plain": {"learning_rate": 0.1, "momentum": 0.0},
    "ftrl": {"learning_rate": 0.1},
    "ftml": {"learning_rate": 0.1},
    "lamb": {"learning_rate": 0.1, "wd": 0.01},
    "adagrad": {"learning_rate": 0.1},
    "adadelta": {},
    "adamax": {"learning_rate": 0.1},
    "nadam": {"learning_rate": 0.1},
    "dcasgd": {"learning_rate": 0.1},
    "lbsgd": {"learning_rate": 0.1},
}
# These have operators for weights in float16 with a copy in float32. So has LAMB, whose second step
# in float16 MXNet's own library gets wrong.
IN_HALF = ("sgd", "sgd_momentum", "nag")


def uniform(seed, *shape):
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype("float32")


def arrays():
    """Operators called on arrays, slices of every kind, and assignments to them."""
    x, y = nd.array(uniform(0, 2, 3, 4)), nd.array(uniform(1, 4, 5))
    n = nd.arange(24).reshape((2, 3, 4))
    found = {
        "row": n[1], "middle": n[:, 1:3], "step": n[..., ::2], "reversed": n[:, ::-1], "last": n[:, -1],
        "picked": n[nd.array([1, 0])], "new_axis": n[:, None, 0], "mask": n[0] > 5,
        "sum": x.sum(axis=1), "mean": x.mean(), "max": x.max(axis=(0, 2)), "argmax": x.argmax(axis=1),
        "norm": x.norm(), "transposed": x.T, "swapped": x.swapaxes(0, 2), "reshaped": x.reshape((-1, 0), reverse=True),
        "dot": nd.dot(x, y), "batch_dot": nd.batch_dot(x, x, transpose_b=True), "added": x + x[:1],
        "power": nd.abs(x) ** 0.5, "divided": 1 / (x + 2), "compared": x > x[1:], "modulo": n % 7,
        "concat": nd.concat(x, x, dim=1), "stack": nd.stack(x, x, axis=1), "tile": nd.tile(x, (1, 2, 1)),
        "repeat": x.repeat(2, axis=2), "clip": x.clip(-0.5, 0.5), "where": nd.where(x > 0, x, -x),
        "take": nd.take(n, nd.array([1, 1])), "one_hot": nd.one_hot(nd.array([1, 0]), 3), "sort": x.sort(axis=0),
        "topk": x.topk(k=2, ret_typ="value"), "softmax": nd.softmax(x), "int64": n.astype("int64"),
        "half": x.astype("float16"), "bytes": n.astype("uint8") + 250, "pad": nd.pad(
            x.reshape((1, 2, 3, 4)), mode="edge", pad_width=(0, 0, 0, 0, 1, 1, 2, 0)),
        "written": np.array(str(n)), "written_ints": np.array(repr(n[0].astype("int32"))),
    }
    found["split_0"], found["split_1"] = nd.split(x, 2, axis=2)
    changed = n.copy()
    changed[0] = 7
    changed[:, 1] = nd.array([1, 2, 3, 4])
    changed[1, 2, 1:3] += 100
    changed[1:, :, -1] = np.array([[8, 9, 10]])
    found["changed"] = changed
    view = changed[0]
    view[:] = -1
    found["through_a_view"] = changed
    return found


def gradients():
    """What autograd gives: through operators, added up, with heads, twice, and past a stop."""
    x, w = nd.array(uniform(2, 4, 3)), nd.array(uniform(3, 3, 3))
    x.attach_grad()
    w.attach_grad(grad_req="add")
    for _ in range(2):
        with autograd.record():
            y = nd.tanh(nd.dot(x, w))
            z = (y * y.detach() + nd.BlockGrad(nd.exp(y)) * x).sum() + nd.softmax(y, axis=1)[:, 0].sum()
        z.backward()
    found = {"x": x.grad.copy(), "w": w.grad.copy()}
    with autograd.record():
        y = nd.sigmoid(x) * x
    y.backward(nd.array(uniform(4, 4, 3)))
    found["with_heads"] = x.grad.copy()
    with autograd.record():
        y = nd.sin(x)
        (first,) = autograd.grad(y, [x], create_graph=True, retain_graph=True)
        second = (first * first).sum()
    second.backward()
    found.update(first=first, second=x.grad)
    return found


def symbols():
    """A bound graph: its shapes, outputs and gradients, in training and not."""
    net = networks.convolutional_symbol()
    arguments, outputs, states = net.infer_shape(data=(2, 3, 8, 8), softmax_label=(2,))
    found = {"shapes": np.array(str((arguments, outputs, states))), "names": np.array(str(net.list_arguments())),
             "types": np.array(str(net.infer_type(data="float32")))}
    executor = net.simple_bind(mx.cpu(), data=(2, 3, 8, 8), softmax_label=(2,), grad_req="write")
    for seed, name in enumerate(sorted(executor.arg_dict)):
        executor.arg_dict[name][:] = uniform(seed, *executor.arg_dict[name].shape)
    executor.arg_dict["softmax_label"][:] = [1, 3]
    executor.aux_dict["norm_moving_var"][:] = 1
    found["inferred"] = executor.forward(is_train=False)[0].asnumpy()
    executor.forward(is_train=True)
    executor.backward()
    found["trained"] = executor.outputs[0]
    found.update({"grad_" + name: array for name, array in executor.grad_dict.items() if array is not None})
    found.update({"state_" + name: array for name, array in executor.aux_dict.items()})
    return found


def gluon_training():
    """Three steps of a network of layers, run layer by layer and hybridized."""
    found = {}
    for hybrid in (False, True):
        net = networks.hybrid_network()
        if hybrid:
            net.hybridize(static_alloc=True)
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
        loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
        for step in range(3):
            x, label = nd.array(uniform(step, 4, 3, 8, 8)), nd.array([0, 1, 2, 3])
            with autograd.record():
                loss = loss_of(net(x), label)
            loss.backward()
            trainer.step(4)
            found[f"loss_{hybrid}_{step}"] = loss
        found[f"output_{hybrid}"] = net(nd.array(uniform(9, 2, 3, 8, 8)))
    return found


def lstm():
    """Two layers of LSTM, a bidirectional GRU and cells that are unrolled: outputs, states, gradients."""
    found = {}
    x = nd.array(uniform(5, 6, 3, 5))
    x.attach_grad()
    for name, layer in (("lstm", gluon.rnn.LSTM(7, num_layers=2, input_size=5)),
                        ("gru", gluon.rnn.GRU(4, bidirectional=True, input_size=5)),
                        ("rnn", gluon.rnn.RNN(4, activation="tanh", input_size=5))):
        networks.set_parameters(layer)
        with autograd.record():
            out, states = layer(x, layer.begin_state(batch_size=3))
            (out * out).sum().backward()
        found.update({f"{name}_state_{i}": state for i, state in enumerate(states)})
        found.update({f"{name}_out": out, f"{name}_grad": x.grad.copy()})
    cell = gluon.rnn.LSTMCell(7, input_size=5)
    networks.set_parameters(cell)
    outputs, _ = cell.unroll(6, x, layout="TNC", merge_outputs=True)
    found["cell_out"] = outputs
    return found


def optimizers():
    """Two steps of every optimizer."""
    found = {}
    for name, kind in [(name, "float32") for name in OPTIMIZERS] + [(name, "float16") for name in IN_HALF]:
        optimizer = mx.optimizer.create(
            name.partition("_")[0], multi_precision=kind == "float16", **OPTIMIZERS[name])
        # Otherwise LAMB takes steps of many weights at once, whose operators are others.
        optimizer.aggregate_num = 0
        weight = nd.array(uniform(6, 3, 4), dtype=kind)
        update = mx.optimizer.get_updater(optimizer)
        for step in range(2):
            update(0, nd.array(uniform(7 + step, 3, 4), dtype=kind), weight)
        found[name + "_" + kind] = weight
    return found


def trainers():
    """Two steps of a Trainer with three weights, which these optimizers change by one operator."""
    found = {}
    for name in ("sgd", "lamb", "lars"):
        weights = [gluon.Parameter("weight%d" % i, shape=(3, 4)) for i in range(3)]
        for i, weight in enumerate(weights):
            weight.initialize()
            weight.set_data(nd.array(uniform(20 + i, 3, 4)))
        trainer = gluon.Trainer(weights, name, {"learning_rate": 0.1, "wd": 0.01})
        for _ in range(2):
            with autograd.record():
                loss = sum((weight.data()**3).sum() for weight in weights)
            loss.backward()
            trainer.step(1)
        found.update({"%s_%s" % (name, weight.name): weight.data() for weight in weights})
    return found


def losses():
    """Gluon's losses and their gradients."""
    found = {}
    for name, label in (("L2Loss", uniform(8, 4, 5)), ("L1Loss", uniform(8, 4, 5)), ("HuberLoss", uniform(8, 4, 5)),
                        ("SigmoidBCELoss", uniform(8, 4, 5) > 0), ("SoftmaxCELoss", np.array([0, 4, 2, 1])),
                        ("KLDivLoss", np.abs(uniform(8, 4, 5))), ("HingeLoss", np.sign(uniform(8, 4, 5)))):
        x = nd.array(uniform(10, 4, 5))
        x.attach_grad()
        with autograd.record():
            loss = getattr(gluon.loss, name)()(x, nd.array(label.astype("float32")))
        loss.backward()
        found.update({name: loss, name + "_grad": x.grad})
    return found


def metrics():
    """The metrics, which are Python over arrays."""
    score = nd.softmax(nd.array(uniform(11, 8, 4)))
    label = nd.array([0, 1, 2, 3, 0, 1, 2, 3])
    binary, positive = nd.softmax(nd.array(uniform(12, 8, 2))), nd.array([0, 1, 0, 1, 1, 1, 0, 0])
    found = {}
    for metric, labels, predictions in (
            (mx.metric.Accuracy(), label, score), (mx.metric.TopKAccuracy(2), label, score),
            (mx.metric.CrossEntropy(), label, score), (mx.metric.NegativeLogLikelihood(), label, score),
            (mx.metric.Perplexity(None), label, score), (mx.metric.F1(), positive, binary),
            (mx.metric.MCC(), positive, binary), (mx.metric.MAE(), label, label + 0.5),
            (mx.metric.MSE(), label, label + 0.5), (mx.metric.RMSE(), label, label + 0.5),
            (mx.metric.PearsonCorrelation(), nd.array(uniform(13, 8)), nd.array(uniform(14, 8))),
            (mx.metric.Loss(), label, score)):
        for _ in range(2):
            metric.update([labels], [predictions])
        name, value = metric.get()
        found[name] = np.array(value)
    return found


def zoo():
    """Two networks of the model zoo's classes, small, in inference."""
    found = {}
    for name, net in networks.zoo_networks():
        found[name] = net(nd.array(uniform(15, 2, 3, 32, 32)))
    return found


PROGRAMS = {program.__name__: program for program in (
    arrays, gradients, symbols, gluon_training, lstm, optimizers, trainers, losses, metrics, zoo)}


def results(name):
    """A program's arrays, as NumPy's."""
    return {key: value.asnumpy() if isinstance(value, nd.NDArray) else value
            for key, value in PROGRAMS[name]().items()}


def main():
    out = sys.argv[1]
    for name in PROGRAMS:
        np.savez(os.path.join(out, name), **results(name))
    folder = os.path.join(out, "files")
    os.mkdir(folder)
    files.write(folder)


if __name__ == "__main__":
    main()
