"""Golden cases of operators that order elements."""

from typing import Callable, Dict, List

import numpy as np

from case import Case, no_gradients

# Values with many ties, which the oracle's sorting resolves in its own way.
TIES = np.random.RandomState(11).randint(0, 4, (3, 60)).astype("float32")
HOLES = np.array([[1, np.nan, 3, 2, np.nan, 1], [np.nan, 3, 2, 1, 0, -1], [3, 2, 1, 0, 5, np.nan]], "float32")


def distinct(shape: tuple, dtype: str = "float32") -> np.ndarray:
    return np.random.RandomState(5).permutation(int(np.prod(shape))).reshape(shape).astype(dtype)


def order() -> List[Case]:
    cases = []
    data = distinct((2, 3, 4))
    for attrs in ({"axis": "-1"}, {"axis": "0"}, {"axis": "1", "is_ascend": "0"}, {"axis": "None"},
                  {"axis": "None", "is_ascend": "False"}):
        cases.append(Case("sort", [data], attrs))
        cases.append(no_gradients(Case("argsort", [data], attrs)))
    for op in ("sort", "argsort"):
        cases.append(no_gradients(Case(op, [data])))
        cases.append(no_gradients(Case(op, [TIES])))
        cases.append(no_gradients(Case(op, [TIES], {"is_ascend": "0", "axis": "None"})))
        for dtype in ("float64", "int32", "int64", "uint8", "int8"):
            cases.append(no_gradients(Case(op, [distinct((2, 7), dtype)], {"axis": "1"})))
    for dtype in ("float16", "float64", "int32", "int64", "uint8"):
        cases.append(no_gradients(Case("argsort", [data], {"dtype": dtype})))
    for returns in ("value", "indices", "mask", "both"):
        gradients = [returns in ("value", "both")]
        for attrs in ({}, {"k": "2"}, {"k": "0"}, {"k": "-1", "axis": "1"}, {"k": "2", "axis": "0"},
                      {"k": "2", "axis": "1", "is_ascend": "1"}, {"axis": "None", "k": "5"},
                      {"k": "3", "dtype": "int32"}, {"k": "3", "dtype": "uint8"}):
            cases.append(Case("topk", [data], {**attrs, "ret_typ": returns}, gradients=gradients))
        for k in ("3", "7", "8", "20", "60"):
            for ascend in ("0", "1"):
                cases.append(no_gradients(Case("topk", [TIES], {"k": k, "is_ascend": ascend, "ret_typ": returns})))
        for dtype in ("float16", "float64", "int32", "int64", "uint8", "int8"):
            cases.append(no_gradients(Case("topk", [distinct((2, 7), dtype)], {"k": "2", "ret_typ": returns})))
    return cases + extrema()


def extrema() -> List[Case]:
    cases = []
    data = distinct((2, 3, 4))
    for op in ("argmax", "argmin"):
        for attrs in ({}, {"axis": "0"}, {"axis": "1", "keepdims": "1"}, {"axis": "-1"}, {"keepdims": "True"}):
            cases.append(Case(op, [data], attrs))
        for values in (HOLES, TIES, np.full((2, 3), -np.inf, "float32"), np.full((2, 3), np.inf, "float32")):
            for attrs in ({}, {"axis": "0"}, {"axis": "1"}):
                cases.append(no_gradients(Case(op, [values], attrs)))
        for dtype in ("float16", "float64", "int32", "int64", "uint8", "int8"):
            cases.append(no_gradients(Case(op, [distinct((3, 4), dtype)], {"axis": "1"})))
        cases.append(no_gradients(Case(op, [distinct((300,), "int32") % 300 - 150])))
    for values in (data, data[0], distinct((2, 3, 2, 2)), HOLES, TIES, distinct((3, 4), "int32")):
        cases.append(no_gradients(Case("argmax_channel", [values])))
    return cases


FAMILIES: Dict[str, Callable[[], List[Case]]] = {"order": order}
