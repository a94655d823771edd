"""The golden cases of each family of operators: what make_cases.py asks MXNet."""

from typing import Callable, Dict, List

import numpy as np

import cases_amp
import cases_boxes
import cases_ctc
import cases_densities
import cases_images
import cases_index
import cases_linalg
import cases_loss
import cases_matrices
import cases_moments
import cases_nn
import cases_norm
import cases_optimizer
import cases_order
import cases_positions
import cases_quantized
import cases_random
import cases_regions
import cases_rnn
import cases_sequence
import cases_shape
import cases_vision
import cases_windows
from case import Case, Shape, no_gradients  # pylint: disable=unused-import; families elsewhere take them from here

UNARY = {
    "exp": (-2, 2), "expm1": (-2, 2), "log": (0.1, 3), "log10": (0.1, 3), "log2": (0.1, 3), "log1p": (-0.5, 3),
    "sqrt": (0.1, 3), "rsqrt": (0.1, 3), "cbrt": (0.1, 3), "rcbrt": (0.1, 3), "reciprocal": (0.2, 3),
    "sin": (-4, 4), "cos": (-4, 4), "tan": (-1.2, 1.2), "arcsin": (-0.9, 0.9), "arccos": (-0.9, 0.9),
    "arctan": (-3, 3), "sinh": (-2, 2), "cosh": (-2, 2), "tanh": (-3, 3), "arcsinh": (-3, 3),
    "arccosh": (1.1, 3), "arctanh": (-0.9, 0.9), "degrees": (-1, 1), "radians": (-90, 90), "erf": (-2, 2),
    "erfinv": (-0.95, 0.95), "gamma": (0.5, 4), "gammaln": (0.5, 4), "sigmoid": (-4, 4), "softsign": (-3, 3),
    "square": (-3, 3), "floor": (-3, 3), "ceil": (-3, 3), "round": (-3, 3), "rint": (-3, 3), "trunc": (-3, 3),
    "fix": (-3, 3), "sign": (-2, 2), "logical_not": (-1, 1), "negative": (-2, 2), "abs": (-2, 2), "relu": (-2, 2),
}


def elemwise() -> List[Case]:
    cases = []
    for op, (low, high) in UNARY.items():
        cases.append(Case(op, [(3, 5)], low=low, high=high))
        cases.append(Case(op, [(2, 1, 3)], low=low, high=high, dtype="float64"))
        if op not in ("erfinv",):  # MXNet has no float16 code for it
            cases.append(Case(op, [(7,)], low=low, high=high, dtype="float16"))
    steps = np.array([-2.5, -2, -1.5, -0.5, -0.0, 0, 0.5, 1.5, 2, 2.5], "float32")
    for op in ("floor", "ceil", "round", "rint", "trunc", "fix", "sign", "abs", "relu", "logical_not", "negative"):
        cases.append(Case(op, [steps], gradients=[op in ("abs", "relu", "negative")]))
        cases.append(no_gradients(Case(op, [(4,)], low=-3, high=3, dtype="int32")))
    for op in ("exp", "sqrt", "square", "negative", "abs", "sign"):
        cases.append(no_gradients(Case(op, [(6,)], low=0, high=9, dtype="int32")))
    for count in (1, 2, 5):
        cases.append(Case("add_n", [(2, 3)] * count, {"num_args": str(count)}))
    return cases + binary()


BINARY = ("add", "sub", "mul", "div", "mod", "power", "hypot", "maximum", "minimum")
LOGIC = ("equal", "not_equal", "greater", "greater_equal", "lesser", "lesser_equal", "logical_and", "logical_or",
         "logical_xor")


