"""The golden cases of operators of positions in arrays, and of those that take more than their description says."""

from typing import List

import numpy as np

from case import Case, integers, no_gradients


def positions() -> List[Case]:
    cases = []
    for dtype in ("float32", "float64", "float16"):
        new = np.arange(6, dtype=dtype).reshape((2, 3))
        cases.append(Case("_contrib_index_copy", [(5, 3), np.array([4, 1], "int64"), new], dtype=dtype,
                          gradients=[True, False, True]))
    cases.append(Case("_contrib_index_copy", [(3, 2, 2), np.array([1, 0, 1], "float32"), (3, 2, 2)],
                      gradients=[True, False, True]))
    cases.append(Case("_contrib_index_copy", [(4,), np.array([2], "int32"), (1,)], gradients=[True, False, True]))
    cases.append(no_gradients(Case("_contrib_index_copy", [(5, 3), np.array([4, 1], "int64"), (2, 3)], dtype="int32",
                                   low=0, high=9)))
    for attrs in ({}, {"axes": "(1,)"}, {"axes": "(2, 0, -1)"}):
        cases.append(no_gradients(Case("_contrib_index_array", [(2, 3, 4)], attrs)))
    for dtype in ("float32", "float64", "float16", "int32", "int64", "uint8"):
        inside = np.concatenate([integers((1, 5), 0, 2, dtype), integers((1, 5), 0, 3, dtype, 8)])
        cases.append(no_gradients(Case("_ravel_multi_index", [inside], {"shape": "(3, 4)"})))
        cases.append(no_gradients(Case("_unravel_index", [integers((5,), 0, 11, dtype)], {"shape": "(3, 4)"})))
    outside = np.array([[-1, 5, 1.5], [0, 9, 2.75]], "float32")
    cases.append(no_gradients(Case("_ravel_multi_index", [outside], {"shape": "(-1, 4)"})))
    cases.append(no_gradients(Case("_unravel_index", [np.array([-1, 50, 7.5, -7], "float32")], {"shape": "(-1, 4)"})))
    cases.append(Case("_identity_with_attr_like_rhs", [(2, 3), (2, 3)], gradients=[True, False]))
    cases.append(Case("slice_like", [(4, 3, 5), (2, 2)], {"axes": "(1, 0, -2)"}, gradients=[True, False]))
    for pad in ("(1, 2, 0)", "(0, 0, 0)"):
        cases.append(Case("Pooling", [(2, 3, 8)], {"kernel": "(3,)", "stride": "(2,)", "pad": pad}))
    cases.append(Case("Pooling", [(1, 1, 10)], {"kernel": "2", "stride": "2", "pad": "(0, 0, 0)",
                                               "pooling_convention": "same"}))
    return cases


def quantization() -> List[Case]:
    data = np.array([-1.5, -1, -0.5, -0.003, 0, 0.003, 0.25, 0.5, 1, 1.5, 3], "float32")

    def ranges(low: float, high: float) -> list:
        return [np.array([low], "float32"), np.array([high], "float32")]

    cases = []
    for dtype in ("int8", "uint8"):
        for low, high in ((-1, 1), (-1, 2), (0, 1.5)):
            cases.append(no_gradients(Case("_contrib_quantize", [data, *ranges(low, high)], {"out_type": dtype})))
            codes = np.array([0, 1, 64, 127, -128, -1], "int8").view(dtype)
            cases.append(no_gradients(Case("_contrib_dequantize", [codes, *ranges(low, high)])))
    return cases


FAMILIES = {"positions": positions, "quantization": quantization}
