"""The jobs of peers_benchmark.cc in one Python package: python_peer.py numpy

Prints JSON in Google Benchmark's form. The names of the jobs are those of peers_benchmark.cc, and
each result is checked against a plain computation before anything is timed. Exit status 3, with
the reason as the last line on stderr, where the package does not load.
"""

import argparse
import contextlib
import importlib
import json
import math
import random
import sys
import time
from typing import Any, Callable, Sequence

RATE, DECAY = 1e-3, 1e-4
VECTOR_SIZES = (4096, 1 << 20)
GEMM_SIZES = (64, 512)
SOFTMAX_SHAPE = (64, 1000)

Job = Callable[[], Any]


class Library:
    """One package: how it makes arrays, waits for results and computes the jobs."""

    def __init__(self, name: str):
        module = importlib.import_module(
            {"jax": "jax.numpy", "mxnet": "mxnet"}.get(name, name))
        self.name = name
        self.module = module
        if name == "torch":
            module.set_num_threads(1)

    def array(self, values: list[Any]) -> Any:
        m = self.module
        if self.name == "torch":
            return m.tensor(values, dtype=m.float32)
        if self.name == "tensorflow":
            return m.constant(values, dtype=m.float32)
        if self.name == "mxnet":
            return m.nd.array(values, dtype="float32")
        return m.array(values, dtype="float32")

    def finish(self, result: Any) -> Any:
        """Some packages compute asynchronously: what is timed ends when the values are there."""
        if self.name == "jax":
            result.block_until_ready()
        elif self.name == "mxnet":
            result.wait_to_read()
        return result

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if self.name == "jax":
            return importlib.import_module("jax").jit(function)
        if self.name == "tensorflow":
            return self.module.function(function)
        return function

    def product(self, a: Any, b: Any) -> Any:
        if self.name == "mxnet":
            return self.module.nd.dot(a, b)
        return self.module.matmul(a, b)

    def total(self, x: Any) -> Any:
        if self.name == "tensorflow":
            return self.module.reduce_sum(x)
        return x.sum()

    def softmax(self, x: Any) -> Any:
        if self.name == "torch":
            return self.module.softmax(x, 1)
        if self.name == "tensorflow":
            return self.module.nn.softmax(x, 1)
        if self.name == "mxnet":
            return self.module.nd.softmax(x, axis=1)
        shifted = self.module.exp(x - x.max(axis=1, keepdims=True))
        return shifted / shifted.sum(axis=1, keepdims=True)


def first_value(result: Any) -> float:
    value = result.asnumpy() if hasattr(result, "asnumpy") else result
    # By its length: TensorFlow's shape of a single number counts as true.
    while len(getattr(value, "shape", ())):
        value = value[0]
    return float(value)


def jobs(library: Library) -> dict[str, tuple[Job, float]]:
    """Each job with the first value that its result must have."""
    rng = random.Random(1)
    found: dict[str, tuple[Job, float]] = {}

    def add(name: str, function: Callable[..., Any], arguments: Sequence[Any], first: float) -> None:
        run = library.compiled(function)
        found[name] = (lambda: library.finish(run(*arguments)), first)

    for n in VECTOR_SIZES:
        w, g = ([rng.uniform(-1, 1) for _ in range(n)] for _ in range(2))
        add(f"update/{n}", lambda w, g: w - RATE * (g + DECAY * w),
            (library.array(w), library.array(g)), w[0] - RATE * (g[0] + DECAY * w[0]))
        add(f"sum/{n}", library.total, (library.array(w),), math.fsum(w))
    for n in GEMM_SIZES:
        a, b = ([[rng.uniform(-1, 1) for _ in range(n)] for _ in range(n)] for _ in range(2))
        add(f"gemm/{n}x{n}x{n}", library.product, (library.array(a), library.array(b)),
            math.fsum(a[0][k] * b[k][0] for k in range(n)))
    rows, columns = SOFTMAX_SHAPE
    x = [[rng.uniform(-1, 1) for _ in range(columns)] for _ in range(rows)]
    add(f"softmax/{rows}x{columns}", library.softmax, (library.array(x),),
        math.exp(x[0][0]) / math.fsum(math.exp(value) for value in x[0]))
    return found


def time_job(job: Job, min_time_s: float) -> tuple[float, int]:
    """Seconds for one run, and over how many runs they were measured."""
    count = 1
    while True:
        start = time.perf_counter()
        for _ in range(count):
            job()
        seconds = time.perf_counter() - start
        if seconds >= min_time_s:
            return seconds / count, count
        count = max(2 * count, int(count * min_time_s / max(seconds, 1e-9)))


def measured(options: argparse.Namespace) -> dict[str, Any] | int:
    """What is to be printed, or the exit status."""
    try:
        library = Library(options.library)
    except Exception as error:  # packages fail to load in many ways, and each means: not here
        print(f"{type(error).__name__}: {error}".replace("\n", " "), file=sys.stderr)
        return 3
    version = getattr(importlib.import_module(options.library), "__version__", "unknown")
    every = jobs(library)
    for name, (job, expected) in every.items():
        value = first_value(job())
        if not math.isclose(value, expected, rel_tol=1e-3, abs_tol=1e-2):
            print(f"{name} gives {value}, expected {expected}", file=sys.stderr)
            return 1
    entries = []
    order = [(name, index) for name in every for index in range(options.repetitions)]
    random.Random(2).shuffle(order)
    for name, index in order:
        seconds, count = time_job(every[name][0], options.min_time)
        entries.append({
            "name": name, "run_name": name, "run_type": "iteration", "threads": 1,
            "repetitions": options.repetitions, "repetition_index": index, "iterations": count,
            "real_time": seconds * 1e9, "cpu_time": seconds * 1e9, "time_unit": "ns"})
    return {"context": {"executable": options.library, "version": version}, "benchmarks": entries}


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("library")
    parser.add_argument("--repetitions", type=int, default=10)
    parser.add_argument("--min-time", type=float, default=0.05)
    options = parser.parse_args(arguments)
    # Some packages greet whoever loads them; standard output is for the result alone.
    with contextlib.redirect_stdout(sys.stderr):
        result = measured(options)
    if isinstance(result, int):
        return result
    json.dump(result, sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
