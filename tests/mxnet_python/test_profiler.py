"""The profiler: a table of operators, and a trace."""

import json

import mxnet as mx
import pytest
from mxnet import autograd, nd, profiler


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


class Doubled(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0] * 2)

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        self.assign(in_grad[0], req[0], out_grad[0] * 2)


@mx.operator.register("tests_doubled")
class DoubledProp(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Doubled()


def test_the_table_has_operators_in_python_and_what_they_call(trace):
    profiler.set_state("run")
    x = nd.ones(3)
    x.attach_grad()
    with autograd.record():
        y = nd.Custom(x, op_type="tests_doubled")
    y.backward()
    nd.waitall()
    profiler.set_state("stop")
    times = json.loads(profiler.dumps(reset=True, format="json"))["Time"]
    rows = {name: row["Count"] for name, row in times["Custom Operator"].items()}
    for name in ("tests_doubled::pure_python", "_backward_tests_doubled::pure_python", "tests_doubled::_mul_scalar"):
        assert rows[name] == 1, rows
    assert "Custom" not in times["operator"] and "_mul_scalar" not in times["operator"]
    assert "MXNDArrayWaitAll" in times["MXNET_C_API"] and not any("::" in name for name in times["MXNET_C_API"])


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
