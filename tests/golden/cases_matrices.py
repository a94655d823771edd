"""The golden cases of factorizations of matrices and of the products of attention."""

from typing import List

import numpy as np

from case import Case, no_gradients


def product(op: str, *shapes: tuple, dtype: str = "float32", **attrs: str) -> Case:
    return Case(op, list(shapes), attrs, dtype=dtype)


def symmetric(n: int, batch: tuple = (), dtype: str = "float64", seed: int = 3) -> np.ndarray:
    """Positive definite matrices with eigenvalues that lie apart."""
    random = np.random.RandomState(seed)
    count = int(np.prod(batch))
    vectors = np.stack([np.linalg.qr(random.normal(size=(n, n)))[0] for _ in range(count)]).reshape(batch + (n, n))
    values = np.arange(1, n + 1) + random.uniform(0, 0.5, batch + (n,))
    return np.einsum("...ij,...j,...kj->...ik", vectors, values, vectors).astype(dtype)


def general(n: int, batch: tuple = (), dtype: str = "float64", seed: int = 4) -> np.ndarray:
    """Matrices that are far from singular, and whose triangles are too."""
    random = np.random.RandomState(seed)
    return (random.uniform(-1, 1, batch + (n, n)) + 3 * np.eye(n)).astype(dtype)


def gemm() -> List[Case]:
    return [
        product("_linalg_gemm", (3, 4), (4, 2), (3, 2)),
        product("_linalg_gemm", (2, 3, 4), (2, 4, 2), (2, 3, 2), dtype="float64", alpha="-0.5", beta="2"),
        product("_linalg_gemm", (4, 3), (2, 4), (3, 2), transpose_a="True", transpose_b="True", beta="0"),
        product("_linalg_gemm", (3, 2, 4), (4, 2, 5), (3, 2, 5), axis="0", alpha="3"),
        product("_linalg_syrk", (3, 4)),
        product("_linalg_syrk", (2, 3, 4), dtype="float64", alpha="-2"),
        product("_linalg_syrk", (3, 4), transpose="True", alpha="0.5"),
    ]


def triangular() -> List[Case]:
    cases = []
    for lower in ("True", "False"):
        for dtype in ("float64", "float32"):
            cases.append(Case("_linalg_potrf", [symmetric(4, dtype=dtype)], {"lower": lower}))
            cases.append(Case("_linalg_potri", [general(4, dtype=dtype)], {"lower": lower}))
        cases.append(Case("_linalg_potrf", [symmetric(3, (2, 1))], {"lower": lower}))
        cases.append(Case("_linalg_potri", [general(3, (2, 1))], {"lower": lower}))
        for transpose in ("True", "False"):
            for op in ("_linalg_trmm", "_linalg_trsm"):
                attrs = {"lower": lower, "transpose": transpose, "alpha": "-1.5"}
                cases.append(Case(op, [general(3), (3, 2)], attrs, dtype="float64"))
                attrs = {"rightside": "True", **attrs}
                cases.append(Case(op, [general(3, (2,), "float32"), (2, 4, 3)], attrs))
    return cases


def factors() -> List[Case]:
    cases = gemm() + triangular()
    for dtype in ("float64", "float32"):
        for op in ("_linalg_inverse", "_linalg_det", "_linalg_slogdet", "_linalg_sumlogdiag"):
            positive = np.abs(general(3, (2,), dtype))
            cases.append(Case(op, [positive]))
            cases.append(Case(op, [positive[0]]))
        cases.append(Case("_linalg_syevd", [symmetric(4, dtype=dtype)]))
        cases.append(Case("_linalg_syevd", [symmetric(3, (2, 1), dtype=dtype)]))
        for shape in ((1, 1), (1, 3), (3, 3), (2, 3, 5)):
            cases.append(product("_linalg_gelqf", shape, dtype=dtype))
    cases.append(Case("_linalg_det", [np.ones((3, 3))]))
    cases.append(no_gradients(Case("_linalg_slogdet", [np.zeros((2, 2))])))
    for offset in ("0", "1", "-2"):
        cases.append(product("_linalg_extractdiag", (2, 4, 4), offset=offset))
        cases.append(product("_linalg_makediag", (2, 3), offset=offset))
        for lower in ("True", "False"):
            cases.append(product("_linalg_extracttrian", (4, 4), dtype="float64", offset=offset, lower=lower))
            cases.append(product("_linalg_maketrian", (2, 6), offset=offset, lower=lower))
    return cases


def attention() -> List[Case]:
    def interleaved(name: str, *shapes: tuple, heads: str) -> Case:
        return product(f"_contrib_interleaved_matmul_{name}", *shapes, heads=heads)

    cases = [
        interleaved("selfatt_qk", (4, 3, 30), heads="2"),
        interleaved("selfatt_valatt", (4, 3, 30), (6, 4, 4), heads="2"),
        interleaved("encdec_qk", (4, 3, 10), (5, 3, 20), heads="2"),
        interleaved("encdec_valatt", (5, 3, 20), (6, 4, 5), heads="2"),
        interleaved("selfatt_qk", (5, 1, 6), heads="1"),
        interleaved("selfatt_valatt", (5, 1, 6), (1, 5, 5), heads="1"),
        interleaved("encdec_qk", (2, 1, 3), (5, 1, 6), heads="3"),
        interleaved("encdec_valatt", (5, 1, 6), (3, 2, 5), heads="3"),
    ]
    for dtype in ("float32", "float64", "float16"):
        cases.append(product("_contrib_div_sqrt_dim", (2, 3, 5), dtype=dtype))
        cases.append(product("_contrib_quadratic", (2, 3), dtype=dtype, a="0.5", b="-2", c="3"))
    cases.append(product("_contrib_div_sqrt_dim", (7,)))
    cases.append(product("_contrib_quadratic", (5,)))
    cases.append(no_gradients(Case("_contrib_quadratic", [(9,)], {"a": "1", "c": "-2"}, dtype="int32", low=-4, high=4)))
    return cases


FAMILIES = {"attention": attention, "factors": factors}
