"""The golden cases of operators of integers that stand for numbers of a range."""

from typing import List, Optional

import numpy as np

from case import Case, Shape, integers, no_gradients, reals

CALIBRATED = {"min_calib_range": "-2", "max_calib_range": "4"}


def codes(shape: Shape, dtype: str, seed: int = 5) -> np.ndarray:
    limits = np.iinfo(dtype)
    return integers(shape, limits.min, limits.max, dtype, seed)


def ends(low: float, high: float) -> list:
    return [np.array([low], "float32"), np.array([high], "float32")]


def quantized(op: str, inputs: list, attrs: Optional[dict] = None) -> Case:
    return no_gradients(Case(f"_contrib_{op}", inputs, attrs or {}, train=False))


def to_eight_bits() -> List[Case]:
    data, wide = reals((40,), -3, 3), integers((40,), -2**31 + 1, 2**31 - 1, "int32")
    cases = []
    for dtype in ("int8", "uint8", "auto"):
        for low, high in ((-1, 2.5), (0, 1.5), (-2, 1)):
            attrs = {"out_type": dtype, "min_calib_range": str(low), "max_calib_range": str(high)}
            cases.append(quantized("quantize_v2", [data], attrs))
            cases.append(quantized("requantize", [wide, *ends(-1, 3)], attrs))
        cases.append(quantized("quantize_v2", [data], {"out_type": dtype}))
        cases.append(quantized("requantize", [wide, *ends(-4, 3)], {"out_type": dtype}))
        for given in ("int8", "uint8"):
            cases.append(quantized("quantize_v2", [codes((9,), given)], {"out_type": dtype}))
            cases.append(quantized("quantize_v2", [codes((9,), given)], {"out_type": dtype, **CALIBRATED}))
    cases.append(quantized("quantize_v2", [data], {"max_calib_range": "1"}))
    cases.append(quantized("requantize", [integers((2, 3), -900, 900, "int32"), *ends(-1, 2)]))
    return cases


def products() -> List[Case]:
    cases = []
    for attrs in ({}, {"stride": "(2, 2)", "pad": "(1, 1)"}, {"dilate": "(2, 2)", "pad": "(2, 2)"}):
        attrs = {"kernel": "(3, 3)", "num_filter": "3", "layout": "NCHW", **attrs}
        terms = [codes((2, 2, 5, 6), "uint8"), codes((3, 2, 3, 3), "int8")]
        cases.append(quantized("quantized_conv", [*terms, *ends(-1, 2), *ends(-0.5, 0.7)],
                               {**attrs, "no_bias": "True"}))
        terms.append(codes((3,), "int8"))
        cases.append(quantized("quantized_conv", [*terms, *ends(-1, 2), *ends(-0.5, 0.7), *ends(-3, 1)], attrs))
    terms = [codes((1, 2, 3, 4, 3), "uint8"), codes((2, 2, 2, 2, 2), "int8")]
    cases.append(quantized("quantized_conv", [*terms, *ends(0, 2), *ends(-0.5, 0.7)],
                           {"kernel": "(2, 2, 2)", "num_filter": "2", "layout": "NCDHW", "no_bias": "True"}))
    for dtype in ("int8", "uint8"):
        for shape, attrs in (((3, 6), {}), ((3, 2, 3), {}), ((2, 2, 6), {"flatten": "False"})):
            attrs = {"num_hidden": "4", **attrs}
            terms = [codes(shape, dtype), codes((4, 6), "int8")]
            cases.append(quantized("quantized_fully_connected", [*terms, *ends(-1, 2), *ends(-0.5, 0.7)],
                                   {**attrs, "no_bias": "True"}))
            terms += [codes((4,), "int8"), *ends(-1, 2), *ends(-0.5, 0.7)]
            for high in (0.003, 1, 100):
                cases.append(quantized("quantized_fully_connected", [*terms, *ends(-high, high)], attrs))
    return cases


