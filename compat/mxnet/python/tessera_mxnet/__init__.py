"""Makes Tessera's library the engine of pip's package mxnet: import tessera_mxnet, then mxnet as ever.

`python -m tessera_mxnet train.py ...` runs a program that does not name this module. The import
fails with ImportError where mxnet 1.9.1 is not installed, or is imported already and has loaded
another library.
"""

import importlib
import importlib.util
import os
import sys

from tessera_mxnet import former_names, onnx_export

__version__ = "0.1.0"

#: The shared library, which has MXNet's C API; MXNET_LIBRARY_PATH names it for child processes too.
LIBRARY = os.path.join(os.path.dirname(os.path.realpath(__file__)), "libtessera_mxnet.so")

_INTERFACE = "1.9.1"


def _pip_command():
    # From Python 3.12 on, pip finds no NumPy that both mxnet's metadata and that Python allow.
    no_deps = "--no-deps " if sys.version_info >= (3, 12) else ""
    return f"python -m pip install {no_deps}mxnet=={_INTERFACE}"


def _load():
    if "mxnet" not in sys.modules:
        found = importlib.util.find_spec("mxnet")
        # A folder of that name without an __init__.py is found too, and has no origin.
        if found is None or found.origin is None:
            raise ImportError(
                f"tessera_mxnet: there is no package mxnet; install it with {_pip_command()}",
                name="mxnet")
        if not os.path.isfile(LIBRARY):
            raise ImportError(f"tessera_mxnet: there is no {LIBRARY}; expected it beside the module")
        former_names.restore()
        os.environ["MXNET_LIBRARY_PATH"] = LIBRARY

    import mxnet  # pylint: disable=import-outside-toplevel

    loaded = mxnet.base._LIB._name  # pylint: disable=protected-access
    if not os.path.exists(loaded) or not os.path.samefile(loaded, LIBRARY):
        raise ImportError(
            f"tessera_mxnet: mxnet has loaded {loaded}, expected {LIBRARY}; import tessera_mxnet "
            "before mxnet, or run the program by python -m tessera_mxnet")
    if mxnet.__version__ != _INTERFACE:
        raise ImportError(
            f"tessera_mxnet: the package mxnet has version {mxnet.__version__}, expected "
            f"{_INTERFACE}; install it with {_pip_command()}")
    former_names.restore_after_import()
    onnx_export.restore()
    importlib.import_module("tessera_mxnet.many_workers")
    importlib.import_module("tessera_mxnet.horovod_mxnet").install()


_load()
