"""The golden cases of operators that move a window over images: convolutions, pooling, resizing."""

import itertools
from typing import Dict, List

import numpy as np

from case import Case


def convolution() -> List[Case]:
    cases = []

    def add(data: tuple, weight: tuple, attrs: Dict[str, str], bias: bool = True, dtype: str = "float32") -> None:
        inputs = [data, weight] + ([(weight[0],)] if bias else [])
        attrs = {"num_filter": str(weight[0]), **attrs}
        cases.append(Case("Convolution", inputs, attrs if bias else {**attrs, "no_bias": "True"}, dtype=dtype))

    add((2, 3, 5, 6), (4, 3, 3, 3), {"kernel": "(3, 3)"})
    add((2, 3, 5, 6), (4, 3, 3, 3), {"kernel": "(3, 3)"}, dtype="float64")
    add((2, 3, 5, 6), (4, 3, 3, 3), {"kernel": "(3, 3)", "pad": "(1, 1)"}, bias=False)
    add((1, 2, 8, 9), (3, 2, 3, 2), {"kernel": "(3, 2)", "stride": "(2, 3)", "pad": "(2, 1)"})
    add((1, 2, 9, 7), (3, 2, 3, 2), {"kernel": "(3, 2)", "dilate": "(2, 3)"})
    add((2, 4, 4, 5), (6, 2, 2, 2), {"kernel": "(2, 2)", "num_group": "2"})
    add((2, 3, 5, 4), (3, 1, 3, 3), {"kernel": "(3, 3)", "num_group": "3", "pad": "(1, 1)"})
    add((2, 3, 5, 4), (6, 1, 3, 3), {"kernel": "(3, 3)", "num_group": "3", "stride": "(2, 1)"}, dtype="float64")
    add((2, 3, 4, 4), (5, 3, 1, 1), {"kernel": "(1, 1)", "workspace": "1", "layout": "NCHW"})
    add((2, 3, 9), (4, 3, 3), {"kernel": "(3,)", "stride": "(2,)", "pad": "(1,)", "layout": "NCW"})
    add((2, 4, 9), (4, 2, 3), {"kernel": "(3,)", "dilate": "(2,)", "num_group": "2", "cudnn_tune": "off"})
    add((1, 2, 3, 4, 5), (3, 2, 2, 3, 2), {"kernel": "(2, 3, 2)", "cudnn_off": "True"})
    add((1, 2, 4, 4, 5), (3, 2, 2, 2, 3),
        {"kernel": "(2, 2, 3)", "stride": "(2, 1, 2)", "pad": "(1, 0, 1)", "layout": "NCDHW"}, dtype="float64")
    inputs = [(2, 3, 5, 6), (4, 3, 3, 3), (4,)]
    cases.append(Case("Convolution_v1", inputs, {"kernel": "(3, 3)", "num_filter": "4", "pad": "(1, 1)"}))
    return cases


def deconvolution() -> List[Case]:
    cases = []

    def add(data: tuple, weight: tuple, attrs: Dict[str, str], bias: bool = False, dtype: str = "float32") -> None:
        filters = weight[1] * int(attrs.get("num_group", 1))
        inputs = [data, weight] + ([(filters,)] if bias else [])
        attrs = {"num_filter": str(filters), **attrs}
        cases.append(Case("Deconvolution", inputs, {**attrs, "no_bias": "False"} if bias else attrs, dtype=dtype))

    add((2, 3, 4, 5), (3, 4, 3, 3), {"kernel": "(3, 3)"})
    add((2, 3, 4, 5), (3, 4, 3, 3), {"kernel": "(3, 3)"}, bias=True, dtype="float64")
    add((1, 2, 3, 4), (2, 3, 4, 3), {"kernel": "(4, 3)", "stride": "(2, 3)", "pad": "(1, 1)", "adj": "(1, 2)"}, True)
    add((1, 2, 3, 4), (2, 3, 2, 2), {"kernel": "(2, 2)", "dilate": "(2, 1)"}, dtype="float64")
    add((1, 2, 4, 4), (2, 3, 3, 3), {"kernel": "(3, 3)", "stride": "(2, 2)", "target_shape": "(7, 8)"})
    add((1, 2, 4, 4), (2, 3, 3, 3),
        {"kernel": "(3, 3)", "stride": "(2, 2)", "target_shape": "(8, 8)", "adj": "(1, 1)", "pad": "(3, 3)"})
    add((2, 4, 3, 3), (4, 3, 2, 2), {"kernel": "(2, 2)", "num_group": "2", "workspace": "1"}, bias=True)
    add((2, 3, 3, 4), (3, 1, 4, 4), {"kernel": "(4, 4)", "num_group": "3", "stride": "(2, 2)", "pad": "(1, 1)"})
    add((2, 3, 5), (3, 2, 3), {"kernel": "(3,)", "stride": "(2,)", "adj": "(1,)", "layout": "NCW"}, bias=True)
    add((1, 2, 3, 2, 3), (2, 3, 2, 3, 2),
        {"kernel": "(2, 3, 2)", "stride": "(2, 1, 2)", "pad": "(1, 0, 0)", "adj": "(1, 0, 1)"}, dtype="float64")
    return cases


