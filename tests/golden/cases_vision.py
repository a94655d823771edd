"""The golden cases of operators that read images at given places or compare them."""

from typing import List

import numpy as np

from case import Case, integers, no_gradients, reals


def sampling() -> List[Case]:
    cases = []
    for target in ("(3, 4)", "(2, 2)", "(5, 3)", "(1, 4)"):
        cases.append(Case("GridGenerator", [(2, 6)], {"transform_type": "affine", "target_shape": target}))
    for flow in ((2, 2, 3, 4), (1, 2, 5, 2), (1, 2, 1, 3)):
        cases.append(Case("GridGenerator", [flow], {"transform_type": "warp"}))
    cases.append(Case("GridGenerator", [(1, 2, 3, 4)], {"transform_type": "warp", "target_shape": "(7, 8)"}))
    for data, grid in (((2, 3, 4, 5), (3, 2)), ((1, 2, 3, 3), (6, 7)), ((2, 1, 1, 1), (2, 2)), ((1, 2, 6, 5), (1, 3))):
        for dtype in ("float32", "float64", "float16"):
            points = reals((data[0], 2) + grid, -1.4, 1.4, dtype)
            cases.append(Case("BilinearSampler", [data, points], dtype=dtype))
    corners = np.array([-1, 0, 1, 1, 0, -1, 0.5, -0.5], "float32").reshape((1, 2, 2, 2))
    cases.append(Case("BilinearSampler", [(1, 2, 5, 3), corners], {"cudnn_off": "True"}))
    odd = np.array([np.nan, np.inf, 1e30, 0, 0, 0, 0, -np.inf], "float32").reshape((1, 2, 2, 2))
    cases.append(Case("BilinearSampler", [(1, 2, 3, 3), odd]))
    for data, target in (((2, 3, 4, 5), "(3, 4)"), ((1, 2, 9, 7), "(5, 3)"), ((2, 1, 3, 3), "(6, 7)")):
        for scale, dtype in ((0.6, "float32"), (1.5, "float32"), (1, "float64")):
            attrs = {"target_shape": target, "transform_type": "affine", "sampler_type": "bilinear"}
            cases.append(Case("SpatialTransformer", [data, reals((data[0], 6), -scale, scale, dtype)], attrs,
                              dtype=dtype))
    return cases


def correlation() -> List[Case]:
    cases = []
    for shape, attrs in (((2, 3, 5, 6), {}), ((1, 2, 4, 3), {"max_displacement": "0"}),
                         ((1, 3, 6, 6), {"max_displacement": "4", "pad_size": "4"}),
                         ((2, 1, 7, 7), {"max_displacement": "5", "stride2": "2", "pad_size": "5"}),
                         ((2, 2, 6, 4), {"kernel_size": "3", "stride1": "2", "pad_size": "2"}),
                         ((1, 2, 8, 9), {"kernel_size": "5", "pad_size": "2", "stride1": "3"})):
        for multiply in ("True", "False"):
            cases.append(Case("Correlation", [shape, shape], {**attrs, "is_multiply": multiply}))
    for dtype in ("float64", "float16"):
        cases.append(Case("Correlation", [(1, 2, 5, 5)] * 2, {"pad_size": "1"}, dtype=dtype))
        cases.append(Case("Correlation", [(1, 2, 5, 5)] * 2, {"is_multiply": "False"}, dtype=dtype))
    equal = [integers((1, 2, 4, 4), 0, 2, seed=seed) for seed in (1, 2)]
    cases.append(Case("Correlation", equal, {"is_multiply": "False", "pad_size": "1"}))
    return cases


