"""Recording: scopes, functions of one's own, and errors."""

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, nd


class Sigmoid(autograd.Function):
    def forward(self, x):
        y = 1 / (1 + nd.exp(-x))
        self.save_for_backward(y)
        return y

    def backward(self, dy):
        (y,) = self.saved_tensors
        return dy * y * (1 - y)


class Raising(autograd.Function):
    def forward(self, x):
        return x * 1

    def backward(self, dy):
        raise ValueError("no gradient today")


def test_scopes_say_what_is_recorded():
    assert not autograd.is_recording() and not autograd.is_training()
    with autograd.record(train_mode=False):
        assert autograd.is_recording() and not autograd.is_training()
        with autograd.pause():
            assert not autograd.is_recording()
        with autograd.train_mode():
            assert autograd.is_training()


def test_a_function_of_ones_own():
    x = nd.array([-1.0, 0.0, 2.0])
    x.attach_grad()
    with autograd.record():
        y = Sigmoid()(x) * 2
    y.backward()
    sigmoid = 1 / (1 + np.exp(-x.asnumpy()))
    np.testing.assert_allclose(x.grad.asnumpy(), 2 * sigmoid * (1 - sigmoid), rtol=1e-5)


def test_a_function_that_raises_is_an_error_at_the_wait(capfd):
    x = nd.ones(3)
    x.attach_grad()
    with autograd.record():
        y = Raising()(x)
    with pytest.raises(mx.MXNetError):
        y.backward()
        x.grad.wait_to_read()
        nd.waitall()
    assert "no gradient today" in "".join(capfd.readouterr())
    assert (x + 1).sum().asscalar() == 6


def test_backward_of_what_was_not_recorded_is_an_error():
    x = nd.ones(3)
    x.attach_grad()
    with pytest.raises(mx.MXNetError):
        (x * 2).backward()


def test_gradients_stop_at_detach_and_go_through_a_view():
    x = nd.arange(6).reshape((2, 3))
    x.attach_grad()
    with autograd.record():
        y = (x[1] * x[1].detach()).sum()
    y.backward()
    assert x.grad.asnumpy().tolist() == [[0, 0, 0], [3, 4, 5]]


def test_several_heads_and_requests():
    x, w = nd.ones(2), nd.ones(2)
    x.attach_grad()
    w.attach_grad(grad_req="null")
    with autograd.record():
        y, z = x * w, x * 3
    autograd.backward([y, z], [nd.array([1, 2]), None])
    assert x.grad.asnumpy().tolist() == [4, 5]
    assert w.grad is None or not w.grad.asnumpy().any()


def gradient(function, *values):
    """Returns the gradients of the sum of what a function returns."""
    inputs = [nd.array(value) for value in values]
    for x in inputs:
        x.attach_grad()
    with autograd.record():
        out = function(*inputs)
    out.backward()
    return [x.grad.asnumpy().tolist() for x in inputs]


def test_gradients_at_zeros_and_of_constants():
    assert gradient(nd.prod, [2, 0, 3]) == [[0, 6, 0]]
    assert gradient(nd.prod, [2, 0, 0]) == [[0, 0, 0]]
    assert gradient(nd.nanprod, [2, 0, np.nan]) == [[0, 2, 0]]
    assert gradient(nd.power, [0, 0, 0], [0, 1, 2]) == [[0, 1, 0], [0, 0, 0]]
    assert gradient(lambda x: x**0, [0, 2]) == [[0, 0]]
    assert gradient(lambda x: 0**x, [0, 1]) == [[0, 0]]
    assert gradient(nd.broadcast_hypot, [0], [0, 0]) == [[0], [0, 0]]
    assert gradient(nd.norm, [0, 0]) == [[0, 0]]
    assert gradient(lambda x: nd.smooth_l1(x, scalar=0), [1, -2]) == [[0, 0]]
    box = [[0, 0, 2, 2]]
    assert gradient(nd.contrib.box_iou, box, box) == [[[0] * 4], [[0] * 4]]


def test_lengths_and_deviations_of_huge_numbers():
    x = nd.array([[3e30, 4e30]])
    np.testing.assert_allclose(nd.L2Normalization(x).asnumpy(), [[0.6, 0.8]], rtol=1e-6)
    y = nd.LayerNorm(nd.array([[1e30, -1e30]]), nd.ones(2), nd.zeros(2))
    np.testing.assert_allclose(y.asnumpy(), [[1, -1]], rtol=1e-6)
    y = nd.Pooling(x.reshape((1, 1, 2)), kernel=(2,), pool_type="lp", p_value=2)
    np.testing.assert_allclose(y.asnumpy(), [[[5e30]]], rtol=1e-6)


def test_a_length_that_a_row_does_not_have_is_an_error():
    x = nd.ones((2, 3))
    for length in ([1, 4], [-1, 3]):
        with pytest.raises(mx.MXNetError, match="length"):
            nd.softmax(x, nd.array(length, dtype="int32"), use_length=True).asnumpy()
    y = nd.softmax(x, nd.array([0, 1], dtype="int32"), use_length=True)
    assert y.asnumpy().tolist() == [[0, 0, 0], [1, 0, 0]]
