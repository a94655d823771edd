"""The cases of sparse_benchmark.cc in MXNet or SciPy: sparse_peer.py mxnet, mxnet1 or scipy1

Answers the requests of peer_requests.py. The names with a 1 use one thread. The argument of embedding_step is the number
of rows, that of csr_dot the number of columns. sparse_benchmark.cc explains the cases.
"""

import importlib
import os
import sys
from pathlib import Path
from typing import Any, List, Tuple

if sys.argv[1:] and sys.argv[1].endswith("1"):
    os.environ.update(OMP_NUM_THREADS="1")  # which OpenMP reads when the first package loads

import numpy as np  # pylint: disable=wrong-import-position

sys.path.append(str(Path(__file__).parents[2] / "tools" / "benchmark"))
from peer_requests import Case, serve  # pylint: disable=wrong-import-position

WIDTH = 64
BATCH = 1000
ROWS = 100000
PER_ROW = 100


def matrix(num_columns: int) -> Tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values, columns and row ends of the csr matrix."""
    first = np.arange(ROWS, dtype="int64")[:, None] * 7919
    columns = np.sort((first + np.arange(PER_ROW) * 997) % num_columns, axis=1).ravel()
    values = ((np.arange(ROWS * PER_ROW) % 17 - 8) / 8).astype("float32")
    return values, columns, np.arange(ROWS + 1, dtype="int64") * PER_ROW


def factor(num_columns: int) -> np.ndarray:
    """The dense factor."""
    numbers = np.arange(num_columns)[:, None] * 13 + np.arange(WIDTH) * 7
    return ((numbers % 19 - 9) / 8).astype("float32")


def size_of(product: np.ndarray) -> float:
    return float(np.abs(product).sum(dtype="float64"))


class Mxnet:
    """The cases in MXNet's Python."""

    def __init__(self) -> None:
        self.mx = importlib.import_module("mxnet")

    def embedding_step(self, rows: int) -> Case:
        nd, autograd = self.mx.nd, self.mx.autograd
        weight = nd.ones((rows, WIDTH))
        weight.attach_grad(stype="row_sparse")
        indices = nd.array(np.arange(BATCH) * (rows // BATCH))

        def run() -> None:
            with autograd.record():
                out = nd.Embedding(indices, weight, input_dim=rows, output_dim=WIDTH, sparse_grad=True)
            out.backward()
            nd.sparse.sgd_update(weight, weight.grad, out=weight, lr=0.01, wd=0.001)
            weight.wait_to_read()

        return Case(run, lambda: float(weight[0].sum().asscalar()))

    def csr_dot(self, num_columns: int) -> Case:
        nd = self.mx.nd
        left = nd.sparse.csr_matrix(matrix(num_columns), shape=(ROWS, num_columns), dtype="float32")
        right = nd.array(factor(num_columns))
        last: List[Any] = []

        def run() -> None:
            last[:] = [nd.sparse.dot(left, right)]
            last[0].wait_to_read()

        return Case(run, lambda: size_of(last[0].asnumpy()))


class Scipy:
    """The product in SciPy."""

    def __init__(self) -> None:
        self.sparse = importlib.import_module("scipy.sparse")

    def csr_dot(self, num_columns: int) -> Case:
        left = self.sparse.csr_matrix(matrix(num_columns), shape=(ROWS, num_columns))
        right = factor(num_columns)
        last: List[Any] = []

        def run() -> None:
            last[:] = [left.dot(right)]

        return Case(run, lambda: size_of(last[0]))


def make(framework: Any, name: str, arguments: List[str]) -> Case:
    function = getattr(framework, name.split("/")[0])
    return function(*map(int, arguments))


if __name__ == "__main__":
    sys.exit(serve(lambda name: {"mxnet": Mxnet, "mxnet1": Mxnet, "scipy1": Scipy}[name](), make))
