"""A program may end at any time: nothing calls Python while its interpreter ends."""

import concurrent.futures
import os

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
STATUS = {"return": 0, "exit": 3, "raise": 1, "shutdown": 0}
TIMES = 50


# MXNet's own library hangs in some of these.
@pytest.mark.ours
def test_programs_end_with_work_and_callbacks_pending(run):
    ways = [list(STATUS)[i % len(STATUS)] for i in range(TIMES)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        ended = list(pool.map(lambda how: run(os.path.join(HERE, "pending_program.py"), how), ways))
    for how, result in zip(ways, ended):
        said = "%s: status %d\n%s\n%s" % (how, result.returncode, result.stdout, result.stderr)
        assert result.returncode == STATUS[how], said
        assert result.stdout.startswith("pushed"), said
        assert "Fatal" not in result.stderr, said
        if how == "shutdown":
            assert result.stdout.split("\n")[1] == "(256, 256) 3.0", said


# MXNet's own library without CUDA prints an error.
@pytest.mark.ours
def test_what_could_not_be_created_is_freed_in_silence(run):
    result = run(os.path.join(HERE, "rtc_program.py"))
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("refused: MXRtcCudaModuleCreate"), result.stdout
    assert "Exception ignored" not in result.stderr, result.stderr
