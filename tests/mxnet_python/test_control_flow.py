"""Loops and branches: foreach, while_loop and cond in arrays, graphs and hybridized blocks."""

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd


class Loop(gluon.HybridBlock):
    """A recurrent cell over the rows of its input."""

    def __init__(self, units):
        super().__init__()
        with self.name_scope():
            self.cell = gluon.rnn.LSTMCell(units)
            self.scale = self.params.get("scale", shape=(units,), init="ones")

    def hybrid_forward(self, F, data, hidden, memory, scale):
        def step(row, states):
            out, states = self.cell(row, states)
            return F.broadcast_mul(out, scale), states

        out, states = F.contrib.foreach(step, data, [hidden, memory])
        return out, states[0], states[1]


def run(block, arrays):
    arrays = [array.copy() for array in arrays]
    for array in arrays:
        array.attach_grad()
    with autograd.record():
        outs = block(*arrays)
        total = sum((out * out).sum() for out in outs)
    total.backward()
    numbers = [out.asnumpy() for out in outs] + [array.grad.asnumpy() for array in arrays]
    return numbers + [p.grad().asnumpy() for p in block.collect_params().values()]


def assert_same(actual, expected):
    assert len(actual) == len(expected)
    for a, b in zip(actual, expected):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_foreach_is_the_same_hybridized_or_not():
    mx.random.seed(3)
    block = Loop(6)
    block.initialize(mx.init.Normal(0.5))
    arrays = [nd.random.normal(shape=shape) for shape in ((5, 2, 4), (2, 6), (2, 6))]
    expected = run(block, arrays)
    block.hybridize()
    assert_same(run(block, arrays), expected)
    assert_same([out.asnumpy() for out in block(*arrays)], expected[:3])


def test_an_exported_loop_runs(tmp_path):
    block = Loop(3)
    block.initialize()
    block.hybridize()
    arrays = [nd.random.normal(shape=shape) for shape in ((4, 2, 3), (2, 3), (2, 3))]
    expected = [out.asnumpy() for out in block(*arrays)]
    block.export(str(tmp_path / "loop"))
    loaded = gluon.SymbolBlock.imports(str(tmp_path / "loop-symbol.json"), ["data0", "data1", "data2"],
                                       str(tmp_path / "loop-0000.params"))
    assert_same([out.asnumpy() for out in loaded(*arrays)], expected)


def test_foreach_in_an_executor_has_gradients():
    data, state, weight = (mx.sym.var(name) for name in ("data", "state", "weight"))
    outs, states = mx.sym.contrib.foreach(lambda x, s: (x * weight + s[0], [s[0] * weight]), data * 2, [state])
    symbol = mx.sym.Group([outs, states[0]])
    executor = symbol.bind(mx.cpu(), {"data": nd.array([[1, 2], [3, 4]]), "state": nd.array([5, 6]),
                                      "weight": nd.array([2, 3])},
                           {name: nd.zeros(shape) for name, shape in
                            (("data", (2, 2)), ("state", (2,)), ("weight", (2,)))})
    out, last = executor.forward(is_train=True)
    np.testing.assert_allclose(out.asnumpy(), [[9, 18], [22, 42]])
    np.testing.assert_allclose(last.asnumpy(), [20, 54])
    executor.backward([nd.ones((2, 2)), nd.ones((2,))])
    grads = executor.grad_dict
    np.testing.assert_allclose(grads["data"].asnumpy(), [[4, 6], [4, 6]])
    # 1 + w + w^2, and the sum of x and of s (1 + 2 w)
    np.testing.assert_allclose(grads["state"].asnumpy(), [7, 13])
    np.testing.assert_allclose(grads["weight"].asnumpy(), [8 + 25, 12 + 42])


class Count(gluon.HybridBlock):
    """Doubles x while i is below a limit."""

    def hybrid_forward(self, F, i, x, limit):
        outs, (i, x) = F.contrib.while_loop(
            cond=lambda i, x: i < limit, func=lambda i, x: ([x * 2], [i + 1, x * 2]),
            loop_vars=(i, x), max_iterations=6)
        return outs[0], i, x


# MXNet's own library refuses to record it hybridized.
@pytest.mark.ours
@pytest.mark.parametrize("steps", [1, 4, 6, 9])
def test_a_while_loop_ends_at_its_condition_or_its_limit(steps):
    block = Count()
    arrays = [nd.array([0]), nd.array([1.5, -2]), nd.array([steps])]
    taken = min(steps, 6)
    expected = run(block, arrays)
    block.hybridize()
    actual = run(block, arrays)
    np.testing.assert_allclose(actual[0][:taken], expected[0][:taken])
    np.testing.assert_allclose(actual[2], np.array([1.5, -2]) * 2**taken)
    if taken == 6:
        assert_same(actual, expected)


@pytest.mark.ours
def test_rows_that_no_step_wrote_are_zero():
    block = Count()
    block.hybridize()
    outs, i, x = block(nd.array([0]), nd.array([1, 2]), nd.array([0]))
    assert (outs.asnumpy() == 0).all() and outs.shape == (6, 2)
    np.testing.assert_allclose(i.asnumpy(), [0])
    np.testing.assert_allclose(x.asnumpy(), [1, 2])


class Branch(gluon.HybridBlock):
    def hybrid_forward(self, F, a, b):
        return [F.contrib.cond(F.sum(a) > 0, lambda: a * b, lambda: b * b * 3)]


@pytest.mark.parametrize("sign", [1, -1])
def test_cond_runs_one_branch(sign):
    block = Branch()
    arrays = [nd.array([1, 2]) * sign, nd.array([3, 4])]
    expected = run(block, arrays)
    block.hybridize()
    assert_same(run(block, arrays), expected)
