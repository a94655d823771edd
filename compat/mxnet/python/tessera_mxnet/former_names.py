"""Names that mxnet 1.9.1 uses, and that newer versions of NumPy and Python do not have any more."""

import functools
import importlib
import importlib.util
import numbers
import re
import struct
import sys
import types

import numpy

# By what each name of NumPy's is served. A text names what NumPy has in its place today. None serves
# where mxnet only lists a function among those that it hands on to NumPy.
_NUMPY_NAMES = {
    # Gone since 1.24.
    "bool": bool, "int": int, "float": float, "complex": complex, "object": object, "str": str,
    # Gone since 2.0.
    "Inf": "inf", "Infinity": "inf", "PINF": "inf", "NaN": "nan", "NAN": "nan", "NINF": -numpy.inf,
    "PZERO": 0.0, "NZERO": -0.0, "float_": "float64", "alltrue": "all", "sometrue": "any",
    "product": "prod", "cumproduct": "cumprod", "round_": "round",
    # Gone since 2.4.
    "in1d": "isin", "trapz": "trapezoid",
    # Gone since 1.20, but for msort.
    "mirr": None, "msort": None, "npv": None, "pmt": None, "ppmt": None, "pv": None, "rate": None,
}


@functools.total_ordering
class _Version:
    """A version, ordered by its numbers: as much of distutils' classes as mxnet needs."""

    def __init__(self, text):
        self._numbers = [int(digits) for digits in re.findall(r"\d+", text)]

    def __eq__(self, other):
        return self._numbers == self._of(other)

    def __lt__(self, other):
        return self._numbers < self._of(other)

    @staticmethod
    def _of(other):
        return (other if isinstance(other, _Version) else _Version(other))._numbers


def _restore_numpy():
    for name, value in _NUMPY_NAMES.items():
        # NumPy warns of names that it still serves by its module's __getattr__; they are set too.
        if name not in vars(numpy):
            setattr(numpy, name, getattr(numpy, value) if isinstance(value, str) else value)


def _restore_distutils():
    """Puts a module distutils.version in place where neither Python nor setuptools has it."""
    if "distutils" in sys.modules or importlib.util.find_spec("distutils") is not None:
        return
    package, module = types.ModuleType("distutils"), types.ModuleType("distutils.version")
    package.__path__ = []
    package.version = module
    module.LooseVersion = module.StrictVersion = _Version
    sys.modules.update({"distutils": package, "distutils.version": module})


def restore():
    """Puts back what `import mxnet` needs, each name only where it is absent."""
    _restore_numpy()
    _restore_distutils()


def restore_after_import():
    """Replaces the function of mxnet that calls ndarray.tostring, which is gone since NumPy 2.3."""
    if hasattr(numpy.ndarray, "tostring"):
        return
    recordio = importlib.import_module("mxnet.recordio")
    pack_number = recordio.pack

    def pack(header, s):
        header = recordio.IRHeader(*header)
        if isinstance(header.label, numbers.Number):
            return pack_number(header, s)
        label = numpy.asarray(header.label, dtype=numpy.float32)
        header = header._replace(flag=label.size, label=0)
        return struct.pack(recordio._IR_FORMAT, *header) + label.tobytes() + s  # pylint: disable=protected-access

    pack.__doc__ = pack_number.__doc__
    recordio.pack = pack