def columns() -> List[Case]:
    cases = []  # MXNet runs windows of two dimensions alone
    windows = [
        ((2, 3, 5, 6), {"kernel": "(2, 3)"}),
        ((2, 2, 6, 5), {"kernel": "(3, 3)", "stride": "(2, 2)", "pad": "(1, 1)"}),
        ((1, 2, 7, 8), {"kernel": "(3, 2)", "stride": "(2, 1)", "dilate": "(2, 3)", "pad": "(1, 2)"}),
    ]
    for data, attrs in windows:
        for dtype in ("float32", "float64"):
            cases.append(Case("im2col", [data], attrs, dtype=dtype))
    cases.append(Case("im2col", [(1, 2, 4, 5)], {"kernel": "(2, 2)"}, dtype="float16"))
    for rows, attrs in (((2, 27, 42), {"kernel": "(3, 3)", "output_size": "(8, 9)"}),
                        ((2, 18, 9), {"kernel": "(3, 3)", "stride": "(2, 2)", "pad": "(1, 1)",
                                      "output_size": "(6, 5)"}),
                        ((1, 8, 20), {"kernel": "(2, 2)", "output_size": "(6, 8)", "dilate": "(2, 3)"})):
        for dtype in ("float32", "float64"):
            cases.append(Case("col2im", [rows], attrs, dtype=dtype))
    cases.append(Case("col2im", [(1, 8, 9)], {"kernel": "(2, 2)", "output_size": "(4, 4)"}, dtype="float16"))
    return cases


def deformable() -> List[Case]:
    cases = []
    for data, offset, weight, attrs in (
            ((2, 2, 5, 6), (2, 18, 3, 4), (3, 2, 3, 3), {"kernel": "(3, 3)"}),
            ((1, 3, 4, 5), (1, 12, 4, 4), (2, 3, 3, 2), {"kernel": "(3, 2)", "pad": "(1, 0)"}),
            ((2, 4, 6, 7), (2, 36, 3, 3), (4, 2, 3, 3),
             {"kernel": "(3, 3)", "stride": "(2, 2)", "dilate": "(1, 2)", "pad": "(1, 1)", "num_group": "2",
              "num_deformable_group": "2"})):
        attrs = {**attrs, "num_filter": str(weight[0])}
        for scale in (0.4, 2):
            moves = reals(offset, -scale, scale)
            cases.append(Case("_contrib_DeformableConvolution", [data, moves, weight, (weight[0],)], attrs))
        cases.append(Case("_contrib_DeformableConvolution", [data, moves, weight],
                          {**attrs, "no_bias": "True", "layout": "NCHW", "workspace": "1"}))
    return cases


def modulated() -> List[Case]:
    cases = []  # MXNet has the gradients for a GPU alone
    for data, offset, weight, attrs in (
            ((2, 2, 5, 6), (2, 18, 3, 4), (3, 2, 3, 3), {"kernel": "(3, 3)"}),
            ((1, 3, 4, 5), (1, 12, 4, 4), (2, 3, 3, 2), {"kernel": "(3, 2)", "pad": "(1, 0)", "im2col_step": "1"}),
            ((2, 4, 6, 7), (2, 36, 3, 3), (4, 2, 3, 3),
             {"kernel": "(3, 3)", "stride": "(2, 2)", "dilate": "(1, 2)", "pad": "(1, 1)", "num_group": "2",
              "num_deformable_group": "2"})):
        attrs = {**attrs, "num_filter": str(weight[0])}
        mask = (offset[0], offset[1] // 2) + offset[2:]
        for scale, dtype in ((0.4, "float32"), (2, "float32"), (2, "float64")):
            inputs = [data, reals(offset, -scale, scale, dtype), reals(mask, 0, 1.2, dtype), weight, (weight[0],)]
            cases.append(no_gradients(Case("_contrib_ModulatedDeformableConvolution", inputs, attrs, dtype=dtype)))
        attrs = {**attrs, "no_bias": "True", "workspace": "1"}
        cases.append(no_gradients(Case("_contrib_ModulatedDeformableConvolution", inputs[:4], attrs, dtype=dtype)))
    return cases


FAMILIES = {"columns": columns, "correlation": correlation, "deformable": deformable, "modulated": modulated,
            "sampling": sampling}
