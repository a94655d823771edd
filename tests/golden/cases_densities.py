"""The golden cases of probability densities and likelihoods, and of draws without replacement."""

from typing import List

import numpy as np

from case import Case, integers, no_gradients, reals

# Distribution: whether its samples are integers, and the ranges of its samples and of its parameters.
KNOWN = {
    "uniform": (False, (-1, 1), [(-2, 0), (0.5, 2)]),
    "normal": (False, (-2, 2), [(-1, 1), (0.5, 2)]),
    "gamma": (False, (0.2, 3), [(0.4, 3), (0.4, 3)]),
    "exponential": (False, (0, 3), [(0.3, 2)]),
    "poisson": (True, (0, 6), [(0.3, 4)]),
    "negative_binomial": (True, (0, 6), [(0.5, 4), (0.2, 0.8)]),
    "generalized_negative_binomial": (True, (0, 6), [(0.5, 4), (0.3, 2)]),
}


def densities() -> List[Case]:
    cases = []
    for name, (of_integers, sample, parameters) in KNOWN.items():
        for number, (shape, own) in enumerate((((3, 4), (3,)), ((2, 3, 2), (2, 3)), ((5,), (5,)), ((2, 3, 4), (2,)))):
            for is_log in ("False", "True"):
                dtype = ("float32", "float64", "float32", "float16")[number]
                drawn = (integers if of_integers else reals)(shape, *sample, dtype)
                given = [reals(own, *limits, dtype, seed=7 + i) for i, limits in enumerate(parameters)]
                cases.append(Case(f"_random_pdf_{name}", [drawn, *given], {"is_log": is_log}))
    for number, (shape, own) in enumerate((((4, 3), (3,)), ((2, 3, 4), (2, 4)), ((2, 2), (2, 2)), ((2, 2, 3), (2, 3)))):
        for is_log in ("False", "True"):
            dtype = ("float32", "float64", "float32", "float16")[number]
            drawn = np.random.RandomState(8).dirichlet([2] * shape[-1], shape[:-1]).astype(dtype)
            given = reals(own, 0.5, 3, dtype)
            cases.append(Case("_random_pdf_dirichlet", [drawn, given], {"is_log": is_log}))
    cases.append(Case("_random_pdf_normal", [(2, 0), (2,), reals((2,), 0.5, 2)]))
    for rows in ("1", "4"):
        cases.append(no_gradients(Case("_sample_unique_zipfian", [], {"range_max": "1", "shape": f"({rows}, 1)"})))
    return cases


def hawkes() -> List[Case]:
    cases = []
    for batch, processes, lengths in ((3, 2, (4, 0, 3)), (1, 1, (4,)), (2, 3, (2, 4))):
        for dtype in ("float32", "float64"):
            inputs = [reals((batch, processes), 0.5, 2, dtype), reals((processes,), 0.1, 0.8, dtype),
                      reals((processes,), 0.5, 2, dtype), reals((batch, processes), 0, 2, dtype, seed=9),
                      reals((batch, 4), 0.1, 1, dtype), integers((batch, 4), 0, processes - 1, "int32"),
                      np.array(lengths, dtype), reals((batch,), 4, 6, dtype)]
            cases.append(Case("_contrib_hawkesll", inputs, gradients=[True] * 4 + [False] * 4))
    return cases


FAMILIES = {"densities": densities, "hawkes": hawkes}
