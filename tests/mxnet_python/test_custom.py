"""Operators written in Python."""

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd


class Scaled(mx.operator.CustomOp):
    """out = factor * x, and a state that counts calls in training."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, is_train, req, in_data, out_data, aux):
        if is_train:
            aux[0][:] += 1
        self.assign(out_data[0], req[0], in_data[0] * self.factor)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * self.factor)


@mx.operator.register("tests_scaled")
class ScaledProp(mx.operator.CustomOpProp):
    def __init__(self, factor="2"):
        super().__init__(need_top_grad=True)
        self.factor = float(factor)

    def list_auxiliary_states(self):
        return ["count"]

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0]], [(1,)]

    def create_operator(self, ctx, shapes, dtypes):
        return Scaled(self.factor)


class ByNumPy(mx.operator.CustomOp):
    """A loss in NumPy, whose backward takes no gradient from above."""

    def forward(self, is_train, req, in_data, out_data, aux):
        x = in_data[0].asnumpy()
        y = np.exp(x - x.max(axis=1, keepdims=True))
        self.assign(out_data[0], req[0], nd.array(y / y.sum(axis=1, keepdims=True)))

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        label = in_data[1].asnumpy().astype(int)
        y = out_data[0].asnumpy()
        y[np.arange(len(label)), label] -= 1
        self.assign(in_grad[0], req[0], nd.array(y))


@mx.operator.register("tests_softmax")
class ByNumPyProp(mx.operator.CustomOpProp):
    def __init__(self):
        super().__init__(need_top_grad=False)

    def list_arguments(self):
        return ["data", "label"]

    def infer_shape(self, in_shape):
        return [in_shape[0], in_shape[0][:1]], [in_shape[0]], []

    def create_operator(self, ctx, shapes, dtypes):
        return ByNumPy()


class Raising(mx.operator.CustomOp):
    def __init__(self, where):
        super().__init__()
        self.where = where

    def forward(self, is_train, req, in_data, out_data, aux):
        if self.where == "forward":
            raise ValueError("no output today")
        self.assign(out_data[0], req[0], in_data[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        raise ValueError("no gradient today")


@mx.operator.register("tests_raising")
class RaisingProp(mx.operator.CustomOpProp):
    def __init__(self, where):
        super().__init__()
        self.where = where

    def create_operator(self, ctx, shapes, dtypes):
        return Raising(self.where)


def test_called_on_arrays_with_a_state_and_a_parameter():
    x, count = nd.array([[1.0, 2.0]]), nd.zeros(1)
    x.attach_grad()
    assert nd.Custom(x, count, op_type="tests_scaled").asnumpy().tolist() == [[2, 4]]
    with autograd.record():
        y = nd.Custom(x, count, op_type="tests_scaled", factor=5)
    y.backward(nd.array([[1, 10]]))
    assert y.asnumpy().tolist() == [[5, 10]] and x.grad.asnumpy().tolist() == [[5, 50]]
    assert count.asscalar() == 1


def test_in_a_symbol_that_trains():
    net = mx.sym.FullyConnected(mx.sym.Variable("data"), num_hidden=2, name="fc")
    net = mx.sym.Custom(net, mx.sym.Variable("softmax_label"), op_type="tests_softmax", name="softmax")
    assert net.list_arguments() == ["data", "fc_weight", "fc_bias", "softmax_label"]
    data = np.random.RandomState(1).uniform(-1, 1, (64, 2)).astype("float32")
    batches = mx.io.NDArrayIter(data, (data[:, 0] > data[:, 1]).astype("float32"), 16)
    module = mx.mod.Module(net)
    module.fit(batches, num_epoch=10, optimizer_params={"learning_rate": 0.5}, initializer=mx.init.Xavier())
    assert dict(module.score(batches, "acc"))["accuracy"] >= 0.9


def test_in_a_hybridized_block():
    class Block(gluon.HybridBlock):
        def hybrid_forward(self, F, x):
            label = F.zeros_like(F.sum(x, axis=1))
            return F.Custom(x * 2, label, op_type="tests_softmax") + 1

    net = Block()
    expected = net(nd.array([[0, 1]])).asnumpy()
    net.hybridize()
    for _ in range(3):
        np.testing.assert_allclose(net(nd.array([[0, 1]])).asnumpy(), expected, rtol=1e-5)


def test_many_calls_keep_their_order():
    x, count = nd.ones((2, 2)), nd.zeros(1)
    for _ in range(50):
        x = nd.Custom(x, count, op_type="tests_scaled", factor=1.5)
        x = x / 1.5
    np.testing.assert_allclose(x.asnumpy(), 1, rtol=1e-4)


def test_an_operator_that_raises_is_an_error_at_the_wait():
    for _ in range(2):
        with pytest.raises(mx.MXNetError):
            y = nd.Custom(nd.ones(3), op_type="tests_raising", where="forward")
            (y + 1).wait_to_read()
        with pytest.raises(mx.MXNetError):
            nd.waitall()
            nd.Custom(nd.ones(3), op_type="tests_raising", where="forward").asnumpy()
    x = nd.ones(3)
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type="tests_raising", where="backward")
    assert (y.asnumpy() == 1).all()
    with pytest.raises(mx.MXNetError):
        y.backward()
        x.grad.wait_to_read()
    assert (nd.ones(3) * 2).sum().asscalar() == 6


def test_an_operator_that_nobody_registered_is_an_error():
    with pytest.raises(mx.MXNetError):
        nd.Custom(nd.ones(3), op_type="tests_nobody").wait_to_read()
