"""The profiler: a table of operators, and a trace."""

import json

import pytest
from mxnet import nd, profiler


@pytest.fixture(scope="module", name="trace")
def trace_file(tmp_path_factory):
    """MXNet's own library can be configured once, and writes one trace."""
    path = tmp_path_factory.mktemp("profiler") / "trace.json"
    profiler.set_config(profile_all=True, aggregate_stats=True, filename=str(path))
    return path


def work():
    x = nd.ones((64, 64))
    for _ in range(5):
        x = nd.dot(x, x) * 0.01
    nd.softmax(x).wait_to_read()


def test_the_table_counts_calls(trace):
    profiler.set_state("run")
    work()
    nd.waitall()
    profiler.set_state("stop")
    table = profiler.dumps(reset=True)
    rows = {line.split()[0]: line.split() for line in table.splitlines() if line.split()}
    assert rows["dot"][1] == "5" and rows["softmax"][1] == "1", table


def test_paused_work_is_not_counted(trace):
    profiler.set_state("run")
    profiler.pause()
    work()
    nd.waitall()
    profiler.resume()
    (nd.ones(3) - 2).wait_to_read()
    nd.waitall()
    profiler.set_state("stop")
    assert "softmax" not in profiler.dumps(reset=True)


def test_the_trace_has_operators_and_what_a_program_adds(trace):
    profiler.set_state("run")
    domain = profiler.Domain("program")
    task, frame, event = domain.new_task("load"), domain.new_frame("step"), profiler.Event("moment")
    for timed in (task, frame, event):
        timed.start()
    counter = domain.new_counter("samples", 3)
    counter += 2
    domain.new_marker("here").mark("process")
    for timed in (event, frame, task):
        timed.stop()
    work()
    nd.waitall()
    profiler.set_state("stop")
    profiler.dump()
    names = {event.get("name") for event in json.loads(trace.read_text())["traceEvents"]}
    assert {"dot", "softmax", "load", "samples"} <= names
