"""Arrays that store some rows or elements: row_sparse and csr, their gradients and lazy updates."""

import pickle

import mxnet as mx
import numpy as np
import pytest
from mxnet import autograd, gluon, nd

ROWS = np.array([[0, 0], [1, 2], [0, 0], [3, 0]], dtype="float32")


def rows():
    return nd.array(ROWS).tostype("row_sparse")


def csr():
    return nd.array(ROWS).tostype("csr")


def test_parts_of_an_array():
    array = rows()
    assert array.stype == "row_sparse" and array.shape == (4, 2)
    assert array.indices.asnumpy().tolist() == [1, 3]
    assert array.data.asnumpy().tolist() == [[1, 2], [3, 0]]
    array = csr()
    assert array.stype == "csr"
    assert array.indptr.asnumpy().tolist() == [0, 0, 2, 2, 3]
    assert array.indices.asnumpy().tolist() == [0, 1, 0]
    assert array.data.asnumpy().tolist() == [1, 2, 3]


@pytest.mark.parametrize("make", [rows, csr])
def test_an_array_stays_what_it_is(make, tmp_path):
    array = make()
    path = str(tmp_path / "sparse.params")
    nd.save(path, {"a": array})
    others = [array.copy(), array.copyto(mx.cpu(1)), pickle.loads(pickle.dumps(array)),
              nd.load(path)["a"], nd.sparse.array(array)]
    for other in others:
        assert other.stype == array.stype
        assert (other.asnumpy() == ROWS).all()
        other.check_format()
    assert array.astype("float64").dtype == np.float64
    assert (array.tostype("default").asnumpy() == ROWS).all()
    assert "4x2" in repr(array)


def test_arrays_are_made_of_their_parts():
    array = nd.sparse.row_sparse_array(([[1, 2], [3, 0]], [1, 3]), shape=(4, 2))
    assert (array.asnumpy() == ROWS).all()
    array = nd.sparse.csr_matrix(([1, 2, 3], [0, 1, 0], [0, 0, 2, 2, 3]), shape=(4, 2))
    assert (array.asnumpy() == ROWS).all()
    for stype in ("row_sparse", "csr"):
        zeros = nd.sparse.zeros(stype, (3, 2))
        assert zeros.stype == stype and (zeros.asnumpy() == 0).all()
        zeros[:] = nd.ones((3, 2))
        assert zeros.stype == stype and (zeros.asnumpy() == 1).all()


def test_wrong_parts_are_found():
    array = nd.sparse.csr_matrix(([1, 2], [0, 1], [0, 1, 5]), shape=(2, 3))
    with pytest.raises(mx.MXNetError):
        array.check_format()
    array = nd.sparse.row_sparse_array(([[1], [2]], [2, 1]), shape=(3, 1))
    with pytest.raises(mx.MXNetError):
        array.check_format()


@pytest.mark.ours
def test_no_operator_reads_outside_of_an_array():
    # MXNet's own library ends the process.
    array = nd.sparse.row_sparse_array(([[1], [2]], [1, 1 << 40]), shape=(3, 1))
    with pytest.raises(mx.MXNetError, match="indices"):
        array.asnumpy()


def test_rows_of_a_csr_array():
    array = csr()
    assert array[1:3].stype == "csr"
    assert (array[1:3].asnumpy() == ROWS[1:3]).all()
    assert (array[-1].asnumpy() == ROWS[3:]).all()


def test_retained_rows():
    kept = nd.sparse.retain(rows(), nd.array([3, 0]))
    assert kept.stype == "row_sparse" and kept.indices.asnumpy().tolist() == [0, 3]
    assert kept.asnumpy().tolist() == [[0, 0], [0, 0], [0, 0], [3, 0]]


def test_storage_types_of_results():
    array = rows()
    assert (array + array).stype == "row_sparse" and (array * 2).stype == "row_sparse"
    assert nd.square(array).stype == "row_sparse" and nd.exp(array).stype == "default"
    assert ((array + array).asnumpy() == 2 * ROWS).all()
    assert (nd.square(array).asnumpy() == ROWS**2).all()
    np.testing.assert_allclose(nd.exp(array).asnumpy(), np.exp(ROWS), rtol=1e-6)


def embedded(weight, indices):
    return nd.Embedding(nd.array(indices), weight, input_dim=4, output_dim=2, sparse_grad=True)


