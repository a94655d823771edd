"""Networks that mxnet_python_peer.py has saved, in PyTorch: torch_network_peer.py torch:THREADS

Answers the requests of peer_requests.py. The argument of a case is PATH: its network is PATH-symbol.json with the arrays
of PATH.npz, and runs in training where these have labels.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any, List

import numpy as np

sys.path.append(str(Path(__file__).parents[2] / "tools" / "benchmark"))
from peer_requests import Case, serve  # pylint: disable=wrong-import-position
from torch_graph import TorchGraph  # pylint: disable=wrong-import-position


def load(argument: str) -> Any:
    package, threads = argument.split(":")
    torch = importlib.import_module(package)
    torch.set_num_threads(int(threads))
    return torch


def make(torch: Any, _: str, arguments: List[str]) -> Case:
    """A case whose number is that of mxnet_python_peer.py's."""
    path = arguments[0]
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


if __name__ == "__main__":
    sys.exit(serve(load, make))