def binary() -> List[Case]:
    cases = []
    for name in BINARY:
        low = 0.3 if name == "power" else -2
        elementwise = f"elemwise_{name}" if name in BINARY[:4] else f"_{name}"
        second = np.random.RandomState(3).uniform(0.5, 2, (3, 4)).astype("float32")
        cases.append(Case(elementwise, [(3, 4), second], low=low))
        cases.append(Case(elementwise, [(5,), (5,)], low=0.5, dtype="float64"))
        cases.append(Case(elementwise, [(5,), (5,)], low=0.5, dtype="float16"))
        for shapes in ([(3, 4), (1, 4)], [(2, 3, 4), (3, 1)], [(3, 1, 5), (1, 2, 5)], [(2, 3, 2, 2), (1, 3, 1, 1)]):
            if len(shapes[0]) != len(shapes[1]):
                shapes[1] = (1,) * (len(shapes[0]) - len(shapes[1])) + shapes[1]
            cases.append(Case(f"broadcast_{name}", list(shapes), low=0.5))
    for name in ("plus", "minus", "rminus", "mul", "div", "rdiv", "mod", "rmod", "power", "rpower", "hypot",
                 "maximum", "minimum"):
        for scalar in ("1.5", "-2", "3"):
            if scalar == "-2" and "power" in name:
                continue
            cases.append(Case(f"_{name}_scalar", [(3, 4)], {"scalar": scalar}, low=0.3))
        cases.append(Case(f"_{name}_scalar", [(5,)], {"scalar": "2"}, low=0.5, dtype="float16"))
        cases.append(no_gradients(Case(f"_{name}_scalar", [(6,)], {"scalar": "2"}, low=1, high=9, dtype="int32")))
    for name in ("elemwise_add", "elemwise_sub", "elemwise_mul", "elemwise_div", "_mod", "_maximum", "_minimum"):
        for dtype in ("int32", "int64", "uint8", "int8"):
            cases.append(no_gradients(Case(name, [(8,), (8,)], low=1, high=9, dtype=dtype)))
    signs = np.array([-7, -7, 7, 7, 0, 5], "float32"), np.array([2, -2, 2, -2, 3, 0], "float32")
    cases.append(no_gradients(Case("_mod", list(signs))))
    cases.append(no_gradients(Case("_mod", [value[:5].astype("int32") for value in signs])))
    cases.append(no_gradients(Case("elemwise_div", [value[:5].astype("int32") for value in signs])))
    for name in LOGIC:
        for dtype in ("float32", "int32"):
            cases.append(no_gradients(Case(f"_{name}", [(9,), (9,)], low=-1, high=1, dtype=dtype)))
            cases.append(no_gradients(Case(f"_{name}_scalar", [(9,)], {"scalar": "1"}, low=-1, high=2, dtype=dtype)))
        cases.append(no_gradients(Case(f"broadcast_{name}", [(3, 1), (1, 4)], low=-1, high=1, dtype="int32")))
    return cases


def reduce() -> List[Case]:
    cases = []
    for op in ("sum", "mean", "prod", "nansum", "nanprod", "max", "min"):
        for attrs in ({}, {"axis": "1"}, {"axis": "()"}, {"axis": "(0, 2)"}, {"axis": "-1", "keepdims": "True"},
                      {"axis": "(1,)", "exclude": "True"}):
            cases.append(Case(op, [(2, 3, 4)], attrs, low=0.5))
        cases.append(Case(op, [(3, 4)], {"axis": "0"}, low=0.5, dtype="float16"))
        cases.append(no_gradients(Case(op, [(3, 4)], {"axis": "0"}, low=1, high=5, dtype="int32")))
    holes = np.array([[1, np.nan, 3], [np.nan, np.nan, 2]], "float32")
    for op in ("sum", "nansum", "nanprod", "max", "min", "mean"):
        cases.append(Case(op, [holes], {"axis": "1"}, gradients=[op.startswith("nan")]))
    ties = np.array([[1, 3, 3], [2, 2, 2]], "float32")
    for op in ("max", "min"):
        cases.append(Case(op, [ties], {"axis": "1"}))
    return cases


FAMILIES: Dict[str, Callable[[], List[Case]]] = {
    **cases_amp.FAMILIES,
    **cases_boxes.FAMILIES,
    **cases_ctc.FAMILIES,
    **cases_densities.FAMILIES,
    "elemwise": elemwise,
    **cases_images.FAMILIES,
    "index": cases_index.index,
    "linalg": cases_linalg.linalg,
    "loss": cases_loss.loss,
    **cases_matrices.FAMILIES,
    **cases_moments.FAMILIES,
    "nn": cases_nn.nn,
    "norm": cases_norm.norm,
    "optimizer": cases_optimizer.optimizer,
    **cases_order.FAMILIES,
    **cases_positions.FAMILIES,
    **cases_quantized.FAMILIES,
    "random": cases_random.random,
    **cases_regions.FAMILIES,
    "reduce": reduce,
    "rnn": cases_rnn.rnn,
    **cases_sequence.FAMILIES,
    "shape": cases_shape.shape,
    **cases_vision.FAMILIES,
    **cases_windows.FAMILIES,
}