def pooling() -> List[Case]:
    cases = []
    windows = [
        ((2, 2, 6, 5), {"kernel": "(2, 2)"}),
        ((2, 2, 6, 5), {"kernel": "(3, 3)", "stride": "(2, 2)", "pad": "(1, 1)"}),
        ((1, 2, 6, 5), {"kernel": "(3, 3)", "stride": "(2, 2)", "pad": "(1, 1)", "pooling_convention": "full"}),
        ((1, 2, 5, 7), {"kernel": "(2, 2)", "stride": "(2, 2)", "pooling_convention": "full"}),
        ((2, 2, 3, 4), {"global_pool": "True"}),
        ((2, 2, 3, 4), {"global_pool": "True", "kernel": "(2, 2)", "stride": "(2, 2)", "pad": "(1, 1)"}),
        ((2, 3, 8), {"kernel": "(3,)", "stride": "(2,)", "pad": "(1,)", "layout": "NCW"}),
        ((1, 2, 3, 4, 5), {"kernel": "(2, 3, 2)", "stride": "(1, 2, 2)", "pad": "(1, 1, 0)"}),
        ((1, 1, 5, 4), {"kernel": "(1, 1)", "stride": "(3, 3)", "pooling_convention": "full"}),
        ((1, 1, 5), {"kernel": "(3,)", "stride": "(3,)", "pad": "(1,)", "pooling_convention": "full"}),
    ]
    for (data, attrs), kind in itertools.product(windows, ("max", "avg", "sum", "lp")):
        attrs = {**attrs, "pool_type": kind}
        if kind == "lp":
            attrs["p_value"] = "2"
        cases.append(Case("Pooling", [data], attrs))
        if kind == "avg" and "pad" in attrs:
            cases.append(Case("Pooling", [data], {**attrs, "count_include_pad": "False"}, dtype="float64"))
    for power, dtype in itertools.product("123", ("float64", "float16")):
        attrs = {"kernel": "(2, 3)", "pool_type": "lp", "p_value": power}
        cases.append(Case("Pooling", [(1, 2, 4, 5)], attrs, low=0.5, dtype=dtype))
    ties = np.array([[[[1, 1, 0], [1, 1, 2], [0, 2, 2]]]], "float32")
    cases.append(Case("Pooling", [ties], {"kernel": "(2, 2)", "cudnn_off": "True"}))
    for kind in ("max", "avg", "sum"):
        cases.append(Case("Pooling", [(2, 2, 4, 5)], {"kernel": "(2, 2)", "pool_type": kind}, dtype="float16"))
        for attrs in ({"kernel": "(2, 2)", "stride": "(2, 2)"}, {"kernel": "(3, 3)", "pad": "(1, 1)"},
                      {"kernel": "(3, 3)", "stride": "(2, 2)", "pooling_convention": "full"},
                      {"kernel": "(1, 1)", "stride": "(3, 3)", "pooling_convention": "full"},
                      {"kernel": "(2, 2)", "pad": "(1, 1)", "global_pool": "True"}):
            cases.append(Case("Pooling_v1", [(2, 2, 5, 5)], {**attrs, "pool_type": kind}))
    cases.append(Case("Pooling_v1", [ties], {"kernel": "(2, 2)"}))
    cases.append(Case("Pooling_v1", [(1, 2, 5, 5)], {"kernel": "(2, 2)", "pad": "(1, 1)"}, low=-2, high=-1))
    return cases


def resizing() -> List[Case]:
    cases = []
    for scale in (1, 2, 3):
        kernel = 2 * scale - scale % 2
        for count in ("1", "2"):
            attrs = {"scale": str(scale), "sample_type": "bilinear", "num_filter": "2", "num_args": count}
            cases.append(Case("UpSampling", [(2, 2, 3, 4), (2, 1, kernel, kernel)], attrs))
    for size in ({}, {"height": "9", "width": "5"}, {"height": "2", "width": "4"}, {"height": "5", "width": "4"}):
        for corners in ("True", "False"):
            cases.append(Case("_contrib_BilinearResize2D", [(2, 2, 5, 4)], {**size, "align_corners": corners}))
    for attrs in ({"scale_height": "1.5", "scale_width": "0.75"}, {"height": "3", "scale_width": "2"},
                  {"mode": "odd_scale", "scale_height": "2", "scale_width": "3"},
                  {"mode": "odd_scale", "scale_height": "0.5", "scale_width": "0.5"},
                  {"mode": "to_even_down"}, {"mode": "to_even_up"}, {"mode": "to_odd_down"}, {"mode": "to_odd_up"}):
        cases.append(Case("_contrib_BilinearResize2D", [(2, 1, 5, 4)], attrs))
    cases.append(Case("_contrib_BilinearResize2D", [(2, 2, 5, 4), (2, 2, 3, 7)], {"mode": "like"}))
    cases.append(Case("_contrib_BilinearResize2D", [(1, 2, 5, 4)], {"height": "7", "width": "3"}, dtype="float16"))
    for size in ({}, {"output_size": "2"}, {"output_size": "(3,)"}, {"output_size": "(2, 3)"},
                 {"output_size": "(7, 9)"}):
        cases.append(Case("_contrib_AdaptiveAvgPooling2D", [(2, 2, 5, 7)], size))
    for dtype in ("float64", "float16"):
        cases.append(Case("_contrib_AdaptiveAvgPooling2D", [(2, 2, 5, 7)], {"output_size": "(3, 4)"}, dtype=dtype))
    return cases


FAMILIES = {"convolution": convolution, "deconvolution": deconvolution, "pooling": pooling, "resizing": resizing}
