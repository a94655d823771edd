"""The golden cases of operators that move elements by indices.

MXNet runs _onehot_encode, fill_element_0index and _scatter_set_nd on arrays alone, in no graph: they have no case.
"""

from typing import List, Optional, Sequence

import numpy as np

from case import Case


def indices(values: list, dtype: str = "float32") -> np.ndarray:
    return np.array(values, dtype)


def indexed(op: str, inputs: list, gradients: Optional[Sequence[bool]] = None, dtype: str = "float32",
            **attrs: str) -> Case:
    case = Case(op, inputs, attrs, dtype=dtype, low=-9 if "int" in dtype else -2, high=9 if "int" in dtype else 2)
    case.gradients = [False] * len(inputs) if gradients is None else gradients
    return case


FIRST = [True, False]


def take() -> List[Case]:
    outside = [[-9, 1], [2.75, 99]]
    cases = [
        indexed("take", [(4, 3), indices([[0, 3], [3, 1]])], FIRST),
        indexed("take", [(4, 3), indices([0, 3, 3])], FIRST, "float64"),
        indexed("take", [(4, 3), indices([0, 3, 3])], FIRST, "float16"),
        indexed("take", [(4, 3), indices(outside)], FIRST, mode="clip"),
        indexed("take", [(4, 3), indices([-9, 1, 7], "int64")], FIRST, mode="wrap"),
        indexed("take", [(4, 3), indices([2, 0], "int32")], FIRST, mode="raise"),
        indexed("take", [(2, 4, 3), indices(outside)], FIRST, axis="1", mode="wrap"),
        indexed("take", [(2, 3, 4), indices([[3], [0]], "uint8")], FIRST, axis="-1"),
        indexed("take", [(4,), indices([[3, 3], [0, 1]])], FIRST),
    ]
    for dtype in ("int32", "int64", "int8", "uint8"):
        cases.append(indexed("take", [np.arange(8).reshape(4, 2).astype(dtype), indices([1, 3], dtype)]))
    return cases


def embedding() -> List[Case]:
    sizes = {"input_dim": "4", "output_dim": "3"}
    rows = [False, True]
    return [
        indexed("Embedding", [indices([[0, 3], [3, 1]]), (4, 3)], rows, **sizes),
        indexed("Embedding", [indices([2, 2, 1], "int32"), (4, 3)], rows, "float64", **sizes),
        indexed("Embedding", [indices([-3, 9, 1.5]), (4, 3)], rows, **sizes),
        indexed("Embedding", [indices([2], "int64"), (4, 3)], rows, sparse_grad="False", **sizes),
    ]


def pick() -> List[Case]:
    cases = [
        indexed("pick", [(4, 3), indices([0, 2, 1, 2])], FIRST),
        indexed("pick", [(4, 3), indices([0, 2, 1, 2])], FIRST, "float64"),
        indexed("pick", [(4, 3), indices([0, 2, 1, 2])], FIRST, "float16"),
        indexed("pick", [(4, 3), indices([0, 3, 1], "int32")], FIRST, axis="0"),
        indexed("pick", [(2, 4, 3), indices([[0, 3, 1], [2, 2, 9]])], FIRST, axis="1"),
        indexed("pick", [(2, 4, 3), indices([[0, 3, 1], [2, 2, 9]])], FIRST, axis="-2", keepdims="True"),
        indexed("pick", [(4, 3), indices([[0], [2], [1], [2]])], FIRST),
        indexed("pick", [(4, 3), indices([[0], [2], [1], [2]])], FIRST, keepdims="True"),
        indexed("pick", [(4, 3), indices([-1, 5, 1.75, -5])], FIRST, mode="clip"),
        indexed("pick", [(4, 3), indices([-1, 5, 1.75, -5])], FIRST, mode="wrap"),
        indexed("pick", [(4,), indices([2])], FIRST),
        indexed("pick", [(4, 3), indices([0, 2, 1, 2], "int64")], dtype="int32"),
        indexed("pick", [(4, 3), indices([0, 2, 1, 2], "uint8")], dtype="int8"),
    ]
    for dtype in ("float32", "float64", "float16", "int32"):
        cases.append(indexed("batch_take", [(4, 3), indices([0, -2, 5, 1], "int32")], dtype=dtype))
    return cases


def one_hot() -> List[Case]:
    given = [[0, 2], [-1, 5]]
    cases = [
        indexed("one_hot", [indices(given)], depth="3"),
        indexed("one_hot", [indices(given, "int32")], depth="3", on_value="2.5"),
        indexed("one_hot", [indices(given, "int64")], depth="3", off_value="-1.5"),
        indexed("one_hot", [indices([0.5, 1.75, 2])], [True], depth="3", on_value="8", off_value="1"),
    ]
    for dtype in ("float16", "float64", "int32", "int64", "int8", "uint8"):
        case = indexed("one_hot", [indices(given)], depth="3", on_value="7", off_value="3")
        case.attrs["dtype"] = dtype
        cases.append(case)
    return cases


def slices() -> List[Case]:
    cases = [
        indexed("gather_nd", [(3, 4), indices([[0, 2, 0], [3, 1, 3]])], FIRST),
        indexed("gather_nd", [(3, 4), indices([[0, 2, 0]], "int32")], FIRST, "float64"),
        indexed("gather_nd", [(3, 2, 4), indices([[0, 2], [1, 0]], "int64")], FIRST, "float16"),
        indexed("gather_nd", [(3, 2), indices([[[0, 2], [1, 0]], [[1, 1], [0, 1]]])], FIRST),
        indexed("gather_nd", [(3, 2), indices([[-1, -3], [0, -1]])]),
        indexed("gather_nd", [(3, 4), indices([[1, 2]], "uint8")], dtype="int32"),
        indexed("scatter_nd", [(3,), indices([[0, 2, 1], [3, 1, 3]])], FIRST, shape="(3, 4)"),
        indexed("scatter_nd", [(2, 4), indices([[2, 0]], "int32")], FIRST, "float64", shape="(3, 4)"),
        indexed("scatter_nd", [(2, 4), indices([[0, 2], [1, 0]], "int64")], FIRST, "float16", shape="(3, 2, 4)"),
        indexed("scatter_nd", [(2, 2), indices([[[0, 2], [1, 0]], [[1, 1], [0, 1]]])], FIRST, shape="(3, 2)"),
        indexed("scatter_nd", [(2, 4), indices([[2, 0]])], dtype="int32", shape="(3, 4)"),
    ]
    return cases


def where() -> List[Case]:
    both = [False, True, True]
    cases = []
    for condition in ([[0, 1, -2], [0.25, 0, 0]], [0, 3]):
        cases.append(indexed("where", [indices(condition), (2, 3), (2, 3)], both))
        cases.append(indexed("where", [indices(condition, "float64"), (2, 3), (2, 3)], both, "float64"))
        cases.append(indexed("where", [indices(condition, "int32"), (2, 3), (2, 3)], both, "float16"))
        cases.append(indexed("where", [indices(condition, "int64"), (2, 3), (2, 3)], dtype="int32"))
    cases.append(indexed("where", [indices([[np.nan, 0]]), (1, 2), (1, 2)], both))
    cases.append(indexed("where", [indices([0, 1], "uint8"), (2,), (2,)], both))
    return cases


def index() -> List[Case]:
    return take() + embedding() + pick() + one_hot() + slices() + where()
