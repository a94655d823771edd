"""What mxnet.onnx.export_model needs of onnx, and newer versions of onnx do not have any more."""

import contextlib
import functools
import importlib.abc
import importlib.machinery
import sys
import threading

import numpy

# mxnet writes the operators of opset 13 at most, and onnx describes that opset with format 7.
_OPSET, _FORMAT = 13, 7

# By the names that onnx gives element types, NumPy's. onnx had such tables until version 1.19.
_TYPES = {
    "FLOAT": "float32", "UINT8": "uint8", "INT8": "int8", "UINT16": "uint16", "INT16": "int16",
    "INT32": "int32", "INT64": "int64", "STRING": "object", "BOOL": "bool", "FLOAT16": "float16",
    "DOUBLE": "float64", "UINT32": "uint32", "UINT64": "uint64", "COMPLEX64": "complex64",
    "COMPLEX128": "complex128",
}

# An export changes what onnx takes for its newest opset, so one runs at a time.
_LOCK = threading.Lock()


class _MappingFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the module onnx.mapping where onnx has none: the last of the finders."""

    def find_spec(self, fullname, path=None, target=None):  # pylint: disable=unused-argument
        return importlib.machinery.ModuleSpec(fullname, self) if fullname == "onnx.mapping" else None

    def create_module(self, spec):  # pylint: disable=unused-argument
        return None

    def exec_module(self, module):
        from onnx import TensorProto  # pylint: disable=import-outside-toplevel

        module.TENSOR_TYPE_TO_NP_TYPE = {
            getattr(TensorProto, name): numpy.dtype(dtype) for name, dtype in _TYPES.items()}
        module.NP_TYPE_TO_TENSOR_TYPE = {
            dtype: number for number, dtype in module.TENSOR_TYPE_TO_NP_TYPE.items()}


@contextlib.contextmanager
def _pinned():
    """Lets onnx make and check models of the pinned opset."""
    from onnx import checker, defs, helper  # pylint: disable=import-outside-toplevel

    context = checker.DEFAULT_CONTEXT
    with _LOCK:
        newest, make_model = defs.onnx_opset_version, helper.make_model
        opsets, version = context.opset_imports, context.ir_version
        defs.onnx_opset_version = lambda: _OPSET
        helper.make_model = functools.partial(
            make_model, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_FORMAT)
        context.opset_imports, context.ir_version = {"": _OPSET}, _FORMAT
        try:
            yield
        finally:
            defs.onnx_opset_version, helper.make_model = newest, make_model
            context.opset_imports, context.ir_version = opsets, version


def _of_pinned_opset(export_model):
    @functools.wraps(export_model)
    def export(*args, **kwargs):
        try:
            import onnx  # pylint: disable=import-outside-toplevel,unused-import
        except ImportError:
            return export_model(*args, **kwargs)  # says what to install
        with _pinned():
            return export_model(*args, **kwargs)

    return export


def restore():
    """Lets mxnet.onnx.export_model, under all of its names, work with every onnx. Imports no onnx."""
    if any(isinstance(finder, _MappingFinder) for finder in sys.meta_path):
        return
    sys.meta_path.append(_MappingFinder())
    names = {"mxnet.onnx.mx2onnx._export_model": "export_model", "mxnet.onnx.mx2onnx": "export_model",
             "mxnet.onnx": "export_model", "mxnet.contrib.onnx": "export_model_"}
    export = _of_pinned_opset(sys.modules["mxnet.onnx"].export_model)
    for module, name in names.items():
        setattr(sys.modules[module], name, export)
