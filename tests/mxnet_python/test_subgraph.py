"""Parts of graphs that run as one node, which MXNet's functions for backends make."""

import ctypes
import json

import mxnet as mx
import numpy as np
import pytest
from mxnet.base import _LIB, SymbolHandle, c_str, c_str_array, check_call

SHAPES = {"data": (2, 3, 6, 6)}


def network():
    data = mx.sym.Variable("data")
    conv = mx.sym.Convolution(data, kernel=(3, 3), num_filter=4, name="conv")
    norm = mx.sym.BatchNorm(conv, name="norm")
    act = mx.sym.Activation(norm, act_type="relu", name="act")
    return mx.sym.broadcast_add(mx.sym.sin(act + mx.sym.exp(-act)), mx.sym.sum(norm, axis=1, keepdims=True))


def partitioned(symbol, *ops):
    out = SymbolHandle()
    check_call(_LIB.MXBuildSubgraphByOpNames(symbol.handle, c_str("default"), mx.base.mx_uint(len(ops)),
                                             c_str_array(ops), ctypes.byref(out)))
    return mx.sym.Symbol(out)


def ops_of(symbol):
    return [node["op"] for node in json.loads(symbol.tojson())["nodes"] if node["op"] != "null"]


def results(symbol):
    executor = symbol.simple_bind(mx.cpu(), **SHAPES)
    random = np.random.RandomState(1)
    for array in executor.arg_arrays:
        array[:] = random.uniform(-1, 1, array.shape)
    outs = [out.asnumpy() for out in executor.forward(is_train=True)]
    executor.backward([mx.nd.array(random.uniform(-1, 1, out.shape)) for out in outs])
    return outs + [array.asnumpy() for array in executor.grad_arrays + executor.aux_arrays]


# MXNet's own library computes no gradient of the last ones.
@pytest.mark.parametrize("ops", [("Convolution", "BatchNorm"), ("Activation", "exp", "_mul_scalar", "sin"), ("sum",),
                                 pytest.param(("BatchNorm", "Activation", "elemwise_add", "broadcast_add"),
                                              marks=pytest.mark.ours)])
def test_a_subgraph_computes_what_its_nodes_do(ops):
    symbol = network()
    parts = partitioned(symbol, *ops)
    assert "_CachedOp" in ops_of(parts) and not set(ops) & set(ops_of(parts))
    assert parts.list_arguments() == symbol.list_arguments()
    assert parts.list_auxiliary_states() == symbol.list_auxiliary_states()
    for one, other in zip(results(parts), results(symbol)):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_optimize_for_takes_the_operators_of_a_backend():
    symbol, ops = network(), ("exp", "sin")
    check_call(_LIB.MXSetSubgraphPropertyOpNamesV2(c_str("default"), mx.base.mx_uint(len(ops)), c_str_array(ops)))
    try:
        assert "_CachedOp" in ops_of(symbol.optimize_for("default"))
    finally:
        check_call(_LIB.MXRemoveSubgraphPropertyOpNamesV2(c_str("default")))
