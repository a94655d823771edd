"""Networks that mxnet_python_peer.py has saved, in PyTorch: torch_network_peer.py torch:THREADS

Reads requests from standard input, one a line, and answers each with a line that holds a number, or an error:
  make CASE PATH  prepares the network of PATH-symbol.json with the arrays of PATH.npz; with labels, for training: 0
  run CASE COUNT  runs it so many times and answers the seconds that took
  check CASE      answers a number that shows the last results
  drop CASE       forgets it: 0
Says "ready" first; ends with status 3 where the package does not load.
"""

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple

import numpy as np

sys.path.append(str(Path(__file__).parents[2] / "tools" / "benchmark"))
from torch_graph import TorchGraph  # pylint: disable=wrong-import-position


class Case(NamedTuple):
    run: Callable[[], Any]
    check: Callable[[], float]  # the number of mxnet_python_peer.py's case


def make(torch: Any, path: str) -> Case:
    with open(path + "-symbol.json", encoding="utf-8") as file:
        nodes = json.load(file)["nodes"]
    with np.load(path + ".npz") as file:
        arrays = dict(file)
    data = torch.from_numpy(arrays.pop("data"))
    labels = arrays.pop("labels", None)
    network = TorchGraph(torch, nodes, arrays, training=labels is not None)
    last: List[Any] = []

    def infer() -> None:
        with torch.inference_mode():
            last[:] = [network(data)]

    if labels is None:
        return Case(infer, lambda: float((last[0].numpy() ** 2).sum()))
    targets = torch.from_numpy(labels).long()
    optimizer = torch.optim.SGD(network.parameters, lr=0.01, momentum=0.9)

    def train() -> None:
        loss = torch.nn.functional.cross_entropy(network(data), targets)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        last[:] = [loss]
    return Case(train, lambda: float(last[0].detach()) * len(labels))


def answer(torch: Any, cases: Dict[str, Case], request: List[str]) -> float:
    verb, name = request[:2]
    if verb == "make":
        cases[name] = make(torch, request[2])
    elif verb == "run":
        run, count = cases[name].run, int(request[2])
        start = time.perf_counter()
        for _ in range(count):
            run()
        return time.perf_counter() - start
    elif verb == "check":
        return cases[name].check()
    elif verb == "drop":
        del cases[name]
    return 0.0


def main() -> int:
    # What a package prints goes to stderr.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    try:
        package, threads = sys.argv[1].split(":")
        torch = importlib.import_module(package)
        torch.set_num_threads(int(threads))
    except Exception as error:  # pylint: disable=broad-except
        print(f"{sys.executable}: {type(error).__name__}: {error}", file=sys.stderr)
        return 3
    answers.write("ready\n")
    cases: Dict[str, Case] = {}
    for line in sys.stdin:
        try:
            answers.write(f"{answer(torch, cases, line.split()):.17g}\n")
        except Exception as error:  # pylint: disable=broad-except
            message = " ".join(str(error).split())
            answers.write(f"{type(error).__name__}: {message}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
