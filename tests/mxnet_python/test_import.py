"""What a program meets first: the import, errors, and shapes as clients write them."""

import threading

import mxnet as mx
import numpy as np
import pytest
from mxnet import nd


def test_the_import_finds_operators_and_iterators():
    assert mx.__version__ == "1.9.1"
    assert callable(mx.nd.FullyConnected) and callable(mx.sym.Convolution) and callable(mx.io.MNISTIter)
    assert mx.context.num_gpus() == 0
    assert isinstance(mx.runtime.Features().is_enabled("CUDA"), bool)


def test_a_wrong_call_is_an_error_that_names_it():
    with pytest.raises(mx.MXNetError, match="dot"):
        nd.dot(nd.ones((2, 3)), nd.ones((2, 3))).wait_to_read()
    with pytest.raises(mx.MXNetError, match="num_hidden"):
        nd.FullyConnected(nd.ones((2, 3)), nd.ones((2, 3)), nd.ones(2), num_hidden="many")


def test_an_error_leaves_the_library_usable():
    for _ in range(3):
        with pytest.raises(mx.MXNetError):
            nd.concat(nd.ones((2, 3)), nd.ones((4, 5)), dim=0).wait_to_read()
    assert (nd.ones((2, 3)) + 1).sum().asscalar() == 12


@pytest.mark.ours
def test_an_operator_that_is_missing_says_so():
    with pytest.raises(mx.MXNetError, match="not implemented"):
        nd.contrib.quantize_asym(nd.ones((2, 3)))[0].wait_to_read()


def test_operators_without_parameters_ignore_those_given():
    a, b = mx.sym.Variable("a"), mx.sym.Variable("b")
    added = mx.sym.broadcast_add(a, b, axis=0, name="added", attr={"mine": "m"})
    for symbol in (added, mx.sym.load_json(added.tojson())):
        assert symbol.attr("axis") == "0" and symbol.attr("mine") == "m"
        assert symbol.attr_dict()["added"]["axis"] == "0" and symbol.list_attr()["mine"] == "m"
    both = added.bind(mx.cpu(), {"a": nd.ones((2, 3)), "b": nd.ones((1, 3))})
    assert (both.forward()[0].asnumpy() == nd.broadcast_add(nd.ones((2, 3)), nd.ones((1, 3)), axis=0).asnumpy()).all()


@pytest.mark.ours
def test_extents_that_32_bits_do_not_hold_are_errors():
    flat = mx.sym.Flatten(mx.sym.Variable("data"))
    with pytest.raises(mx.MXNetError, match="MXSymbolInferShapeEx: the extent 4295032832 .* 2147483647"):
        flat.infer_shape(data=(1, 65536, 65537))


@pytest.mark.parametrize("shape", [(2, 3), [2, 3], "(2, 3)", "[2,3]", "(2L, 3L)"])
def test_shapes_in_every_spelling(shape):
    assert nd.reshape(nd.arange(6), shape=shape).shape == (2, 3)


@pytest.mark.ours
@pytest.mark.parametrize("shape", ["(np.int64(2), np.int64(3))", "(np.int32(2),3)"])
def test_shapes_as_numpy_2_prints_them(shape):
    assert nd.reshape(nd.arange(6), shape=shape).shape == (2, 3)


def test_numbers_and_truth_in_every_spelling():
    x = nd.arange(6).reshape((2, 3))
    for keepdims in (True, 1, "True", "1", "true"):
        assert nd.sum(x, axis=1, keepdims=keepdims).shape == (2, 1)
    assert nd.sum(x, axis="None").shape == (1,)
    assert nd.clip(x, "1e0", 2.5).asnumpy().max() == 2.5


def test_shapes_of_numpy_integers():
    extent = np.arange(4).reshape(2, 2).shape[0] + np.int64(0)
    assert nd.zeros((int(extent), 3)).shape == (2, 3)


def test_ones_of_numpys_shapes_in_another_thread():
    made = []
    mx.util.set_np_shape(2)  # of all threads
    try:
        thread = threading.Thread(target=lambda: made.extend(mx.np.ones(shape) for shape in ((), (0, 1, 2), (2,))))
        thread.start()
        thread.join()
        assert [(array.shape, array.asnumpy().tolist()) for array in made] == [((), 1), ((0, 1, 2), []), ((2,), [1, 1])]
    finally:
        mx.util.set_np_shape(0)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_boxes_that_are_left_out(dtype):
    rows = nd.array([[-1, .9, 1, 1, 2, 2], [0, .3, 0, 0, 4, 4], [1, .4, 8, 8, 9, 9], [0, .5, 0, 0, 4, 4]], dtype=dtype)
    kept = nd.contrib.box_nms(rows, valid_thresh=0.3, id_index=0).asnumpy()
    assert kept[:, 0].tolist() == [0, 1, -1, -1] and (kept[2:] == -1).all()
    np.testing.assert_array_equal(kept[:2], rows.asnumpy()[[3, 2]])


def test_random_numbers_follow_from_the_seed():
    draws = []
    for seed in (1, 1, 2):
        mx.random.seed(seed)
        draws.append(nd.random.normal(0, 1, shape=(1000,)).asnumpy())
    assert (draws[0] == draws[1]).all() and (draws[0] != draws[2]).any()
    assert abs(draws[0].mean()) < 0.2 and abs(draws[0].std() - 1) < 0.1
