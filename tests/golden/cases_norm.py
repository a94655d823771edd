"""Golden cases of softmax and the normalizations."""

from typing import List

import numpy as np

from case import Case, integers, no_gradients, reals

FLOATS = ("float64", "float16")


def softmax() -> List[Case]:
    cases = []
    for op in ("softmax", "softmin", "log_softmax"):
        cases += [Case(op, [shape]) for shape in ((3, 4), (5,), (2, 3, 4), (1, 1), (3, 1))]
        cases += [Case(op, [(2, 3, 4)], {"axis": axis}) for axis in ("0", "1", "-2", "2")]
        cases += [Case(op, [(3, 5)], {"temperature": value}) for value in ("0.5", "3", "None", "-1.5")]
        cases += [Case(op, [(3, 5)], dtype=dtype) for dtype in FLOATS]
        cases += [Case(op, [(3, 5)], {"dtype": dtype}) for dtype in ("float64", "float32", "None")]
        cases += [Case(op, [(3, 5)], {"dtype": dtype}, dtype="float16") for dtype in ("float32", "float64")]
        cases += [Case(op, [(0, 3)]), Case(op, [(2, 0)]), Case(op, [(2, 0, 3)], {"axis": "0"})]
        masked = np.array([[1, -np.inf, 2], [0, 1, -np.inf]], "float32") * (-1 if op == "softmin" else 1)
        cases += [Case(op, [(2, 5)], low=-200, high=200), no_gradients(Case(op, [masked]))]
        cases += [no_gradients(Case(op, [(2, 3)], dtype="int32")), Case(op, [(2, 700)])]
    for axis, lengths in (("-1", (3,)), ("1", (3,)), ("0", (4,))):
        cases.append(Case("softmax", [(3, 4), integers(lengths, 1, 3, "int32")],
                          {"use_length": "True", "axis": axis}, gradients=[True, False]))
    cases.append(Case("softmax", [(2, 3, 4), integers((2, 4), 0, 3, "int32")], {"use_length": "True", "axis": "1"},
                      gradients=[True, False]))
    cases.append(Case("softmax", [(2, 3, 4), integers((2, 3), 0, 4, "int64")],
                      {"use_length": "True", "temperature": "2"}, gradients=[True, False]))
    cases.append(Case("softmax", [reals((3, 4), -2, 2, "float16"), integers((3,), 0, 4, "int32")],
                      {"use_length": "True"}, gradients=[True, False]))
    cases.append(Case("softmax", [reals((3, 4), -2, 2), integers((3,), 0, 4, "int32")],
                      {"use_length": "True", "dtype": "float64"}, gradients=[True, False]))
    for mode in ("instance", "channel"):
        cases += [Case("SoftmaxActivation", [shape], {"mode": mode}) for shape in ((3, 4), (2, 3, 4), (2, 3, 2, 2))]
        cases += [Case("SoftmaxActivation", [(3, 4)], {"mode": mode}, dtype=dtype) for dtype in FLOATS]
    cases.append(Case("SoftmaxActivation", [(3, 4)]))
    return cases


def batch_norm(op: str, shape: tuple, attrs: dict, axis: int = 1, dtype: str = "float32", train: bool = True) -> Case:
    channels = (shape[axis],)
    other = "float32" if dtype == "float16" else dtype
    return Case(op, [reals(shape, -2, 3, dtype), reals(channels, 0.5, 2, other, 11), reals(channels, -1, 1, other, 12),
                     reals(channels, -1, 1, other, 13), reals(channels, 0.5, 2, other, 14)], attrs,
                gradients=[train, train, train, False, False], train=train)


