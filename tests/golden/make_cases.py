#!/usr/bin/python3
"""Writes golden cases from MXNet 1.9.1: make_cases.py OUT [FAMILY …]

Needs an environment with mxnet==1.9.1 and numpy==1.19.5 (Python 3.8), which nothing else here needs. For each
case of families.py it runs the operator in MXNet on the CPU, in processes apart, since some calls end theirs, and
writes OUT/FAMILY.json and OUT/FAMILY.params:

- The JSON lists the cases: operator, attributes, mode, the names of the inputs, and which inputs have gradients.
- The .params file holds the arrays as CASE/in/I, CASE/out/I, CASE/head/I (the head gradients), CASE/grad/I and
  CASE/state/I (an input that the operator changed, afterwards).

Expected values of 16-bit types are computed from the same inputs in float64.
"""

import argparse
import json
import multiprocessing
import os
import pickle
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import families
from case import Case

SIXTEEN_BITS = ("float16",)

# Operators whose graphs MXNet does not bind, since it cannot infer them, with the number of a weight's arrays. They
# are called imperatively.
CALLED = {
    "multi_sgd_update": 2, "multi_sgd_mom_update": 3, "multi_mp_sgd_update": 3, "multi_mp_sgd_mom_update": 4,
    "preloaded_multi_sgd_update": 2, "preloaded_multi_sgd_mom_update": 3,
    "preloaded_multi_mp_sgd_update": 3, "preloaded_multi_mp_sgd_mom_update": 4,
    "_adamw_update": 4, "_mp_adamw_update": 5, "_multi_adamw_update": 4, "_multi_mp_adamw_update": 5,
    "_multi_lamb_update": 4, "_multi_mp_lamb_update": 5,
}

# Operators whose oneDNN code in MXNet takes fewer types and fails for some.
WITHOUT_ONEDNN = ("amp_cast", "amp_multicast")


def graph(op: str, attrs: dict, count: int) -> str:
    """The graph of one operator over variables x0, x1, …, as MXNet's JSON."""
    nodes = [{"op": "null", "name": f"x{i}", "inputs": []} for i in range(count)]
    nodes.append({"op": op, "name": "node", "attrs": attrs, "inputs": [[i, 0, 0] for i in range(count)]})
    return json.dumps({"nodes": nodes, "arg_nodes": list(range(count)), "heads": [[count, 0, 0]],
                       "attrs": {"mxnet_version": ["int", 10901]}})


def run(case: Case, inputs: list, heads: list) -> dict:
    """Runs a case in MXNet: {"out": …, "grad": …, "state": …, "heads": …} as NumPy arrays."""
    import mxnet as mx  # pylint: disable=import-outside-toplevel,import-error

    if case.op in CALLED:
        return call(case, inputs)
    with mx.util.np_shape(case.np_shape or has_no_legacy_shape(inputs)):
        return run_here(case, inputs, heads)


def has_no_legacy_shape(arrays: list) -> bool:
    """Whether some array is empty or a scalar: MXNet reads such shapes as unknown unless told otherwise."""
    return any(value.size == 0 or value.ndim == 0 for value in arrays)


def run_here(case: Case, inputs: list, heads: list) -> dict:
    import mxnet as mx  # pylint: disable=import-outside-toplevel,import-error

    def array(value: np.ndarray) -> Any:
        return mx.nd.array(value, dtype=value.dtype)

    symbol = mx.sym.load_json(graph(case.op, case.attrs, len(inputs)))
    outputs = symbol.get_internals()
    visible = [name for name in outputs.list_outputs() if name.startswith("node_")]
    symbol = mx.sym.Group([outputs[name] for name in visible])
    arguments = {name: array(inputs[int(name[1:])]) for name in symbol.list_arguments()}
    states = {name: array(inputs[int(name[1:])]) for name in symbol.list_auxiliary_states()}
    wanted = {f"x{i}": "write" if case.gradients[i] else "null" for i in range(len(inputs))}
    wanted = {name: wanted[name] for name in arguments}
    gradients = {name: mx.nd.zeros(value.shape, dtype=value.dtype)
                 for name, value in arguments.items() if wanted[name] == "write"}
    executor = symbol.bind(mx.cpu(), arguments, args_grad=gradients, grad_req=wanted, aux_states=states)
    out = executor.forward(is_train=case.train)
    result = {"out": [value.asnumpy() for value in out], "grad": {}, "state": {}, "heads": []}
    if gradients:
        if not heads:
            random = np.random.RandomState(7)
            heads = [np.asarray(random.uniform(-1, 1, value.shape)).astype(value.dtype) for value in result["out"]]
        executor.backward([array(value) for value in heads])
        result["grad"] = {name: value.asnumpy() for name, value in gradients.items()}
        result["heads"] = heads
    result["state"] = {name: value.asnumpy() for name, value in states.items()}
    return result


def call(case: Case, inputs: list) -> dict:
    """What run returns, for an operator of CALLED."""
    import mxnet as mx  # pylint: disable=import-outside-toplevel,import-error

    arrays = [mx.nd.array(value, dtype=value.dtype) for value in inputs]
    count = int(case.attrs.get("num_weights", case.attrs.get("num_tensors", "1")))
    weights = arrays[::CALLED[case.op]][:count]
    out = [mx.nd.zeros_like(weight) for weight in weights]  # which MXNet does not make itself
    functions = mx.nd._internal if case.op.startswith("_") else mx.nd  # pylint: disable=protected-access
    getattr(functions, case.op)(*arrays, out=out, **case.attrs)
    state = {f"x{i}": array.asnumpy() for i, (array, value) in enumerate(zip(arrays, inputs))
             if not np.array_equal(array.asnumpy(), value)}
    return {"out": [value.asnumpy() for value in out], "grad": {}, "state": state, "heads": []}


