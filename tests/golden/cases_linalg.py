"""The golden cases of products of matrices."""

from typing import List

from case import Case


def product(op: str, lhs: tuple, rhs: tuple, dtype: str = "float32", **attrs: str) -> Case:
    return Case(op, [lhs, rhs], attrs, dtype=dtype)


def dot() -> List[Case]:
    cases = [
        product("dot", (3, 4), (4, 2)),
        product("dot", (3, 4), (4, 2), "float64"),
        product("dot", (4, 3), (4, 2), transpose_a="True"),
        product("dot", (3, 4), (2, 4), transpose_b="True"),
        product("dot", (4, 3), (2, 4), transpose_a="True", transpose_b="True"),
        product("dot", (3, 4), (4, 2), forward_stype="default"),
        product("dot", (2, 3, 4), (4, 2)),
        product("dot", (2, 3, 4), (4, 2, 3)),
        product("dot", (4, 2, 3), (4, 2, 3), transpose_a="True"),
        product("dot", (4, 2, 3), (2, 3, 4), transpose_a="True", transpose_b="True"),
        product("dot", (3, 4), (2, 3, 4), transpose_b="True"),
        product("dot", (5,), (5,)),
        product("dot", (5,), (5, 3)),
        product("dot", (3, 5), (5,)),
        product("dot", (5, 3), (5,), transpose_a="True"),
        product("dot", (4,), (2, 3, 4), transpose_b="True"),
    ]
    return cases


def batches() -> List[Case]:
    cases = []
    for transpose_a in ("False", "True"):
        for transpose_b in ("False", "True"):
            lhs, rhs = (4, 3) if transpose_a == "True" else (3, 4), (2, 4) if transpose_b == "True" else (4, 2)
            attrs = {"transpose_a": transpose_a, "transpose_b": transpose_b}
            cases.append(product("batch_dot", (3,) + lhs, (3,) + rhs, **attrs))
            cases.append(product("_linalg_gemm2", lhs, rhs, **attrs))
            cases.append(product("_linalg_gemm2", (2, 3) + lhs, (2, 3) + rhs, "float64", alpha="-0.5", **attrs))
            lhs, rhs = (lhs[0], 3, lhs[1]), (rhs[0], 3, rhs[1])
            cases.append(product("_linalg_gemm2", lhs, rhs, axis="0", alpha="3", **attrs))
            cases.append(product("_linalg_gemm2", (2,) + lhs, (2,) + rhs, axis="-3", **attrs))
    cases.append(product("batch_dot", (2, 3, 2, 5), (2, 3, 5, 4), "float64"))
    cases.append(product("batch_dot", (2, 1, 5), (2, 5, 1), forward_stype="default"))
    return cases


def fully_connected() -> List[Case]:
    def layer(data: tuple, columns: int, dtype: str = "float32", bias: bool = True, **attrs: str) -> Case:
        attrs["num_hidden"] = "3"
        if not bias:
            attrs["no_bias"] = "True"
        return Case("FullyConnected", [data, (3, columns)] + [(3,)] * bias, attrs, dtype=dtype)

    return [
        layer((4, 5), 5),
        layer((4, 5), 5, "float64"),
        layer((4, 5), 5, bias=False),
        layer((2, 3, 2), 6),
        layer((2, 3, 2), 6, bias=False),
        layer((2, 3, 2), 2, flatten="False"),
        layer((2, 3, 1, 4), 4, flatten="False", bias=False),
        layer((4,), 1),
        layer((4,), 4, flatten="False"),
    ]


def linalg() -> List[Case]:
    return dot() + batches() + fully_connected()
