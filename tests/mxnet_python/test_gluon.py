"""Gluon: training with a data loader, and what its blocks do beside numbers."""

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd

import digits
import networks


def network():
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(8, 3, padding=1, activation="relu"), gluon.nn.MaxPool2D(), gluon.nn.Flatten(),
            gluon.nn.Dense(32, activation="relu"), gluon.nn.Dropout(0.1), gluon.nn.Dense(10))
    return net


@pytest.mark.parametrize("hybrid", [False, True])
def test_a_network_learns_the_digits(hybrid):
    mx.random.seed(1)
    np.random.seed(1)
    net = network()
    net.initialize(mx.init.Xavier())
    if hybrid:
        net.hybridize(static_alloc=True, static_shape=True)
    images, labels = digits.arrays("train")
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset(images, labels), 32, shuffle=True, num_workers=2)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": 0.005})
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    for _ in range(12):
        for batch in loader:
            image, label = (array.as_in_context(mx.cpu()) for array in batch)
            with autograd.record():
                loss = loss_of(net(image), label)
            loss.backward()
            trainer.step(len(label))
    images, labels = digits.arrays("t10k")
    accuracy = mx.metric.Accuracy()
    accuracy.update([nd.array(labels)], [net(nd.array(images))])
    assert accuracy.get()[1] >= 0.9


def test_dropout_is_of_training_alone():
    layer = gluon.nn.Dropout(0.5)
    x = nd.ones((100, 100))
    assert (layer(x).asnumpy() == 1).all()
    with autograd.train_mode():
        kept = layer(x).asnumpy()
    assert set(np.unique(kept)) == {0, 2} and 0.4 < (kept == 2).mean() < 0.6


def test_batch_norm_learns_its_statistics():
    layer = gluon.nn.BatchNorm(in_channels=2, momentum=0.5)
    layer.initialize()
    layer.hybridize()
    with autograd.record():
        out = layer(nd.array([[1, 10], [3, 30]]))
    out.backward()
    np.testing.assert_allclose(layer.running_mean.data().asnumpy(), [1, 10])


def test_a_block_of_ones_own_runs_both_ways():
    class Gate(gluon.HybridBlock):
        def __init__(self):
            super().__init__()
            with self.name_scope():
                self.scale = self.params.get("scale", shape=(3,), init=mx.init.Constant(2))
                self.dense = gluon.nn.Dense(3, in_units=3)

        def hybrid_forward(self, F, x, scale):
            return F.broadcast_mul(F.sigmoid(self.dense(x)), scale) + F.zeros_like(x)

    net = Gate()
    networks.set_parameters(net)
    x = nd.array([[1, 2, 3]])
    expected = net(x).asnumpy()
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), expected, rtol=1e-6)


def test_a_mask_of_rows_runs_both_ways():
    class Kept(gluon.HybridBlock):
        def hybrid_forward(self, F, x, mask):
            return F.sum(F.square(F.contrib.boolean_mask(x * 2, mask)), axis=1)

    net = Kept()
    x, masks = nd.array([[1, 2], [3, 4], [5, 6]]), (nd.array([0, 1, 1]), nd.array([1, 0, 0]))
    for hybrid in (False, True):
        if hybrid:
            net.hybridize()
        for mask, sums, grads in zip(masks, ([100, 244], [20]), ([0, 24, 40], [8, 0, 0])):
            x.attach_grad()
            with autograd.record():
                y = net(x, mask)
            y.backward()
            np.testing.assert_allclose(y.asnumpy(), sums)
            np.testing.assert_allclose(x.grad.asnumpy()[:, 0], grads)


# MXNet's own library runs a projected layer on the CPU, but does not train it.
@pytest.mark.parametrize("trained", [False, pytest.param(True, marks=pytest.mark.ours)])
def test_a_projected_lstm_is_its_cells(trained):
    layer = gluon.rnn.LSTM(5, num_layers=1, projection_size=3, input_size=4)
    layer.initialize(mx.init.Uniform(0.5))
    cell = gluon.contrib.rnn.LSTMPCell(5, 3, input_size=4)
    cell.initialize()
    for name in ("i2h_weight", "h2h_weight", "h2r_weight", "i2h_bias", "h2h_bias"):
        getattr(cell, name).set_data(getattr(layer, "l0_" + name).data())
    x = nd.array(np.random.RandomState(3).uniform(-1, 1, (6, 2, 4)))
    with autograd.record(train_mode=trained):
        y, (h, c) = layer(x, layer.begin_state(2))
        expected, states = cell.unroll(6, x, layout="TNC", merge_outputs=True)
        parts = [(y * y).sum() + h.sum() + c.sum(),
                 (expected * expected).sum() + states[0].sum() + states[1].sum()]
    np.testing.assert_allclose(y.asnumpy(), expected.asnumpy(), rtol=1e-5, atol=1e-6)
    if trained:
        for part in parts:
            part.backward()
        for name in ("i2h_weight", "h2h_weight", "h2r_weight", "i2h_bias", "h2h_bias"):
            np.testing.assert_allclose(getattr(layer, "l0_" + name).grad().asnumpy(),
                                       getattr(cell, name).grad().asnumpy(), rtol=1e-4, atol=1e-5)


