"""Arrays, graphs and models go both ways between the libraries."""

import os

import mxnet as mx
import numpy as np
import pytest
from mxnet import gluon, nd

import files
import networks


@pytest.fixture(params=["theirs", "ours"], name="folder")
def folder_of_either(request, reference, tmp_path):
    """A folder that MXNet's own library has written, and one of the chosen library's."""
    if request.param == "ours":
        files.write(str(tmp_path))
        return tmp_path
    reference.wait()
    return reference.folder / "files"


def test_arrays_by_name(folder):
    loaded = nd.load(str(folder / "dict.params"))
    expected = files.by_name()
    assert loaded.keys() == expected.keys()
    for name, array in expected.items():
        assert loaded[name].dtype == array.dtype, name
        np.testing.assert_array_equal(loaded[name].asnumpy(), array.asnumpy(), err_msg=name)


def test_a_list_of_arrays(folder):
    first, second = nd.load(str(folder / "list.params"))
    assert first.asnumpy().tolist() == [0, 1, 2, 3] and second.shape == (2, 2)


def test_a_graph(folder):
    loaded = mx.sym.load(str(folder / "graph-symbol.json"))
    expected = networks.convolutional_symbol()
    assert loaded.list_arguments() == expected.list_arguments()
    assert loaded.list_auxiliary_states() == expected.list_auxiliary_states()
    assert loaded.infer_shape(data=files.IMAGE_SHAPE) == expected.infer_shape(data=files.IMAGE_SHAPE)
    assert mx.sym.load_json(loaded.tojson()).list_outputs() == ["softmax_output"]


def test_a_checkpoint_of_a_module(folder):
    module = mx.mod.Module.load(str(folder / "module"), 3, load_optimizer_states=True)
    module.bind([("data", files.IMAGE_SHAPE)], [("softmax_label", files.IMAGE_SHAPE[:1])])
    module.init_params()
    module.init_optimizer(optimizer="sgd", optimizer_params={"momentum": 0.9})
    assert (module.get_params()[0]["conv_weight"].asnumpy() == 1).all()
    batch = mx.io.DataBatch([nd.ones(files.IMAGE_SHAPE)], [nd.array([0, 1])])
    module.forward_backward(batch)
    module.update()
    assert (module.get_params()[0]["fc_weight"].asnumpy() != 1).any()


def test_the_parameters_of_a_block(folder):
    net = networks.hybrid_network()
    expected = {name: parameter.data().asnumpy() for name, parameter in net._collect_params_with_prefix().items()}
    net.initialize(mx.init.Zero(), force_reinit=True)
    net.load_parameters(str(folder / "block.params"))
    for name, parameter in net._collect_params_with_prefix().items():
        np.testing.assert_array_equal(parameter.data().asnumpy(), expected[name], err_msg=name)


def test_an_exported_network(folder):
    net = gluon.SymbolBlock.imports(
        str(folder / "exported-symbol.json"), ["data"], str(folder / "exported-0001.params"))
    with np.load(str(folder / "exported.npz")) as archive:
        np.testing.assert_allclose(
            net(nd.ones(files.IMAGE_SHAPE)).asnumpy(), archive["output"], rtol=1e-4, atol=1e-5)


def test_the_bytes_are_the_same_up_to_a_checksum(reference, tmp_path):
    reference.wait()
    files.write(str(tmp_path))
    for name in ("dict.params", "list.params", "block.params", "module-0003.params"):
        ours, theirs = ((folder / name).read_bytes() for folder in (tmp_path, reference.folder / "files"))
        assert ours.startswith(theirs) and len(ours) - len(theirs) in (0, 8), name


def test_a_damaged_file_is_an_error(tmp_path):
    path = tmp_path / "damaged.params"
    nd.save(str(path), files.by_name())
    content = path.read_bytes()
    for cut in (7, 30, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:cut])
        with pytest.raises(mx.MXNetError):
            nd.load(str(path))
    with pytest.raises(mx.MXNetError, match="missing.params"):
        nd.load(os.path.join(str(tmp_path), "missing.params"))
