"""Made-up records for tests: a history of noise in which one change is planted."""

import random
from typing import Any

CONTEXT = {
    "cpu": "Test CPU", "cores": 4, "threads": 8, "device": "CPU", "compiler": "g++ 12.2",
    "flags": "opt -std=c++20", "dirty": False,
}

# (component, program, name, seconds, bytes, flops, peer's time over ours)
BENCHMARKS = (
    ("tensor", "gemm_benchmark", "64x64x64", 3.0e-6, 49152, 524288, 1.1),
    ("tensor", "gemm_benchmark", "512x512x512", 1.8e-3, 3145728, 268435456, 0.97),
    ("tensor", "elementwise_benchmark", "update/4096", 6.5e-7, 49152, 0, 1.1),
    ("tensor", "elementwise_benchmark", "update/16777216", 1.1e-2, 201326592, 0, 0.98),
    ("tensor", "random_benchmark", "BM_Uniform<double>/65536", 4.0e-5, 524288, 0, 0),
    ("engine", "engine_benchmark", "push_chain", 2.0e-6, 0, 0, 0.3),
    ("engine", "engine_benchmark", "push_independent", 9.0e-7, 0, 0, 0.4),
    ("storage", "storage_benchmark", "BM_Pair<Pooled>/64", 1.8e-8, 0, 0, 0),
    ("storage", "storage_benchmark", "BM_Pair<Pooled>/1048576", 2.0e-8, 0, 0, 0),
)
ROOFLINE = (
    ("copy/L1/24576", 1.5e11, 24576), ("copy/L2/1048576", 7e10, 1048576),
    ("copy/memory/268435456", 1.2e10, 1 << 28))


def record(
    commit: str,
    commit_date: str,
    slower: dict[str, float] | None = None,
    without: tuple[str, ...] = (),
    seed: int = 0,
    repetitions: int = 10,
    scatter: float = 0.02,
    **context: Any,
) -> dict[str, Any]:
    """A record whose times scatter by that share; `slower` multiplies those of some names."""
    rng = random.Random(f"{seed}/{commit}")
    programs: dict[tuple[str, str], list[dict[str, Any]]] = {}

    def add(component: str, program: str, name: str, times: list[float], **counters: float) -> None:
        entries = programs.setdefault((component, program), [])
        for index, seconds in enumerate(times):
            entry = {
                "name": name, "run_name": name, "run_type": "iteration",
                "repetitions": len(times), "repetition_index": index, "threads": 1,
                "iterations": 1000, "real_time": seconds * 1e9, "cpu_time": seconds * 1e9,
                "time_unit": "ns"}
            for key, value in counters.items():
                if key in ("bytes", "flops"):
                    entry["bytes/s" if key == "bytes" else "flop/s"] = value / seconds
                else:
                    entry[key] = value * seconds
            entries.append(entry)

    for component, program, name, seconds, size, flops, peer in BENCHMARKS:
        if name in without:
            continue
        factor = (slower or {}).get(name, 1.0)
        counters: dict[str, float] = {}
        if peer:
            counters.update({"ours": 1.0, "loop": peer / factor})
        if size:
            counters["bytes"] = size
        if flops:
            counters["flops"] = flops
        times = [seconds * factor * rng.lognormvariate(0, scatter) for _ in range(repetitions)]
        add(component, program, name, times, **counters)
    for name, speed, size in ROOFLINE:
        add("roofline", "roofline", name, [size / speed] * repetitions, bytes=size)
    add("roofline", "roofline", "fma/float", [1e-3] * repetitions, flops=2e8)
    return {
        "record_format": 1,
        "context": {**CONTEXT, "commit": commit, "commit_date": commit_date, "date": commit_date,
                    "author": "A. Author", "subject": f"change {commit[:4]}", "tags": [], **context},
        "missing": {"onednn": "libdnnl.so.3 is not installed"},
        "runs": [{"component": component, "target": f"//{component}:{program}",
                  "output": {"context": {}, "benchmarks": entries}}
                 for (component, program), entries in programs.items()],
    }