def windows() -> List[Case]:
    cases = []
    for dtype in ("int8", "uint8"):
        for pool in ({"pool_type": "max"}, {"pool_type": "avg"}, {"pool_type": "avg", "count_include_pad": "False"}):
            for attrs in ({"kernel": "(2, 2)"}, {"kernel": "(3, 3)", "pad": "(1, 1)", "stride": "(2, 1)"},
                          {"kernel": "(2, 3)", "stride": "(2, 2)", "pooling_convention": "full"},
                          {"kernel": "(2, 2)", "global_pool": "True"}):
                cases.append(quantized("quantized_pooling", [codes((1, 2, 5, 6), dtype), *ends(-1, 2)],
                                       {**pool, **attrs}))
            cases.append(quantized("quantized_pooling", [codes((1, 2, 3, 3, 4), dtype), *ends(-1, 2)],
                                   {**pool, "kernel": "(2, 2, 2)"}))
    return cases


def elements() -> List[Case]:
    cases = []
    for lhs in ("int8", "uint8"):
        for rhs in ("int8", "uint8"):
            inputs = [codes((6, 7), lhs), codes((6, 7), rhs, 8)]
            cases.append(quantized("quantized_elemwise_add", [*inputs, *ends(-1, 2), *ends(-5, 3)], CALIBRATED))
            if lhs == rhs:  # MXNet leaves the uint8 input of other int32 sums out
                cases.append(quantized("quantized_elemwise_add", [*inputs, *ends(-1, 2), *ends(-4, 3)]))
    inputs = [codes((6, 7), "int8"), codes((6, 7), "int8", 8), *ends(-1, 2), *ends(-4, 3)]
    # MXNet wraps products beyond a calibrated range around.
    for attrs in ({}, {"min_calib_range": "-9", "max_calib_range": "4"}, {"enable_float_output": "True"}):
        cases.append(quantized("quantized_elemwise_mul", inputs, attrs))
    return cases


def moves() -> List[Case]:
    cases = []
    for dtype in ("int8", "uint8", "int32"):
        cases.append(quantized("quantized_flatten", [codes((2, 3, 2), dtype), *ends(-1, 2)]))
    cases.append(quantized("quantized_act", [codes((2, 9), "int8"), *ends(-1, 2)], {"act_type": "relu"}))
    for dtype in ("float32", "int32"):
        rows = np.array([0, 3, 2.7, -1, 9, 1], dtype)
        cases.append(quantized("quantized_embedding", [rows, codes((4, 3), "int8"), *ends(-1, 2)],
                               {"input_dim": "4", "output_dim": "3"}))
    for first in ("int8", "uint8"):
        for second in ("int8", "uint8"):
            for low, high in ((0, 3.7), (-5, 1)):
                inputs = [codes((2, 9), first), codes((2, 7), second), *ends(-1, 2), *ends(low, high)]
                cases.append(quantized("quantized_concat", inputs, {"num_args": "2", "dim": "1"}))
    inputs = [codes((2, 3), "int8"), codes((1, 3), "int8"), *ends(1, 2), *ends(2, 5)]
    cases.append(quantized("quantized_concat", inputs, {"num_args": "2", "dim": "0"}))
    return cases


def normalizations() -> List[Case]:
    cases = []
    for dtype in ("int8", "uint8"):
        for attrs in ({}, {"fix_gamma": "False", "eps": "0.5"}):
            inputs = [codes((2, 3, 4, 5), dtype), reals((3,), 0.5, 2), reals((3,), -1, 1, seed=7),
                      reals((3,), -1, 1, seed=8), reals((3,), 0.5, 2, seed=9), *ends(-1, 1.5)]
            cases.append(quantized("quantized_batch_norm", inputs, {**CALIBRATED, **attrs}))
    return cases


FAMILIES = {"quantized": lambda: to_eight_bits() + products() + windows() + elements() + moves() + normalizations()}
