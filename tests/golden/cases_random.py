"""Golden cases of operators that draw random numbers: shapes, types, and draws from distributions of one value."""

from typing import List

import numpy as np

from case import Case, no_gradients

# Numbers of a gamma distribution of this shape, times its inverse, are 1, and those of an exponential distribution
# of this rate 0, to six digits and more.
LARGE, SMALL = "1e20", "1e-20"

# Distribution: parameters that leave one value, and those of the inputs of _sample_.
KNOWN = {
    "uniform": ({"low": "1.5", "high": "1.5"}, (1.5, 1.5)),
    "normal": ({"loc": "-2.5", "scale": SMALL}, (-2.5, 0)),
    "gamma": ({"alpha": LARGE, "beta": SMALL}, (1e20, 1e-20)),
    "exponential": ({"lam": LARGE}, (1e20,)),
    "poisson": ({"lam": "0"}, (0,)),
    "negative_binomial": ({"k": "0", "p": "0.5"}, (3, 1)),
    "generalized_negative_binomial": ({"mu": "0", "alpha": "0.5"}, (0, 2)),
}


def random() -> List[Case]:
    cases = []
    for name, (attrs, numbers) in KNOWN.items():
        for more in ({"shape": "(2, 3)"}, {"shape": "(5,)", "dtype": "float64"}, {"shape": "4", "dtype": "float16"},
                     {"shape": "(2, 1, 2)", "dtype": "None"}):
            if name != "gamma" or more.get("dtype") != "float64":  # MXNet draws in float
                cases.append(Case(f"_random_{name}", [], {**attrs, **more}))
        for dtype in ("float32", "float64") if name != "gamma" else ("float32",):
            cases.append(Case(f"_random_{name}_like", [(3, 2)], attrs, dtype=dtype))
        for shape, more in (((3,), {}), ((2, 2), {"shape": "(3,)"}), ((3,), {"shape": "(1,)", "dtype": "float64"}),
                            ((2,), {"shape": "(2, 2)", "dtype": "None"})):
            cases.append(Case(f"_sample_{name}", [np.full(shape, number, "float32") for number in numbers], more))
    for more in ({}, {"dtype": "int64"}, {"dtype": "int32"}, {"dtype": "None"}):
        cases.append(Case("_random_randint", [], {"low": "5", "high": "6", "shape": "(2, 3)", **more}))
    sure = np.array([[0, 0, 1, 0], [1, 0, 0, 0]], "float32")
    for attrs in ({}, {"shape": "(1,)"}, {"shape": "(3, 2)"}, {"dtype": "uint8"}, {"dtype": "float32"},
                  {"dtype": "float64", "shape": "(2,)"}):
        for data in (sure, sure[0], np.stack([sure, sure[::-1]])):
            cases.append(no_gradients(Case("_sample_multinomial", [data], attrs)))
            cases.append(Case("_sample_multinomial", [data.astype("float64")], {**attrs, "get_prob": "True"}))
    for dtype in ("float32", "float64", "int32", "uint8"):
        cases.append(no_gradients(Case("_shuffle", [np.full((5, 2), 3, dtype)])))
    return cases
