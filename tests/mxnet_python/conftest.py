"""Tests of the package mxnet on Tessera's library: pytest [--library=LIBRARY]

See chosen_library.py for LIBRARY. On MXNet's own, `--library=mxnet`, the tests pass too, but for those
of what MXNet does not do.
"""

import faulthandler
import os
import subprocess
import sys

import numpy as np
import pytest

import chosen_library

HERE = os.path.dirname(os.path.abspath(__file__))
# A test takes seconds, the longest a minute on two free cores. One that hangs ends the run, with a trace
# of every thread.
TIMEOUT_S = 400
# check.sh names the library where there is MPI.
collect_ignore = [] if "TESSERA_MPI_LIBRARY" in os.environ else ["test_many_workers.py"]


def pytest_addoption(parser):
    parser.addoption("--library", default=chosen_library.WHEEL, help="see chosen_library.py")


def pytest_configure(config):
    # Of a hanging test, pytest would keep what goes to the usual one.
    config.true_stderr = os.fdopen(os.dup(2), "w")
    chosen_library.choose(config.getoption("--library"))
    config.addinivalue_line("markers", "ours: what MXNet's own library does not do")


def pytest_collection_modifyitems(config, items):
    if config.getoption("--library") == chosen_library.OWN:
        for item in items:
            if item.get_closest_marker("ours"):
                item.add_marker(pytest.mark.skip(reason="of Tessera's library alone"))


@pytest.fixture(scope="session")
def library(request):
    return request.config.getoption("--library")


@pytest.fixture(autouse=True)
def loaded_library(library, request):
    """Fails every test that would run on another library than the chosen one."""
    import mxnet as mx  # pylint: disable=import-outside-toplevel

    loaded = mx.base._LIB._name
    assert chosen_library.is_chosen(library, loaded), loaded
    faulthandler.dump_traceback_later(TIMEOUT_S, exit=True, file=request.config.true_stderr)
    yield loaded
    faulthandler.cancel_dump_traceback_later()


@pytest.fixture(scope="session")
def run(library):
    """Runs a program on the chosen library; returns what subprocess.run does."""

    def run_program(*arguments, **options):
        return subprocess.run(
            [*chosen_library.command(library), *map(str, arguments)], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, universal_newlines=True, timeout=TIMEOUT_S / 4, **options)

    return run_program


class Reference:
    """What the programs of programs.py gave on MXNet's own library, with the files that they wrote."""

    def __init__(self, folder):
        self.folder = folder
        environment = dict(os.environ, OMP_NUM_THREADS="1")
        environment.pop("MXNET_LIBRARY_PATH", None)
        self._process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "chosen_library.py"), chosen_library.OWN,
             os.path.join(HERE, "programs.py"), str(folder)],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment, universal_newlines=True)
        self._said = None

    def wait(self):
        if self._said is None:
            self._said = self._process.communicate(timeout=TIMEOUT_S / 2)[0]
        assert self._process.returncode == 0, self._said

    def results(self, name):
        self.wait()
        with np.load(str(self.folder / (name + ".npz"))) as archive:
            return dict(archive)


@pytest.fixture(scope="session")
def reference(tmp_path_factory):
    return Reference(tmp_path_factory.mktemp("reference"))


@pytest.fixture(scope="session", autouse=True)
def early_reference(reference):
    """Starts MXNet's own library at once, beside the first tests."""
    return reference