def normalizations() -> List[Case]:
    cases = []
    for op in ("BatchNorm", "BatchNorm_v1"):
        for train in (True, False):
            cases += [batch_norm(op, (4, 3), {}, train=train), batch_norm(op, (2, 3, 2, 2), {}, train=train),
                      batch_norm(op, (2, 3, 4), {"fix_gamma": "False"}, train=train),
                      batch_norm(op, (2, 3, 2, 2), {"fix_gamma": "False", "use_global_stats": "True"}, train=train),
                      batch_norm(op, (2, 3, 2, 2), {"use_global_stats": "True"}, train=train),
                      batch_norm(op, (2, 3, 2, 2), {"eps": "0.1", "fix_gamma": "False"}, train=train),
                      batch_norm(op, (2, 3, 2, 2), {"momentum": "0.5"}, train=train),
                      batch_norm(op, (2, 3, 2, 2), {"output_mean_var": "True", "fix_gamma": "False"}, train=train),
                      batch_norm(op, (2, 3, 2, 2), {"fix_gamma": "False"}, dtype="float64", train=train),
                      batch_norm(op, (1, 2, 1, 1), {"fix_gamma": "False"}, train=train)]
    for train in (True, False):
        for axis in (0, 2, -1, -2, 3):
            cases.append(batch_norm("BatchNorm", (2, 3, 2, 4), {"axis": str(axis), "fix_gamma": "False"}, axis,
                                    train=train))
        cases.append(batch_norm("BatchNorm", (2, 3, 2, 2), {"fix_gamma": "False"}, dtype="float16", train=train))
        cases.append(batch_norm("BatchNorm", (2, 3, 2, 2), {"cudnn_off": "True"}, train=train))
        cases.append(batch_norm("BatchNorm", (2, 3, 2, 2), {"output_mean_var": "True", "use_global_stats": "True"},
                                train=train))
        cases.append(batch_norm("BatchNorm", (2, 3, 2), {"min_calib_range": "-1.5", "max_calib_range": "1.5"},
                                train=train))
        cases.append(batch_norm("BatchNorm", (0, 3), {}, train=train))

    def affine(op: str, shape: tuple, length: int, attrs: dict, dtype: str = "float32") -> Case:
        return Case(op, [reals(shape, -2, 3, dtype), reals((length,), 0.5, 2, dtype, 11),
                         reals((length,), -1, 1, dtype, 12)], attrs)

    for shape, axis in (((3, 4), -1), ((2, 3, 4), 1), ((2, 3, 4), 0), ((2, 3, 4), -2), ((5,), 0), ((2, 3, 2, 4), 3),
                        ((3, 1), -1), ((0, 4), -1)):
        cases.append(affine("LayerNorm", shape, shape[axis], {"axis": str(axis)}))
    cases += [affine("LayerNorm", (3, 4), 4, attrs) for attrs in ({"eps": "0.1"}, {"output_mean_var": "True"}, {})]
    cases += [affine("LayerNorm", (2, 3, 4), 3, {"output_mean_var": "True", "axis": "1"})]
    cases += [affine("LayerNorm", (3, 4), 4, {}, dtype) for dtype in FLOATS]
    for shape, groups in (((2, 4, 3), 1), ((2, 4, 3), 2), ((2, 4, 3), 4), ((2, 6, 2, 2), 3), ((3, 4), 2)):
        cases.append(affine("GroupNorm", shape, groups, {"num_groups": str(groups)}))
        cases.append(affine("GroupNorm", shape, shape[1], {"num_groups": str(groups)}))
    cases += [affine("GroupNorm", (2, 4, 3), 2, dict(attrs, num_groups="2"))
              for attrs in ({"eps": "0.1"}, {"output_mean_var": "True"})]
    cases += [affine("GroupNorm", (2, 4, 3), 2, {"num_groups": "2"}, dtype) for dtype in FLOATS]
    cases += [affine("InstanceNorm", shape, shape[1], {})
                     for shape in ((2, 3, 4), (2, 3, 2, 2), (1, 2, 5), (2, 3, 2, 2, 1))]
    cases += [affine("InstanceNorm", (2, 3, 4), 3, {"eps": "0.1"})]
    cases += [affine("InstanceNorm", (2, 3, 4), 3, {}, dtype) for dtype in FLOATS]
    for mode in ("instance", "channel", "spatial"):
        cases += [Case("L2Normalization", [shape], {"mode": mode}) for shape in ((3, 4), (2, 3, 4), (2, 3, 2, 2))]
        cases += [Case("L2Normalization", [(2, 3, 4)], {"mode": mode}, dtype=dtype) for dtype in FLOATS]
        cases += [Case("L2Normalization", [(2, 3, 4)], {"mode": mode, "eps": "0.5"}),
                  Case("L2Normalization", [np.zeros((2, 2, 3), "float32")], {"mode": mode, "eps": "1e-5"})]
    cases.append(Case("L2Normalization", [(2, 3)]))
    for attrs in ({}, {"alpha": "0.5"}, {"beta": "2"}, {"knorm": "0.5"}, {"alpha": "0.3", "beta": "0.5", "knorm": "1"}):
        cases.append(Case("LRN", [(2, 6, 2, 3)], dict(attrs, nsize="3")))
    cases += [Case("LRN", [(1, 7, 2, 2)], {"nsize": size, "alpha": "0.1"}) for size in ("1", "5", "15")]
    cases += [Case("LRN", [(1, 4, 2, 2)], {"nsize": "3", "alpha": "0.1"}, dtype=dtype) for dtype in FLOATS]
    cases += [Case("LRN", [(2, 4, 3)], {"nsize": "3"}), Case("LRN", [(2, 4)], {"nsize": "3"}),
              Case("LRN", [(2, 4, 2, 2)], {"nsize": "2"})]
    return cases


def norm() -> List[Case]:
    return softmax() + normalizations()
