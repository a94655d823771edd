"""Golden cases of the outputs and losses."""

from typing import List

import numpy as np

from case import Case, integers, no_gradients, reals

FLOATS = ("float64", "float16")


def softmax_output() -> List[Case]:
    def labelled(shape: tuple, label: tuple, attrs: dict, low: int = 0, high: int = 2, dtype: str = "float32") -> Case:
        return Case("SoftmaxOutput", [reals(shape, -2, 2, dtype), integers(label, low, high, dtype)], attrs,
                    gradients=[True, False])

    cases = [labelled((4, 3), (4,), {}), labelled((1, 3), (1,), {}), labelled((2, 3, 2), (2,), {}, high=5),
             labelled((2, 3, 2), (2, 3), {}, high=1), labelled((2, 3, 2), (2, 3), {"preserve_shape": "True"}, high=1),
             labelled((4, 3), (4,), {"preserve_shape": "True"}), labelled((4, 3), (4,), {"grad_scale": "0.3"}),
             labelled((4, 3), (4,), {"use_ignore": "True", "ignore_label": "1"}),
             labelled((4, 3), (4,), {"ignore_label": "1"}), labelled((4, 3), (4,), {"use_ignore": "True"}, low=-1),
             labelled((4, 3), (4,), {"smooth_alpha": "0.2"}), labelled((4, 3), (4,), {"out_grad": "True"}),
             labelled((4, 3), (4,), {"smooth_alpha": "0.2", "use_ignore": "True", "ignore_label": "0",
                                     "normalization": "valid", "grad_scale": "2"}),
             labelled((4, 3), (4,), {"out_grad": "True", "use_ignore": "True", "ignore_label": "1"}),
             labelled((2, 3, 4), (2, 4), {"multi_output": "True", "out_grad": "True"}),
             labelled((2, 3, 4), (2, 4), {"multi_output": "True", "smooth_alpha": "0.1"}),
             labelled((2, 3, 2, 2), (2, 4), {"multi_output": "True"}),
             labelled((2, 3, 2, 2), (2, 2, 2), {"multi_output": "True"}),
             labelled((2, 3, 2, 2), (2, 1, 2, 2), {"multi_output": "True"}),
             labelled((4, 3), (4,), {}, low=-1, high=4)]
    for normalization in ("null", "batch", "valid"):
        for shape, label, attrs in (((4, 3), (4,), {}), ((2, 3, 4), (2, 4), {"multi_output": "True"}),
                                    ((2, 2, 3), (2, 2), {"preserve_shape": "True"})):
            cases.append(labelled(shape, label, dict(attrs, normalization=normalization)))
            cases.append(labelled(shape, label, dict(attrs, normalization=normalization, use_ignore="True",
                                                     ignore_label="1")))
    for attrs in ({}, {"grad_scale": "2"}, {"normalization": "batch"}, {"normalization": "valid"},
                  {"out_grad": "True"}, {"multi_output": "True"}):
        cases.append(Case("SoftmaxOutput", [reals((3, 4), -2, 2), reals((3, 4), 0, 1)], attrs, gradients=[True, False]))
    cases += [labelled((4, 3), (4,), {}, dtype=dtype) for dtype in FLOATS]
    cases += [labelled((4, 3), (4,), {"use_ignore": "True", "ignore_label": "1", "normalization": "valid"}, dtype=dtype)
              for dtype in FLOATS]
    cases.append(labelled((4, 3), (4,), {"normalization": "valid", "use_ignore": "True", "ignore_label": "7"}))
    cases.append(labelled((3, 3), (3,), {"normalization": "valid", "use_ignore": "True", "ignore_label": "1"}, 1, 1))
    return cases


def loss() -> List[Case]:
    cases = softmax_output()
    for op in ("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"):
        for shape, label in (((4, 3), (4, 3)), ((5,), (5,)), ((4, 1), (4,)), ((2, 3, 2), (2, 3, 2)),
                             ((2, 3, 2), (2, 6)),
                             ((4, 1), (4, 1))):
            cases.append(Case(op, [shape, label], gradients=[True, False]))
        cases.append(Case(op, [(4, 3), (4, 3)], {"grad_scale": "0.3"}, gradients=[True, False]))
        cases += [Case(op, [(4, 3), (4, 3)], dtype=dtype, gradients=[True, False]) for dtype in FLOATS]
        cases.append(Case(op, [integers((3, 4), 0, 2), integers((3, 4), 0, 2, seed=9)], gradients=[True, False]))
    for attrs in ({}, {"grad_scale": "0.5"}, {"normalization": "batch"}, {"normalization": "valid"},
                  {"normalization": "valid", "valid_thresh": "0.5", "grad_scale": "3"}, {"valid_thresh": "0.5"},
                  {"normalization": "valid", "valid_thresh": "9"}):
        cases.append(Case("MakeLoss", [(4, 3)], attrs))
    cases += [Case("MakeLoss", [shape], {"normalization": "batch"}) for shape in ((5,), (2, 3, 4))]
    cases += [Case("MakeLoss", [(4, 3)], {"normalization": "valid"}, dtype=dtype) for dtype in FLOATS]
    cases += [Case("make_loss", [shape]) for shape in ((4, 3), (5,), (0, 2))]
    cases += [Case("make_loss", [(4, 3)], dtype=dtype) for dtype in FLOATS]
    for attrs in ({}, {"margin": "0.3"}, {"regularization_coefficient": "0.5"}, {"use_linear": "True"},
                  {"margin": "2", "regularization_coefficient": "3", "use_linear": "True"}):
        for shape, label in (((4, 3), (4,)), ((2, 2, 3), (2, 2))):
            cases.append(Case("SVMOutput", [reals(shape, -2, 2), integers(label, 0, 2)], attrs,
                              gradients=[True, False]))
    cases += [Case("SVMOutput", [reals((4, 3), -2, 2, dtype), integers((4,), 0, 2, dtype)], gradients=[True, False])
              for dtype in FLOATS]
    for rows, classes in ((4, 3), (1, 5), (6, 1), (3, 40)):
        cases.append(Case("softmax_cross_entropy", [reals((rows, classes), -2, 2), integers((rows,), 0, classes - 1)],
                          gradients=[True, False]))
    cases.append(Case("softmax_cross_entropy", [reals((4, 3), -2, 2, "float64"), integers((4,), 0, 2, "float64")],
                      gradients=[True, False]))
    cases.append(Case("softmax_cross_entropy", [reals((4, 3), -60, 60), integers((4,), 0, 2)], gradients=[True, False]))
    cases += [Case("smooth_l1", [(3, 4)], {"scalar": scalar}) for scalar in ("1", "0.5", "3", "-2", "0.0")]
    cases += [Case("smooth_l1", [(3, 4)], {"scalar": "2"}, dtype=dtype) for dtype in FLOATS]
    cases += [Case("smooth_l1", [np.array([-1, -0.25, 0, 0.25, 1, 2], "float32")], {"scalar": "2"}),
              Case("smooth_l1", [(3, 4)]), Case("smooth_l1", [(0, 3)], {"scalar": "1"}),
              no_gradients(Case("smooth_l1", [(2, 4)], {"scalar": "1"}, low=-5, high=5, dtype="int32"))]
    return cases