def run_in_float64(case: Case, inputs: list, result: dict) -> dict:
    """MXNet's results for the same numbers in float64, in the types that `result` has."""
    def wide(value: np.ndarray) -> np.ndarray:
        return value.astype("float64") if value.dtype.name in SIXTEEN_BITS + ("float32",) else value
    exact = run(case, [wide(value) for value in inputs], [wide(value) for value in result["heads"]])
    found = {"out": [e.astype(v.dtype) for e, v in zip(exact["out"], result["out"])]}
    for key in ("grad", "state"):
        found[key] = {name: exact[key][name].astype(value.dtype) for name, value in result[key].items()}
    return found


def answer(case: Case, exact: bool) -> tuple:
    """The inputs and MXNet's results for a case; if `exact`, the results of float32 inputs in float64 too."""
    inputs = case.arrays()
    result = run(case, inputs, [])
    # Operators of mixed precision compute in float32 themselves.
    if any(value.dtype.name in SIXTEEN_BITS for value in inputs) and "mp_" not in case.op:
        result.update(run_in_float64(case, inputs, result))
    elif exact and any(value.dtype.name == "float32" for value in inputs):
        try:
            result.update({f"exact_{key}": value for key, value in run_in_float64(case, inputs, result).items()})
        except Exception:  # pylint: disable=broad-except; an operator of MXNet that takes float32 alone
            pass
    return inputs, result


def reason(error: Exception) -> str:
    """The line of MXNet's message that says what it is about."""
    lines = str(error).splitlines()
    return next((line for line in lines if "Check failed" in line or "Error:" in line), lines[0])


def answer_all(cases: list, first: int, scratch: Path, exact: bool) -> None:
    """Writes the answers from case `first` on, each into a file, until all are done or the process ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # MXNet remarks on every graph
    for number in range(first, len(cases)):
        try:
            found = answer(cases[number], exact)
        except Exception as error:  # pylint: disable=broad-except; told by the parent
            found = reason(error)
        (scratch / f"{number}.part").write_bytes(pickle.dumps(found))
        (scratch / f"{number}.part").rename(scratch / str(number))


def answers(cases: list, scratch: Path, exact: bool) -> list:
    """The answer of each case, or what MXNet says against it. A call that ends the process, or that takes a
    minute, counts as refused if it does so in a process of its own too, since an earlier one may have broken the
    first; a new process goes on behind it."""
    context = multiprocessing.get_context("spawn")
    # The thread that asks computes too: others would not know of NumPy semantics, and report errors later.
    os.environ.update(MXNET_ENGINE_TYPE="NaiveEngine",
                      MXNET_MKLDNN_ENABLED="0" if all(case.op in WITHOUT_ONEDNN for case in cases) else "1")
    first = 0
    while first < len(cases):
        process = context.Process(target=answer_all, args=(cases, first, scratch, exact))
        process.start()
        last, deadline = first, time.monotonic() + 60
        while process.is_alive() and time.monotonic() < deadline:
            process.join(0.2)
            while (scratch / str(last)).exists():
                last, deadline = last + 1, time.monotonic() + 60
        process.kill()
        process.join()
        while (scratch / str(last)).exists():
            last += 1
        if last < len(cases) and last == first:
            (scratch / str(last)).write_bytes(pickle.dumps("the process ended or hung"))
            last += 1
        first = last
    return [pickle.loads((scratch / str(number)).read_bytes()) for number in range(len(cases))]


def make(name: str, cases: list, out: Path, exact: bool = False) -> dict:
    """Writes the files of some cases. Returns what MXNet says against those that it refuses, by name."""
    import mxnet as mx  # pylint: disable=import-outside-toplevel,import-error

    listed, arrays, refused = [], {}, {}
    with tempfile.TemporaryDirectory() as scratch:
        found = answers(cases, Path(scratch), exact)
    for number, (case, given) in enumerate(zip(cases, found)):
        title = f"{case.op}_{number}"
        if isinstance(given, str):
            refused[title] = f"{case.op} {case.attrs}: {given}"
            continue
        inputs, result = given
        listed.append({"name": title, "op": case.op, "attrs": case.attrs, "train": case.train,
                       "inputs": len(inputs), "outputs": len(result["out"]),
                       "gradients": sorted(int(x[1:]) for x in result["grad"]),
                       "states": sorted(int(x[1:]) for x in result["state"])})
        for key, values in (("in", inputs), ("out", result["out"]), ("head", result["heads"]),
                            ("exact_out", result.get("exact_out", []))):
            for i, value in enumerate(values):
                arrays[f"{title}/{key}/{i}"] = value
        for key in ("grad", "state", "exact_grad", "exact_state"):
            for x, value in result.get(key, {}).items():
                arrays[f"{title}/{key}/{x[1:]}"] = value
    (out / f"{name}.json").write_text(json.dumps({"cases": listed}, indent=1) + "\n", encoding="utf-8")
    with mx.util.np_shape(has_no_legacy_shape(list(arrays.values()))):
        mx.nd.save(str(out / f"{name}.params"),
                   {key: mx.nd.array(value, dtype=value.dtype) for key, value in arrays.items()})
    return refused


def main(arguments: list) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("family", nargs="*", default=sorted(families.FAMILIES))
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.family:
        cases = families.FAMILIES[name]()
        refused = make(name, cases, options.out)
        for title, why in refused.items():
            print(f"{title}: MXNet refuses {why}", file=sys.stderr)
        print(f"{name}: {len(cases) - len(refused)} cases, {len(refused)} refused")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
