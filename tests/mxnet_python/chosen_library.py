"""Which library runs below the package mxnet: chosen_library.py LIBRARY PROGRAM [ARGUMENT]...

LIBRARY is tessera_mxnet, for the installed wheel; mxnet, for MXNet's own library; or the absolute
path of a library that was built here.
"""

import importlib
import os
import runpy
import sys

WHEEL, OWN = "tessera_mxnet", "mxnet"
_MODULE = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "compat", "mxnet", "python", "tessera_mxnet")


def choose(library):
    """Makes `import mxnet` load the library, on any Python."""
    os.environ.pop("MXNET_LIBRARY_PATH", None)
    if library == WHEEL:
        importlib.import_module(WHEEL)
        return
    names = runpy.run_path(os.path.join(_MODULE, "former_names.py"))
    names["restore"]()
    if library != OWN:
        os.environ["MXNET_LIBRARY_PATH"] = library
    names["restore_after_import"]()
    if library != OWN:
        importlib.import_module("mxnet.onnx")
        runpy.run_path(os.path.join(_MODULE, "onnx_export.py"))["restore"]()


def command(library):
    """What a command begins with that runs a program on the library."""
    if library == WHEEL:
        return [sys.executable, "-m", WHEEL]
    return [sys.executable, os.path.abspath(__file__), library]


def is_chosen(library, loaded):
    """Whether the library that mxnet says it has loaded is the one that was asked for."""
    if library == OWN:
        return os.path.basename(loaded) == "libmxnet.so"
    if library == WHEEL:
        return os.path.samefile(loaded, importlib.import_module(WHEEL).LIBRARY)
    return os.path.samefile(loaded, library)


if __name__ == "__main__":
    choose(sys.argv[1])
    del sys.argv[:2]
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
