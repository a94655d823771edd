"""Golden cases of mixed precision, and of operators that are variants of others."""

from typing import List

import numpy as np

from case import Case, integers, no_gradients, reals
from cases_norm import batch_norm


def amp() -> List[Case]:
    cases = []
    for source in ("float32", "float16", "float64"):
        for dtype in ("float32", "float16", "float64"):
            cases.append(Case("amp_cast", [(2, 3)], {"dtype": dtype}, dtype=source))
        # MXNet rounds float32 with oneDNN, and cuts everything else off.
        cases.append(no_gradients(Case("amp_cast", [integers((5,), -9, 9, source)], {"dtype": "int32"})))
    for source in ("int32", "int8", "uint8", "int64"):
        cases.append(no_gradients(Case("amp_cast", [(5,)], {"dtype": "float16"}, dtype=source, low=0, high=9)))
    cases.append(Case("amp_cast", [(0, 3)], {"dtype": "float16"}))
    for narrow in ("False", "True"):
        for types in (("float16", "float32"), ("float32", "float16", "float32"), ("float32",), ("float16", "float16"),
                      ("float32", "int32", "float16"), ("int8", "int32")):
            cases.append(Case("amp_multicast", [integers((i + 1, 3), 0, 9, dtype, i) for i, dtype in enumerate(types)],
                              {"num_outputs": str(len(types)), "cast_narrow": narrow},
                              gradients=["int" not in dtype for dtype in types]))
    cases.append(Case("amp_multicast", [reals((2, 3), -2, 2, "float64"), reals((3,), -2, 2, "float16")],
                      {"num_outputs": "2"}))
    return cases


def norms() -> List[Case]:
    cases = []
    for number, (shape, attrs, train) in enumerate((
            ((4, 3), {}, True), ((4, 2), {}, False), ((2, 3, 2, 2), {"fix_gamma": "False"}, True),
            ((2, 3, 4), {"fix_gamma": "False", "use_global_stats": "True"}, True), ((2, 4, 3), {"eps": "0.1"}, True),
            ((2, 4, 3), {"momentum": "0.5"}, True), ((2, 3, 4), {"ndev": "1"}, True),
            ((2, 3, 4), {"output_mean_var": "True", "fix_gamma": "False"}, True))):
        # MXNet's statistics of a key have one size.
        cases.append(batch_norm("_contrib_SyncBatchNorm", shape, dict(attrs, key=f"key{number}"), train=train))
    shape = (2, 3, 4, 2)  # the only rank that MXNet takes
    for train in (True, False):
        cases += [batch_norm("_contrib_BatchNormWithReLU", shape, attrs, train=train)
                  for attrs in ({}, {"fix_gamma": "False"}, {"fix_gamma": "False", "use_global_stats": "True"},
                                {"eps": "0.1", "fix_gamma": "False"}, {"momentum": "0.5"},
                                {"output_mean_var": "True", "fix_gamma": "False"}, {"cudnn_off": "True"},
                                {"min_calib_range": "-1.5", "max_calib_range": "1.5"})]
    return cases


def variants() -> List[Case]:
    steps = np.array([-2.5, -2, -1.5, -0.5, 0, 0.5, 1.5, 2, 2.5], "float32")
    cases = []
    for op in ("_contrib_round_ste", "_contrib_sign_ste"):
        cases += [Case(op, [steps]), Case(op, [(2, 3)], dtype="float64"), Case(op, [(4,)], dtype="float16"),
                  no_gradients(Case(op, [(4,)], low=-3, high=3, dtype="int32"))]
    for attrs in ({}, {"scalar": "-2.5"}, {"scalar": "0"}, {"scalar": "3", "is_int": "True"}):
        cases.append(Case("_contrib_gradientmultiplier", [(2, 3)], attrs))
    cases += [Case("_contrib_gradientmultiplier", [(5,)], {"scalar": "0.5"}, dtype=dtype)
              for dtype in ("float64", "float16")]
    cases.append(no_gradients(Case("_contrib_gradientmultiplier", [(5,)], {"scalar": "2.5"}, dtype="int32")))
    for dtype in ("float32", "float64", "float16", "int32"):
        # MXNet has no gradient of it.
        cases.append(no_gradients(Case("_grad_add", [(2, 3), (2, 3)], dtype=dtype, low=-4, high=4)))
        with_gradient = dtype != "int32"
        cases.append(Case("_scatter_elemwise_div", [(2, 3), integers((2, 3), 1, 4, dtype)], dtype=dtype, low=-4, high=4,
                          gradients=[with_gradient] * 2))
        for op in ("_scatter_plus_scalar", "_scatter_minus_scalar"):
            cases.append(Case(op, [(2, 3)], {"scalar": "2.5"}, dtype=dtype, low=-4, high=4, gradients=[with_gradient]))
    # MXNet has no gradient of khatri_rao, and code for these types alone.
    cases.append(no_gradients(Case("khatri_rao", [(2, 3), (4, 3)], {"num_args": "2"}, dtype="float64")))
    for shapes in ([(3, 2)], [(2, 3), (4, 3)], [(2, 3), (1, 3), (3, 3)], [(1, 4), (5, 4)], [(0, 3), (2, 3)],
                   [(2, 2)] * 4):
        cases.append(no_gradients(Case("khatri_rao", list(shapes), {"num_args": str(len(shapes))})))
    for attrs in ({}, {"penalty": "0.5"}, {"sparseness_target": "0.3", "penalty": "0.1"},
                  {"momentum": "0.5", "penalty": "0.1"}):
        cases.append(Case("IdentityAttachKLSparseReg", [reals((3, 4), 0.1, 0.9), reals((4,), 0.2, 0.8)], attrs,
                          gradients=[True, False]))
    cases.append(no_gradients(Case("IdentityAttachKLSparseReg", [reals((3, 4), 0.1, 0.9), reals((4,), 0.2, 0.8)],
                                   train=False)))
    for dtype in ("float32", "int32"):
        # MXNet has a gradient in sparse arrays alone.
        cases.append(no_gradients(Case("_contrib_SparseEmbedding", [integers((2, 3), -1, 6, dtype), (5, 4)],
                                       {"input_dim": "5", "output_dim": "4"})))
    cases.append(no_gradients(Case("_contrib_SparseEmbedding", [integers((3,), 0, 3), (4, 2)],
                                   {"input_dim": "4", "output_dim": "2", "deterministic": "True"})))
    for dtype in ("0", "1", "2", "3", "4", "6"):
        cases.append(no_gradients(Case("_zeros_without_dtype", [], {"shape": "(2, 3)", "dtype": dtype})))
    for op in ("_npi_zeros", "_npi_ones"):
        for shape, dtype in (("(2, 3)", "float32"), ("(4,)", "int32"), ("(1, 2, 1)", "float64")):
            cases.append(no_gradients(Case(op, [], {"shape": shape, "dtype": dtype})))
    return cases


FAMILIES = {"amp": amp, "norm_variants": norms, "variants": variants}
