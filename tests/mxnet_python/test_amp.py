"""Models of mixed precision for inference: contrib.amp's convert_model and convert_hybrid_block."""

import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon, nd
from mxnet.contrib import amp

import networks


# MXNet's own library computes float16 slowly on the CPU, and bfloat16 only with oneDNN's operators.
pytestmark = pytest.mark.ours

TYPES = ("float16", "bfloat16")


def model():
    """A network that ends in probabilities, and its parameters."""
    net = networks.convolutional_symbol()
    shapes, _, aux_shapes = net.infer_shape(data=(2, 3, 8, 8))
    random = np.random.RandomState(1)

    def arrays(names, shapes):
        return {name: nd.array(random.uniform(0.1, 0.6, shape)) for name, shape in zip(names, shapes)
                if name not in ("data", "softmax_label")}

    return net, arrays(net.list_arguments(), shapes), arrays(net.list_auxiliary_states(), aux_shapes)


def predict(symbol, args, aux):
    x = nd.array(np.random.RandomState(2).uniform(-1, 1, (2, 3, 8, 8)))
    executor = symbol.bind(mx.cpu(), dict(args, data=x, softmax_label=nd.zeros((2,))), aux_states=aux,
                           grad_req="null")
    return executor.forward(is_train=False)[0]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("casts", [False, True])
def test_a_converted_model_predicts_nearly_the_same(dtype, casts):
    net, args, aux = model()
    expected = predict(net, args, aux).asnumpy()
    symbol, new_args, new_aux = amp.convert_model(net, dict(args), dict(aux), target_dtype=dtype,
                                                  cast_optional_params=casts)
    assert symbol.list_arguments() == net.list_arguments()
    assert "amp_cast" in symbol.tojson(remove_amp_cast=False)
    assert "amp_cast" not in symbol.tojson() and "amp_cast" not in net.tojson(remove_amp_cast=False)
    if dtype == "float16":
        wanted = np.float16 if casts else np.float32
        assert new_args["fc_weight"].dtype == wanted and new_args["conv_weight"].dtype == wanted
    actual = predict(symbol, new_args, new_aux)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(actual.asnumpy(), expected, atol=2e-3 if dtype == "float16" else 2e-2)


def test_an_excluded_layer_keeps_float32():
    net, args, aux = model()
    symbol, _, _ = amp.convert_model(net, args, aux, excluded_sym_names=["conv", "fc"])
    types = symbol.get_internals().infer_type(data=np.float32)[1]
    assert set(types) == {np.float32}


@pytest.mark.parametrize("dtype", TYPES)
def test_a_converted_block_predicts_nearly_the_same(dtype):
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(4, 3, in_channels=3), gluon.nn.BatchNorm(in_channels=4), gluon.nn.Activation("relu"),
            gluon.nn.Flatten(), gluon.nn.Dense(5, in_units=144))
    networks.set_parameters(net)
    net.hybridize()
    x = nd.array(np.random.RandomState(3).uniform(-1, 1, (2, 3, 8, 8)))
    expected = net(x).asnumpy()
    converted = amp.convert_hybrid_block(net, target_dtype=dtype, ctx=mx.cpu(),
                                         cast_optional_params=dtype == "float16")
    actual = converted(x).astype("float32").asnumpy()
    tolerance = (4e-3 if dtype == "float16" else 4e-2) * np.abs(expected).max()
    np.testing.assert_allclose(actual, expected, atol=tolerance)
