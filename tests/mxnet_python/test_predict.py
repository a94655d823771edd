"""The predict API, which serving programs call without the package: from Python and from C."""

import ctypes
import os
import shutil
import subprocess

import mxnet as mx
import numpy as np
import pytest

import files
import networks

HERE = os.path.dirname(os.path.abspath(__file__))
CPU = 1


class Predictor:
    """One network by the functions MXPred*, as wrappers of that API have it."""

    def __init__(self, library, symbol, parameters, name, shape, partial_output=None):
        self._library = library
        self._handle = ctypes.c_void_p()
        arguments = [
            symbol.encode(), ctypes.c_char_p(parameters), len(parameters), CPU, 0, 1,
            (ctypes.c_char_p * 1)(name.encode()), (ctypes.c_uint * 2)(0, len(shape)),
            (ctypes.c_uint * len(shape))(*shape)]
        create = library.MXPredCreate
        if partial_output:
            arguments += [1, (ctypes.c_char_p * 1)(partial_output.encode())]
            create = library.MXPredCreatePartialOut
        self._check(create(*arguments, ctypes.byref(self._handle)))

    def _check(self, status):
        if status != 0:
            self._library.MXGetLastError.restype = ctypes.c_char_p
            raise RuntimeError(self._library.MXGetLastError().decode(errors="replace"))

    def set_input(self, name, values):
        values = np.ascontiguousarray(values, "float32")
        self._check(self._library.MXPredSetInput(
            self._handle, name.encode(), values.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), values.size))

    def reshaped(self, name, shape):
        other = object.__new__(Predictor)
        other._library, other._handle = self._library, ctypes.c_void_p()
        self._check(self._library.MXPredReshape(
            1, (ctypes.c_char_p * 1)(name.encode()), (ctypes.c_uint * 2)(0, len(shape)),
            (ctypes.c_uint * len(shape))(*shape), self._handle, ctypes.byref(other._handle)))
        return other

    def output(self, index=0):
        self._check(self._library.MXPredForward(self._handle))
        extents, rank = ctypes.POINTER(ctypes.c_uint)(), ctypes.c_uint()
        self._check(self._library.MXPredGetOutputShape(
            self._handle, index, ctypes.byref(extents), ctypes.byref(rank)))
        values = np.empty(extents[:rank.value], "float32")
        self._check(self._library.MXPredGetOutput(
            self._handle, index, values.ctypes.data_as(ctypes.POINTER(ctypes.c_float)), values.size))
        return values

    def free(self):
        self._check(self._library.MXPredFree(self._handle))


@pytest.fixture(name="model")
def saved_model(tmp_path):
    """Paths of a graph and its parameters, an input, and what Module gives for it."""
    module = mx.mod.Module(networks.convolutional_symbol())
    module.bind([("data", files.IMAGE_SHAPE)], [("softmax_label", files.IMAGE_SHAPE[:1])], for_training=False)
    module.init_params(mx.init.Xavier())
    module.save_checkpoint(str(tmp_path / "model"), 1)
    data = np.random.RandomState(1).uniform(-1, 1, files.IMAGE_SHAPE).astype("float32")
    module.forward(mx.io.DataBatch([mx.nd.array(data)], None))
    return (tmp_path / "model-symbol.json", tmp_path / "model-0001.params", data, module.get_outputs()[0].asnumpy())


@pytest.fixture(name="predictor_of")
def predictors(loaded_library):
    return lambda *arguments, **options: Predictor(ctypes.CDLL(loaded_library), *arguments, **options)


def test_outputs_are_modules_outputs(model, predictor_of):
    graph, parameters, data, expected = model
    predictor = predictor_of(graph.read_text(), parameters.read_bytes(), "data", data.shape)
    predictor.set_input("data", data)
    np.testing.assert_allclose(predictor.output(), expected, rtol=1e-5)
    # MXNet's own library does not reshape what has a label.
    inner = predictor_of(graph.read_text(), parameters.read_bytes(), "data", data.shape, partial_output="pool")
    inner.set_input("data", data)
    pooled = inner.output()
    assert pooled.shape == (2, 4, 4, 4)
    one = inner.reshaped("data", (1, *data.shape[1:]))
    one.set_input("data", data[1:])
    np.testing.assert_allclose(one.output(), pooled[1:], rtol=1e-5)
    for each in (predictor, inner, one):
        each.free()


def test_wrong_calls_are_errors(model, predictor_of):
    graph, parameters, data, _ = model
    for symbol, content in ((graph.read_text()[:100], parameters.read_bytes()),
                            (graph.read_text(), parameters.read_bytes()[:100])):
        with pytest.raises(RuntimeError):
            predictor_of(symbol, content, "data", data.shape)
    predictor = predictor_of(graph.read_text(), parameters.read_bytes(), "data", data.shape)
    with pytest.raises(RuntimeError):
        predictor.set_input("no_such_input", data)
    with pytest.raises(RuntimeError):
        predictor.set_input("data", data[:1])
    predictor.free()


def test_a_program_in_c(model, loaded_library, tmp_path):
    compiler = shutil.which("cc") or shutil.which("gcc")
    assert compiler, "there is no C compiler"
    program = str(tmp_path / "predict_program")
    subprocess.run([compiler, "-Wall", "-Werror", "-o", program, os.path.join(HERE, "predict_program.c"), "-ldl"],
                   check=True)
    graph, parameters, data, expected = model
    image = tmp_path / "image"
    image.write_bytes(data[:1].tobytes())
    found = subprocess.run([program, loaded_library, str(graph), str(parameters), str(image), *map(str, (1, 3, 8, 8))],
                           stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout
    np.testing.assert_allclose([float(word) for word in found.split()], expected[0], rtol=1e-4)
