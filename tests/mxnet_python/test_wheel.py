"""The module tessera_mxnet: what it prepares, how it runs programs, and what it says where it cannot."""

import os
import subprocess
import sys
from importlib import metadata

import numpy as np
import pytest

import chosen_library

PROGRAM = """
import os, sys
print(__name__, sys.argv, os.path.realpath(sys.path[0]) == os.path.dirname(os.path.realpath(__file__)))
import beside
import mxnet as mx
print(mx.nd.ones(3).sum().asscalar(), os.path.basename(mx.base._LIB._name))
sys.exit(7)
"""


@pytest.fixture(autouse=True)
def only_the_wheel(library):
    if library != chosen_library.WHEEL:
        pytest.skip("of the installed wheel")


def python(*arguments, **options):
    return subprocess.run([sys.executable, *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True, **options)


@pytest.fixture(name="folder")
def folder_with_a_program(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    (tmp_path / "beside.py").write_text("print('beside')")
    return tmp_path


def test_a_program_runs_unchanged(folder):
    result = python("-m", "tessera_mxnet", folder / "train.py", "--epochs", "3")
    assert result.returncode == 7, result.stderr
    path = str(folder / "train.py")
    assert result.stdout.splitlines() == [
        "__main__ ['%s', '--epochs', '3'] True" % path, "beside", "3.0 libtessera_mxnet.so"]


def test_a_module_runs_unchanged(folder):
    result = python("-m", "tessera_mxnet", "-m", "train", "--epochs", "3", cwd=str(folder))
    assert result.returncode == 7, result.stderr
    assert result.stdout.splitlines()[1:] == ["beside", "3.0 libtessera_mxnet.so"]
    assert "'--epochs', '3'] True" in result.stdout


def test_an_exception_and_the_end_of_a_program_are_its_own(folder):
    (folder / "train.py").write_text("raise KeyError('of the program')")
    result = python("-m", "tessera_mxnet", folder / "train.py")
    assert result.returncode == 1 and "of the program" in result.stderr
    (folder / "train.py").write_text("")
    assert python("-m", "tessera_mxnet", folder / "train.py").returncode == 0


def test_wrong_calls_say_how_it_is_called():
    for arguments, said in (((), "no program"), (("-x",), "no program"), (("no_such.py",), "no_such.py")):
        result = python("-m", "tessera_mxnet", *arguments)
        assert result.returncode == 2 and said in result.stderr
    assert "PROGRAM.py" in python("-m", "tessera_mxnet", "--help").stdout


def test_child_processes_load_the_library_too():
    result = python("-c", "import subprocess, sys, tessera_mxnet; subprocess.run([sys.executable, '-c', "
                          "'import tessera_mxnet, mxnet; print(mxnet.base._LIB._name)'], check=True)")
    assert result.stdout.strip().endswith("libtessera_mxnet.so"), result.stderr


def test_mxnet_that_is_loaded_already_is_an_error():
    names = os.path.join(os.path.dirname(chosen_library.__file__), "chosen_library.py")
    result = python("-c", f"import runpy; runpy.run_path({names!r})['choose']('mxnet')\n"
                          "import mxnet\nimport tessera_mxnet")
    assert result.returncode == 1
    assert "import tessera_mxnet before mxnet" in result.stderr and "libmxnet.so" in result.stderr


def test_a_missing_package_is_an_error_with_the_command(tmp_path):
    # Without site-packages, and with a copy of the module.
    module = os.path.dirname(sys.modules["tessera_mxnet"].__file__)
    numpy = os.path.dirname(os.path.dirname(np.__file__))
    for name in os.listdir(numpy):
        if name.split(".")[0] == "numpy":
            (tmp_path / name).symlink_to(os.path.join(numpy, name))
    (tmp_path / "tessera_mxnet").symlink_to(module)
    result = python("-S", "-c", "import tessera_mxnet", env={**os.environ, "PYTHONPATH": str(tmp_path)})
    assert result.returncode == 1
    assert "mxnet==1.9.1" in result.stderr, result.stderr
    assert ("--no-deps" in result.stderr) == (sys.version_info >= (3, 12))


def test_former_names_are_back():
    assert np.bool is bool or np.bool is np.bool_
    assert np.float_ is np.float64 and np.product is not None and np.in1d([1], [1]).all()
    assert np.PINF == np.inf and np.isnan(np.NaN)


def test_the_version_is_the_wheels():
    assert metadata.version("tessera-mxnet") == sys.modules["tessera_mxnet"].__version__
