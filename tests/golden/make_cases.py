#!/usr/bin/python3
"""Writes golden cases from MXNet 1.9.1: make_cases.py OUT [FAMILY …]

Needs an environment with mxnet==1.9.1 and numpy==1.19.5 (Python 3.8), which nothing else here needs. For each
case of families.py it runs the operator in MXNet on the CPU, in a process of its own, since some calls end the
process, and writes OUT/FAMILY.json and OUT/FAMILY.params:

- The JSON lists the cases: operator, attributes, mode, the names of the inputs, and which inputs have gradients.
- The .params file holds the arrays as CASE/in/I, CASE/out/I, CASE/head/I (the head gradients), CASE/grad/I and
  CASE/state/I (an input that the operator changed, afterwards).

Expected values of 16-bit types are computed from the same inputs in float64.
"""

import argparse
import json
import multiprocessing
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np

import families

SIXTEEN_BITS = ("float16",)


def graph(op: str, attrs: dict, count: int) -> str:
    """The graph of one operator over variables x0, x1, …, as MXNet's JSON."""
    nodes = [{"op": "null", "name": f"x{i}", "inputs": []} for i in range(count)]
    nodes.append({"op": op, "name": "node", "attrs": attrs, "inputs": [[i, 0, 0] for i in range(count)]})
    return json.dumps({"nodes": nodes, "arg_nodes": list(range(count)), "heads": [[count, 0, 0]],
                       "attrs": {"mxnet_version": ["int", 10901]}})


def run(case: families.Case, inputs: list, heads: list) -> dict:
    """Runs a case in MXNet: {"out": …, "grad": …, "state": …, "heads": …} as NumPy arrays."""
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
            heads = [random.uniform(-1, 1, value.shape).astype(value.dtype) for value in result["out"]]
        executor.backward([array(value) for value in heads])
        result["grad"] = {name: value.asnumpy() for name, value in gradients.items()}
        result["heads"] = heads
    result["state"] = {name: value.asnumpy() for name, value in states.items()}
    return result


def child(case: families.Case, path: str) -> None:
    inputs = case.arrays()
    result = run(case, inputs, [])
    if any(value.dtype.name in SIXTEEN_BITS for value in inputs):
        # The same numbers in float64; results are stored in the type that they have.
        def wide(value: np.ndarray) -> np.ndarray:
            return value.astype("float64") if value.dtype.name in SIXTEEN_BITS else value
        exact = run(case, [wide(value) for value in inputs], [wide(value) for value in result["heads"]])
        for key in ("out",):
            result[key] = [e.astype(v.dtype) for e, v in zip(exact[key], result[key])]
        for key in ("grad", "state"):
            result[key] = {name: exact[key][name].astype(value.dtype) for name, value in result[key].items()}
    Path(path).write_bytes(pickle.dumps((inputs, result)))


def make(name: str, cases: list, out: Path) -> int:
    import mxnet as mx  # pylint: disable=import-outside-toplevel,import-error

    listed, arrays, failed = [], {}, 0
    context = multiprocessing.get_context("spawn")
    scratch = out / f".{name}.pickle"
    for number, case in enumerate(cases):
        title = f"{case.op}_{number}"
        process = context.Process(target=child, args=(case, str(scratch)))
        process.start()
        process.join(60)
        if process.is_alive():
            process.kill()
            process.join()
        if process.exitcode != 0 or not scratch.exists():
            print(f"{title}: MXNet refuses {case.op} {case.attrs}", file=sys.stderr)
            failed += 1
            continue
        inputs, result = pickle.loads(scratch.read_bytes())
        scratch.unlink()
        listed.append({"name": title, "op": case.op, "attrs": case.attrs, "train": case.train,
                       "inputs": len(inputs), "outputs": len(result["out"]),
                       "gradients": [int(x[1:]) for x in sorted(result["grad"], key=lambda x: int(x[1:]))],
                       "states": [int(x[1:]) for x in sorted(result["state"], key=lambda x: int(x[1:]))]})
        for i, value in enumerate(inputs):
            arrays[f"{title}/in/{i}"] = value
        for key in ("out", "heads"):
            for i, value in enumerate(result[key]):
                arrays[f"{title}/{key if key == 'out' else 'head'}/{i}"] = value
        for key in ("grad", "state"):
            for x, value in result[key].items():
                arrays[f"{title}/{key}/{x[1:]}"] = value
    (out / f"{name}.json").write_text(json.dumps({"cases": listed}, indent=1) + "\n", encoding="utf-8")
    mx.nd.save(str(out / f"{name}.params"),
               {key: mx.nd.array(value, dtype=value.dtype) for key, value in arrays.items()})
    print(f"{name}: {len(listed)} cases, {failed} refused")
    return failed


def main(arguments: list) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("family", nargs="*", default=sorted(families.FAMILIES))
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    for name in options.family:
        make(name, families.FAMILIES[name](), options.out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