@pytest.mark.parametrize("grad_req", ["write", "add"])
def test_the_gradient_of_an_embedding(grad_req):
    weight = nd.ones((4, 2))
    weight.attach_grad(grad_req=grad_req, stype="row_sparse")
    for indices in ([1, 3, 1], [0, 3]):
        with autograd.record():
            out = embedded(weight, indices)
        out.backward()
    assert weight.grad.stype == "row_sparse"
    write = {"write": [[1, 1], [0, 0], [0, 0], [1, 1]], "add": [[1, 1], [2, 2], [0, 0], [2, 2]]}
    assert weight.grad.asnumpy().tolist() == write[grad_req]
    assert weight.grad.indices.asnumpy().tolist() == ([0, 3] if grad_req == "write" else [0, 1, 3])


def test_a_weight_that_is_used_twice():
    weight = nd.ones((4, 2))
    weight.attach_grad(stype="row_sparse")
    with autograd.record():
        out = embedded(weight, [1]).sum() + embedded(weight, [1, 2]).sum()
    out.backward()
    assert weight.grad.indices.asnumpy().tolist() == [1, 2]
    assert weight.grad.asnumpy().tolist() == [[0, 0], [2, 2], [1, 1], [0, 0]]


# What MXNet 1.9.1 gave for two steps with the gradient [1, 2] of row 3 of a weight 0, 1, … 9.
UNCHANGED = [[0, 1], [2, 3], [4, 5], None, [8, 9]]
STEPS = [
    ("sgd", {"wd": 0.1}, UNCHANGED, [5.681600093841553, 6.462700843811035]),
    ("sgd", {"wd": 0.1, "momentum": 0.9}, UNCHANGED, [5.537600040435791, 6.219699859619141]),
    ("sgd", {"wd": 0.1, "momentum": 0.9, "lazy_update": False},
     [[0, 0.9711000323295593], [1.9422000646591187, 2.913300037384033],
      [3.8844001293182373, 4.855499744415283], None, [7.768800258636475, 8.739899635314941]],
     [5.537600040435791, 6.219699859619141]),
    ("adam", {"wd": 0.1}, UNCHANGED, [5.800015449523926, 6.800008296966553]),
    ("adam", {"wd": 0.1, "lazy_update": False},
     [[0, 0.8004114031791687], [1.8001654148101807, 2.8001015186309814],
      [3.80007266998291, 4.8000569343566895], None, [7.800033092498779, 8.800029754638672]],
     [5.800015449523926, 6.800008296966553]),
    ("ftrl", {"wd": 0.1}, [[0, 0]] * 5, [2.893575429916382, 4.532280921936035]),
    ("adagrad", {}, UNCHANGED, [5.829289436340332, 6.829289436340332]),
]


