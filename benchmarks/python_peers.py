"""The peers that live in Python packages, each in a process of its own.

A package that is not installed, or does not load, is named as missing; nothing is installed here.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import record_form

PEERS = ("numpy", "mxnet", "tensorflow", "jax", "torch")
WORKER = Path(__file__).resolve().parent / "peers" / "python_peer.py"

# All of them, and ours beside them, on one thread.
ONE_THREAD = {
    "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1", "TF_NUM_INTEROP_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false", "JAX_PLATFORMS": "cpu",
}


def measure(
    repetitions: int, min_time_s: float, python: str = sys.executable, timeout_s: float = 900
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """Runs every peer's jobs: entries for the record, and why the others are missing."""
    runs, missing = [], {}
    for peer in PEERS:
        command = [python, str(WORKER), peer, f"--repetitions={repetitions}",
                   f"--min-time={min_time_s:g}"]
        print(f"running {peer}", flush=True)
        try:
            result = subprocess.run(
                command, env={**os.environ, **ONE_THREAD}, capture_output=True, text=True,
                timeout=timeout_s, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            missing[peer] = str(error)
            continue
        if result.returncode:
            lines = result.stderr.strip().splitlines()
            missing[peer] = lines[-1] if lines else f"status {result.returncode}"
            continue
        try:
            output = json.loads(result.stdout)
        except json.JSONDecodeError as error:
            missing[peer] = f"printed no JSON: {error}"
            continue
        fault = next(record_form.faults(output, record_form.OUTPUT), None)
        if fault:
            missing[peer] = f"printed something else than benchmarks: {fault}"
            continue
        runs.append({"component": "peers", "target": f"//benchmarks/peers:{peer}", "peer": peer,
                     "output": output})
    return runs, missing
