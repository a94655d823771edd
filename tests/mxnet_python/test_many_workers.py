"""Programs that mpirun starts several times: MXNet's stores of many workers, and Horovod's functions."""

import os
import re
import subprocess
import sys

import pytest

import chosen_library

HERE = os.path.dirname(os.path.abspath(__file__))
pytestmark = pytest.mark.ours

# Open MPI refuses root and more workers than cores unless it is told, and binds a worker's threads to one core.
SETTINGS = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
    "TESSERA_NUM_THREADS": "1",
}


@pytest.fixture(name="run_workers")
def fixture_run_workers(library, tmp_path):
    """Runs a case of workers_program.py in several processes; returns what subprocess.run does."""

    def run(workers, case, launcher=("mpirun", "--bind-to", "none"), **environment):
        command = [*launcher, "-n", str(workers), *chosen_library.command(library),
                   os.path.join(HERE, "workers_program.py"), case]
        return subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=100,
            env={**os.environ, **SETTINGS, **environment}, cwd=str(tmp_path))

    return run


def assert_ok(result, workers):
    assert result.returncode == 0, result.stderr
    lines = ["rank %d of %d: ok" % (rank, workers) for rank in range(workers)]
    # mpirun may join the pieces of two workers' lines.
    assert sorted(re.findall(r"rank \d of \d: ok", result.stdout)) == lines


@pytest.mark.parametrize("workers, case", [
    (1, "stores"), (2, "stores"), (4, "stores"), (2, "optimizer"), (2, "trainer"), (4, "trainer"), (2, "module"),
    (2, "horovod"), (4, "horovod"), (2, "compressed"), (2, "no_servers")])
def test_workers(run_workers, workers, case):
    assert_ok(run_workers(workers, case), workers)


def test_the_options_of_mxnets_launcher(run_workers):
    launcher = [sys.executable, "-m", "tessera_mxnet.launch", "--launcher", "local", "-s", "2", "--env",
                "DMLC_NUM_WORKER=2"]
    assert_ok(run_workers(2, "stores", launcher), 2)
    wrong = run_workers(0, "stores", launcher)
    assert wrong.returncode == 2 and "-n is 0" in wrong.stderr


@pytest.mark.parametrize("case, cause", [
    ("raises", "KeyError: 'no such column'"), ("exits", "the program ends by sys.exit(3)")])
def test_an_error_of_one_worker_ends_the_job(run_workers, case, cause):
    result = run_workers(2, case)
    assert result.returncode != 0
    assert "tessera: rank 1 of 2: " + cause in result.stderr
    assert ": ok" not in result.stdout


@pytest.mark.parametrize("environment, said", [
    ({"DMLC_ROLE": "server"}, "mpirun"), ({"DMLC_NUM_WORKER": "3"}, "mpirun -n 3")])
def test_the_launcher_of_mxnet_is_no_launcher_here(run_workers, environment, said):
    result = run_workers(1, "stores", **environment)
    assert result.returncode != 0
    assert "MXNetError" in result.stderr and said in result.stderr