@pytest.mark.parametrize("name, options, others, row", STEPS)
def test_steps_of_optimizers(name, options, others, row):
    weight = nd.array(np.arange(10).reshape(5, 2))
    gradient = nd.sparse.row_sparse_array(([[1.0, 2.0]], [3]), shape=(5, 2))
    optimizer = mx.optimizer.create(name, learning_rate=0.1, **options)
    state = optimizer.create_state_multi_precision(0, weight)
    for _ in range(2):
        optimizer.update_multi_precision(0, weight, gradient, state)
    expected = [row if other is None else other for other in others[:3] + [None] + others[4:]]
    np.testing.assert_allclose(weight.asnumpy(), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("hybrid", [False, True])
def test_a_trainer_updates_the_rows_of_a_batch(hybrid):
    layer = gluon.nn.Embedding(6, 2, sparse_grad=True)
    layer.initialize(mx.init.One())
    layer.hybridize(hybrid)
    trainer = gluon.Trainer(layer.collect_params(), "sgd", {"learning_rate": 1.0})
    with autograd.record():
        loss = layer(nd.array([1, 4, 4])).sum()
    loss.backward()
    assert layer.weight.list_grad()[0].stype == "row_sparse"
    trainer.step(1)
    assert layer.weight.data().asnumpy()[:, 0].tolist() == [1, 0, 1, 1, -1, 1]


def test_the_global_norm_of_rows():
    arrays = [nd.sparse.row_sparse_array(([[3.0, 4.0]], [3]), shape=(4, 2)), nd.ones((2,))]
    norm = gluon.utils.clip_global_norm(arrays, 1.0)
    assert abs(norm - 27**0.5) < 1e-5
    assert arrays[0].stype == "row_sparse"
    np.testing.assert_allclose(arrays[0].asnumpy()[3], [3 / 27**0.5, 4 / 27**0.5], rtol=1e-5)


def test_rows_of_a_store():
    store = mx.kv.create("local")
    store.init("rows", rows())
    out = nd.sparse.zeros("row_sparse", (4, 2))
    store.row_sparse_pull("rows", out=out, row_ids=nd.array([3, 2, 3]))
    assert out.asnumpy().tolist() == [[0, 0], [0, 0], [0, 0], [3, 0]]
    store.push("rows", [rows(), rows()])
    store.row_sparse_pull("rows", out=out, row_ids=nd.array([0, 1]))
    assert out.asnumpy().tolist() == [[0, 0], [2, 4], [0, 0], [0, 0]]
    # Without ignore_sparse=False, sparse arrays are left as they are.
    store.pull("rows", out=out)
    assert out.asnumpy().tolist() == [[0, 0], [2, 4], [0, 0], [0, 0]]


def test_executors_infer_storage():
    data, weight = mx.sym.Variable("data"), mx.sym.Variable("weight")
    rows_of = mx.sym.Embedding(data, weight, input_dim=5, output_dim=2, sparse_grad=True)
    executor = rows_of.simple_bind(mx.cpu(), data=(3,), grad_req={"data": "null", "weight": "write"})
    executor.arg_dict["data"][:] = nd.array([4, 1, 4])
    executor.forward(is_train=True)
    executor.backward([nd.ones((3, 2))])
    gradient = executor.grad_dict["weight"]
    assert gradient.stype == "row_sparse"
    assert gradient.indices.asnumpy().tolist() == [1, 4]
    assert gradient.data.asnumpy().tolist() == [[1, 1], [2, 2]]

    square = mx.sym.sparse.square(mx.sym.Variable("data", stype="csr"))
    executor = square.simple_bind(mx.cpu(), data=(4, 2), grad_req="null")
    assert executor.arg_dict["data"].stype == "csr"
    csr().copyto(executor.arg_dict["data"])
    executor.forward()
    assert executor.outputs[0].stype == "csr"
    assert (executor.outputs[0].asnumpy() == ROWS**2).all()
    executor = square.simple_bind(mx.cpu(), data=(4, 2), stype_dict={"data": "row_sparse"})
    assert executor.arg_dict["data"].stype == "row_sparse"


# MXNet refuses row_sparse weights without a store that updates them.
@pytest.mark.parametrize("stype, store",
                         [("default", None), ("default", "local"), ("row_sparse", "local")])
def test_a_module_updates_the_rows_of_a_batch(stype, store):
    weight = mx.sym.Variable("rows_weight", stype=stype)
    rows_of = mx.sym.Embedding(mx.sym.Variable("data"), weight, input_dim=5, output_dim=2,
                               sparse_grad=True, name="rows")
    module = mx.mod.Module(mx.sym.MakeLoss(mx.sym.sum(rows_of)), label_names=None)
    module.bind(data_shapes=[("data", (3,))])
    module.init_params(mx.init.One())
    module.init_optimizer(store, "sgd", {"learning_rate": 1.0, "rescale_grad": 1.0})
    for indices in [[1, 4, 4], [0, 0, 1]]:
        batch = mx.io.DataBatch([nd.array(indices)])
        module.prepare(batch, sparse_row_id_fn=lambda batch: {"rows_weight": batch.data[0]})
        module.forward_backward(batch)
        module.update()
    params = module.get_params()[0]["rows_weight"]
    assert params.stype == stype
    assert params.asnumpy()[:, 0].tolist() == [-1, -1, 1, 1, -1]


@pytest.mark.parametrize("transpose", [False, True])
def test_products_of_a_matrix(transpose):
    matrix, weight = csr(), nd.array(np.arange(8 if transpose else 4).reshape(-1, 2))
    expected = (ROWS.T if transpose else ROWS) @ weight.asnumpy()
    weight.attach_grad(stype="default" if transpose else "row_sparse")
    with autograd.record():
        out = nd.sparse.dot(matrix, weight, transpose_a=transpose)
    assert out.stype == ("row_sparse" if transpose else "default")
    assert (out.asnumpy() == expected).all()
    out.backward(nd.ones(out.shape))
    gradient = (ROWS if transpose else ROWS.T) @ np.ones(expected.shape)
    assert (weight.grad.asnumpy() == gradient).all()
    out = nd.sparse.dot(matrix, weight, transpose_a=transpose, forward_stype="default")
    assert out.stype == "default" and (out.asnumpy() == expected).all()


def test_executors_of_a_product():
    product = mx.sym.sparse.dot(mx.sym.Variable("data", stype="csr"), mx.sym.Variable("weight"))
    executor = product.simple_bind(mx.cpu(), data=(4, 2), weight=(2, 3),
                                   grad_req={"data": "null", "weight": "write"})
    csr().copyto(executor.arg_dict["data"])
    executor.forward(is_train=True)
    executor.backward([nd.ones((4, 3))])
    assert executor.outputs[0].stype == "default"
    gradient = executor.grad_dict["weight"]
    assert gradient.stype == "row_sparse"
    assert (gradient.asnumpy() == ROWS.T @ np.ones((4, 3))).all()


def test_comparisons_rows_and_counts():
    array = csr()
    assert (array > 1).stype == "csr" and (array < 1).stype == "default"
    assert ((array > 1).asnumpy() == (ROWS > 1)).all()
    taken = nd.take(array, nd.array([3, 1]), mode="clip")
    assert taken.stype == "csr" and (taken.asnumpy() == ROWS[[3, 1]]).all()
    assert nd.contrib.getnnz(array).asnumpy().tolist() == [3]
    assert nd.contrib.getnnz(array, axis=1).asnumpy().tolist() == [0, 2, 0, 1]


def write(path, text):
    path.write_text(text)
    return str(path)


def test_rows_of_libsvm_files_are_csr(tmp_path):
    data = write(tmp_path / "data.t", "1.0 0:0.5 2:1.2\n-2.0\n-3.0 0:0.6 1:2.4 2:1.2\n4 2:-1.2\n")
    iterator = mx.io.LibSVMIter(data_libsvm=data, data_shape=(3,), batch_size=3)
    batch = next(iterator)
    assert batch.data[0].stype == "csr" and batch.label[0].stype == "default"
    batch.data[0].check_format(True)
    assert batch.data[0].indptr.asnumpy().tolist() == [0, 2, 2, 5]
    assert batch.label[0].asnumpy().tolist() == [1, -2, -3]
    labels = write(tmp_path / "label.t", "1.0\n-2.0 0:0.125\n-3.0 2:1.2\n4 1:1.0 2:-1.2\n")
    iterator = mx.io.LibSVMIter(data_libsvm=data, label_libsvm=labels, data_shape=(3,), label_shape=(3,),
                                batch_size=3)
    batches = []
    for batch in iterator:
        data, label = batch.data[0], batch.label[0]
        assert data.stype == label.stype == "csr"
        label.check_format(True)
        scores = nd.dot(data, nd.ones((3, 1)))
        batches.append((data.asnumpy(), label.asnumpy(), scores.asnumpy().ravel(), batch.pad))
    assert [pad for _, _, _, pad in batches] == [0, 2]
    assert np.allclose(batches[0][1], [[0, 0, 0], [.125, 0, 0], [0, 0, 1.2]])
    assert np.allclose(batches[1][0], [[0, 0, -1.2], [.5, 0, 1.2], [0, 0, 0]])
    assert np.allclose(batches[0][2], [1.7, 0, 4.2])


@pytest.mark.ours
def test_wrong_libsvm_files_are_errors(tmp_path):
    # MXNet's own library reads past the end of its arrays.
    data = write(tmp_path / "data.t", "1 0:1\n1 3:1\n")
    with pytest.raises(mx.MXNetError, match="line 2: found index 3, expected 0 to 2"):
        mx.io.LibSVMIter(data_libsvm=data, data_shape=(3,), batch_size=2)


def test_iterators_over_csr_arrays():
    with pytest.raises(NotImplementedError):
        mx.io.NDArrayIter(csr(), np.arange(4), 3)
    iterator = mx.io.NDArrayIter(csr(), np.arange(4), 3, last_batch_handle="discard")
    (batch,) = list(iterator)
    assert (batch.data[0].asnumpy() == ROWS[:3]).all()
    assert batch.label[0].asnumpy().tolist() == [0, 1, 2]
    both = mx.io.NDArrayIter({"csr": csr(), "dense": ROWS}, csr(), 2, last_batch_handle="discard")
    for i, batch in enumerate(both):
        for array in batch.data + batch.label:
            assert (array.asnumpy() == ROWS[2 * i:2 * i + 2]).all()


def test_a_data_loader_of_csr_arrays():
    loader = gluon.data.DataLoader(gluon.data.ArrayDataset(csr(), np.arange(4)), batch_size=2)
    batches = [(data.asnumpy().reshape(2, 2), label.asnumpy().tolist()) for data, label in loader]
    assert (np.concatenate([data for data, _ in batches]) == ROWS).all()
    assert [label for _, label in batches] == [[0, 1], [2, 3]]


STYPES = ("default", "row_sparse", "csr")
OTHER = np.array([[0, 5], [1, 0], [0, 0], [2, 2]], dtype="float32")
# The storage of the result by those of the operands, in the order of STYPES.
SUMS = [["default"] * 3, ["default", "row_sparse", "default"], ["default", "default", "csr"]]
PRODUCTS = [STYPES, ["row_sparse", "row_sparse", "default"], ["csr", "default", "csr"]]


@pytest.mark.parametrize("op, function, stypes", [
    ("elemwise_add", np.add, SUMS), ("elemwise_sub", np.subtract, SUMS),
    ("elemwise_mul", np.multiply, PRODUCTS), ("_maximum", np.maximum, SUMS),
    ("_minimum", np.minimum, SUMS), ("_hypot", np.hypot, SUMS)])
def test_functions_of_two_arrays(op, function, stypes):
    call = getattr(nd._internal, op) if op.startswith("_") else getattr(nd, op)
    for i, one in enumerate(STYPES):
        for k, other in enumerate(STYPES):
            out = call(nd.array(ROWS).tostype(one), nd.array(OTHER).tostype(other))
            assert out.stype == stypes[i][k]
            np.testing.assert_allclose(out.asnumpy(), function(ROWS, OTHER), rtol=1e-6)


def test_numbers_beside_arrays():
    for array in (rows(), csr()):
        assert (array + 0).stype == array.stype and (array + 1).stype == "default"
        assert (array / 2).stype == array.stype
        out = nd._internal._scatter_plus_scalar(array, scalar=1)
        assert out.stype == array.stype and out.asnumpy()[0].tolist() == [0, 0]
        quadratic = nd.contrib.quadratic(csr(), a=1, b=2, c=0)
        assert quadratic.stype == "csr" and (quadratic.asnumpy() == ROWS**2 + 2 * ROWS).all()


def test_products_with_a_row_or_column():
    for other in ([[2, 3]], [2, 3], [[1], [2], [4], [5]], [[2]]):
        other = np.array(other, dtype="float32")
        out = nd.sparse.multiply(csr(), nd.array(other))
        assert out.stype == "csr" and (out.asnumpy() == ROWS * other).all()
        out = nd.sparse.divide(csr(), nd.array(other))
        assert out.stype == "csr"
        np.testing.assert_allclose(out.asnumpy(), ROWS / other, rtol=1e-6)


def test_reductions_along_axes():
    for axis in (0, 1):
        for op, function in ((nd.sum, np.sum), (nd.mean, np.mean)):
            out = op(csr(), axis=axis)
            assert out.stype == "default" and (out.asnumpy() == function(ROWS, axis=axis)).all()
        for keepdims in (False, True):
            out = nd._internal._square_sum(rows(), axis=axis, keepdims=keepdims)
            assert out.stype == ("row_sparse" if axis == 1 and keepdims else "default")
            assert (out.asnumpy() == np.sum(ROWS**2, axis=axis, keepdims=keepdims)).all()


def test_rows_of_several_arrays():
    out = nd.concat(csr(), csr(), dim=0)
    assert out.stype == "csr" and (out.asnumpy() == np.concatenate([ROWS, ROWS])).all()
    assert nd.concat(csr(), csr(), dim=1).stype == "default"


def test_choices_and_edges():
    out = nd.where(csr(), nd.ones((4, 2)), nd.zeros((4, 2)))
    assert out.stype == "default" and (out.asnumpy() == (ROWS != 0)).all()
    edges = nd.contrib.edge_id(csr(), nd.array([1, 1, 0]), nd.array([0, 1, 1]))
    assert edges.asnumpy().tolist() == [1, 2, -1]


def test_columns_in_any_order():
    array = nd.sparse.csr_matrix(([1, 2, 3], [1, 0, 1], [0, 2, 3]), shape=(2, 2))
    with pytest.raises(mx.MXNetError):
        array.check_format()
    assert array.asnumpy().tolist() == [[2, 1], [0, 3]]
    assert (array * 2).asnumpy().tolist() == [[4, 2], [0, 6]]
    assert array.indices.asnumpy().tolist() == [1, 0, 1]


def test_batch_norm_of_sparse_arrays_needs_gamma():
    arrays = [nd.array([1.0, 2.0]).tostype("row_sparse") for _ in range(4)]
    with pytest.raises(mx.MXNetError):
        nd.BatchNorm(rows(), *arrays, fix_gamma=True)
    assert nd.BatchNorm(rows(), *arrays, fix_gamma=False).shape == (4, 2)