def channels(layout):
    """Layers of every kind whose layout can be chosen."""
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(4, (3, 2), padding=(1, 0), groups=2, in_channels=2, layout=layout),
            gluon.nn.BatchNorm(axis=layout.index("C"), in_channels=4), gluon.nn.MaxPool2D(2, 1, layout=layout),
            gluon.nn.Conv2DTranspose(3, 2, strides=2, in_channels=4, layout=layout),
            gluon.nn.AvgPool2D(2, layout=layout), gluon.nn.GlobalAvgPool2D(layout=layout))
    net.initialize(mx.init.Uniform(0.5))
    return net


# MXNet's own library has no such layers on the CPU.
@pytest.mark.ours
@pytest.mark.parametrize("hybrid", [False, True])
def test_channels_may_be_last(hybrid):
    first, last = channels("NCHW"), channels("NHWC")
    if hybrid:
        first.hybridize()
        last.hybridize()
    for one, other in zip(first.collect_params().values(), last.collect_params().values()):
        value = one.data()
        other.set_data(value.transpose((0, 2, 3, 1)) if value.ndim == 4 else value)
    x = nd.array(np.random.RandomState(5).uniform(-1, 1, (2, 2, 6, 5)))
    inputs = x, x.transpose((0, 2, 3, 1))
    for array in inputs:
        array.attach_grad()
    with autograd.record():
        outs = first(inputs[0]), last(inputs[1])
        losses = [(out * out).sum() for out in outs]
    autograd.backward(losses)
    assert outs[1].shape == (2, 1, 1, 3)
    np.testing.assert_allclose(outs[1].transpose((0, 3, 1, 2)).asnumpy(), outs[0].asnumpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(inputs[1].grad.transpose((0, 3, 1, 2)).asnumpy(), inputs[0].grad.asnumpy(),
                               rtol=1e-4, atol=1e-6)
    for one, other in zip(first.collect_params().values(), last.collect_params().values()):
        if one.grad_req != "null":
            expected = one.grad().transpose((0, 2, 3, 1)) if one.grad().ndim == 4 else one.grad()
            np.testing.assert_allclose(other.grad().asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-5)


def test_gradients_of_two_batches_add_up():
    net = gluon.nn.Dense(1, in_units=2)
    net.initialize(mx.init.One())
    net.weight.grad_req = "add"
    for factor in (1, 2):
        with autograd.record():
            loss = net(factor * nd.ones((1, 2)))
        loss.backward()
    assert net.weight.grad().asnumpy().tolist() == [[3, 3]]


def test_a_trainer_saves_its_states(tmp_path):
    net = networks.hybrid_network()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1, "momentum": 0.9})
    with autograd.record():
        loss = net(nd.ones((2, 3, 8, 8))).sum()
    loss.backward()
    trainer.step(1)
    trainer.save_states(str(tmp_path / "states"))
    trainer.load_states(str(tmp_path / "states"))
    trainer.set_learning_rate(0.01)
    assert trainer.learning_rate == 0.01


def test_gradients_are_clipped_by_their_norm():
    arrays = [nd.array([3.0]), nd.array([4.0])]
    assert gluon.utils.clip_global_norm(arrays, 1.0) == pytest.approx(5)
    np.testing.assert_allclose([array.asscalar() for array in arrays], [0.6, 0.8], rtol=1e-5)


def test_a_summary_and_a_picture_of_a_network(capsys):
    network_of = networks.hybrid_network()
    network_of.summary(nd.ones((1, 3, 8, 8)))
    assert "Dense" in capsys.readouterr().out
    mx.viz.print_summary(networks.convolutional_symbol(), shape={"data": (1, 3, 8, 8)})
    assert "Total params: 445" in capsys.readouterr().out


def hooked(net, monitor_all):
    net.initialize()
    net.hybridize()
    seen = []
    net.register_op_hook(lambda name, op, _: seen.append(f"{mx.base.py_str(name)} of {mx.base.py_str(op)}"), monitor_all)
    net(nd.ones((2, 3)))
    return seen


def test_a_hook_hears_the_names_of_mxnet():
    net = gluon.nn.HybridSequential(prefix="net_")
    with net.name_scope():
        root = gluon.nn.HybridLambda(lambda F, x: F.sqrt(x, name="root"))
        net.add(gluon.nn.Dense(2), gluon.nn.Activation("relu"), root)
    assert hooked(net, True) == [
        "net_dense0_fwd_data of FullyConnected", "net_dense0_fwd_weight of FullyConnected",
        "net_dense0_fwd_bias of FullyConnected", "net_dense0_fwd_output of FullyConnected",
        "net_relu0_fwd_input0 of Activation", "net_relu0_fwd_output of Activation",
        "net_hybridlambda0_root_input0 of sqrt", "net_hybridlambda0_root_0 of sqrt"]


def test_a_small_block_is_inlined_into_the_tape():
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Dense(4), gluon.nn.Dense(4), gluon.nn.Dense(4))
    net.initialize()

    def recorded(**flags):
        net.hybridize(**flags)
        with autograd.record():
            y = net(nd.ones((1, 4)))
        names = autograd.get_symbol(y).get_internals().list_outputs()
        y.backward()
        return len(names)

    assert recorded(inline_limit=3) == recorded(inline_limit=2) + 2 == recorded() + 2
