"""Models as ONNX files, by mxnet.onnx, in onnxruntime."""

import mxnet as mx
import numpy as np
import onnx
import onnxruntime
import pytest
from mxnet import gluon, nd

import networks

pytestmark = pytest.mark.ours  # MXNet's own package fails with newer versions of onnx


def exported(net, shape, path):
    """The block's output, and that of the file that it is exported to."""
    net.hybridize()
    x = nd.array(np.random.RandomState(1).uniform(-1, 1, shape))
    expected = net(x).asnumpy()
    net.export(str(path / "net"))
    file = mx.onnx.export_model(str(path / "net-symbol.json"), str(path / "net-0000.params"), [shape], np.float32,
                                str(path / "net.onnx"))
    model = onnx.load(file)
    onnx.checker.check_model(model)
    assert [entry.version for entry in model.opset_import] == [13]
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    actual, = session.run(None, {session.get_inputs()[0].name: x.asnumpy()})
    return actual, expected


def assert_near(actual, expected):
    assert actual.shape == expected.shape
    assert np.abs(actual - expected).max() <= 1e-5 * max(1, np.abs(expected).max())


def test_a_network_of_ones_own(tmp_path):
    net = networks.hybrid_network()
    assert_near(*exported(net, (2, 3, 8, 8), tmp_path))


@pytest.mark.parametrize("name", ["mobilenet0.25", "squeezenet1.1", "resnet18_v1"])
def test_networks_of_the_zoo(name, tmp_path):
    net = gluon.model_zoo.vision.get_model(name)
    net.initialize(mx.init.Xavier())
    assert_near(*exported(net, (1, 3, 224, 224), tmp_path))


def test_an_export_leaves_onnx_as_it_was(tmp_path):
    newest, make_model = onnx.defs.onnx_opset_version(), onnx.helper.make_model
    exported(networks.hybrid_network(), (1, 3, 8, 8), tmp_path)
    assert onnx.defs.onnx_opset_version() == newest and onnx.helper.make_model is make_model
    assert onnx.checker.DEFAULT_CONTEXT.opset_imports[""] == newest


def test_every_name_of_the_export_is_the_same():
    assert mx.contrib.onnx.export_model_ is mx.onnx.export_model is mx.onnx.mx2onnx.export_model
