"""Golden cases of reductions that are no row of a table."""

from typing import Callable, Dict, List

import numpy as np

from cases_order import HOLES, distinct
from case import Case, no_gradients


def moments() -> List[Case]:
    cases = []
    for order_ in ("2", "1"):
        for attrs in ({}, {"axis": "1"}, {"axis": "()"}, {"axis": "(0, 2)", "keepdims": "True"}, {"axis": "-1"},
                      {"axis": "(0, 1)"}, {"keepdims": "1"}, {"axis": "1", "out_dtype": "float32"}):
            cases.append(Case("norm", [(2, 3, 4)], {"ord": order_, **attrs}))
        for dtype in ("float64", "float16"):
            cases.append(Case("norm", [(3, 4)], {"ord": order_, "axis": "0"}, dtype=dtype))
        # MXNet has the gradient NaN of the length of zeros; ours is 0, as PyTorch's.
        cases.append(Case("norm", [np.zeros((2, 3), "float32")], {"ord": order_, "axis": "1"},
                          gradients=[order_ == "1"]))
        # No infinities: the oracle's compensated sums make NaN of them.
        cases.append(no_gradients(Case("norm", [np.array([[1e30, -2e30], [1e-30, 2e-30]], "float32")],
                                       {"ord": order_, "axis": "1"})))
        cases.append(Case("norm", [HOLES], {"ord": order_, "axis": "1"}, gradients=[order_ == "2"]))
    for dtype in ("int32", "int64", "uint8", "int8"):
        cases.append(no_gradients(Case("norm", [distinct((3, 4), dtype)], {"ord": "1", "axis": "1"})))
    cases.append(Case("norm", [(3, 4)]))
    for attrs in ({"axes": "1"}, {"axes": "(0, 2)", "keepdims": "1"}, {"axes": "-1"}, {"axes": "(0, 1, 2)"},
                  {"axes": "(2, 0)"}):
        cases.append(Case("moments", [(2, 3, 4)], attrs))
    for dtype in ("float64", "float16"):
        cases.append(Case("moments", [(3, 5)], {"axes": "0"}, dtype=dtype))
    for dtype in ("int32", "int64", "uint8", "int8"):
        cases.append(no_gradients(Case("moments", [(3, 5)], {"axes": "1"}, low=0, high=9, dtype=dtype)))
    return cases + cumulative() + whole_arrays() + histogram()


def cumulative() -> List[Case]:
    cases = []
    for op in ("_np_cumsum", "cumsum"):
        for attrs in ({}, {"axis": "0"}, {"axis": "1"}, {"axis": "2"}, {"dtype": "float64", "axis": "1"},
                      {"dtype": "float16", "axis": "0"}):
            cases.append(Case(op, [(2, 3, 4)], attrs))
    for dtype in ("int32", "int64", "int8"):
        cases.append(no_gradients(Case("_np_cumsum", [(3, 5)], {"dtype": dtype, "axis": "1"}, low=-9, high=9)))
    for dtype in ("float64", "float16"):
        cases.append(Case("_np_cumsum", [(3, 5)], {"axis": "1"}, dtype=dtype))
    for dtype in ("int32", "int64", "uint8", "int8"):
        # The sums of small types wrap around.
        cases.append(no_gradients(Case("_np_cumsum", [(3, 9)], {"axis": "1"}, low=50, high=100, dtype=dtype)))
        cases.append(no_gradients(Case("_np_cumsum", [(3, 9)], {"axis": "0", "dtype": "float32"}, low=50, high=100,
                                       dtype=dtype)))
    cases.append(no_gradients(Case("_np_cumsum", [np.array([[True, False, True], [True, True, True]])], {"axis": "1"})))
    data = np.random.RandomState(3).uniform(-2, 2, (2, 3)).astype("float32")
    holes = np.array([1, np.nan, np.inf, -np.inf], "float32")
    for a, b, attrs in ((data, data, {}), (data, data + np.float32(1e-3), {}), (data, data * np.float32(1.000001), {}),
                        (data, data + np.float32(0.01), {"atol": "0.1"}),
                        (data, data * np.float32(1.1), {"rtol": "0.2"}), (holes, holes, {}), (holes, -holes, {}),
                        (holes, holes, {"equal_nan": "0"}), (holes, np.array([1, 1, 1, 1], "float32"), {})):
        cases.append(no_gradients(Case("_contrib_allclose", [a, b], attrs)))
    for dtype in ("float64", "float16", "int32", "int64", "uint8", "int8"):
        cases.append(no_gradients(Case("_contrib_allclose", [distinct((3, 4), dtype)] * 2)))
    return cases


def whole_arrays() -> List[Case]:
    cases = []
    large = np.random.RandomState(3).uniform(-2, 2, (2, 50)).astype("float32")
    for values in (large, HOLES, np.array([1, np.inf, 2], "float32"), np.array([-np.inf], "float32")):
        for dtype in ("float32", "float64", "float16"):
            cases.append(no_gradients(Case("all_finite", [values.astype(dtype)])))
        cases.append(no_gradients(Case("multi_all_finite", [values])))
        cases.append(no_gradients(Case("multi_all_finite", [large, values], {"num_arrays": "2"})))
    for dtype in ("float32", "float64", "float16"):
        arrays = [large, large[0, :3], large[:, :1], np.array([3], "float32")]
        cases.append(no_gradients(Case("multi_all_finite", [value.astype(dtype) for value in arrays],
                                       {"num_arrays": "4"})))
        cases.append(no_gradients(Case("multi_sum_sq", [value.astype(dtype) for value in arrays], {"num_arrays": "4"})))
        cases.append(no_gradients(Case("multi_sum_sq", [large[0].astype(dtype)], {"num_arrays": "1"})))
    return cases


def histogram() -> List[Case]:
    cases = []
    data = np.random.RandomState(3).uniform(-2, 2, (3, 20))
    ends = np.array([0, 0.1, 0.5, 0.7, 1.4, 1.9])
    for dtype in ("float32", "float64"):
        for attrs in ({"bin_cnt": "4", "range": "(-1, 1)"}, {"bin_cnt": "7", "range": "(-1.5, 1.7)"},
                      {"bin_cnt": "10", "range": "(0.0, 1.0)"}, {"bin_cnt": "3", "range": "(1, 1)"}):
            cases.append(no_gradients(Case("_histogram", [data.astype(dtype)], attrs)))
            cases.append(no_gradients(Case("_histogram", [np.round(data, 1).astype(dtype)], attrs)))
        cases.append(no_gradients(Case("_histogram", [np.round(data, 1).astype(dtype), ends.astype(dtype)])))
    for dtype in ("int32", "int64", "uint8"):
        counts = np.random.RandomState(4).randint(0, 30, 50).astype(dtype)
        for attrs in ({"bin_cnt": "3", "range": "(1, 9)"}, {"bin_cnt": "7", "range": "(2, 25)"}):
            cases.append(no_gradients(Case("_histogram", [counts], attrs)))
        cases.append(no_gradients(Case("_histogram", [counts, np.array([1, 3, 9, 21], dtype)])))
    return cases


FAMILIES: Dict[str, Callable[[], List[Case]]] = {"moments": moments}
