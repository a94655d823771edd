"""Golden cases of layers without windows, activations, Embedding and the steps of gradient descent."""

from typing import List

import numpy as np

from case import Case, integers, no_gradients, reals

FLOATS = ("float64", "float16")
STEPS = np.array([-100, -30, -3, -1, -0.5, -0.0, 0, 0.5, 1, 3, 30, 100], "float32")


def activations() -> List[Case]:
    cases = []
    for act_type in ("relu", "sigmoid", "softrelu", "softsign", "tanh"):
        attrs = {"act_type": act_type}
        cases += [Case("Activation", [shape], attrs) for shape in ((3, 4), (5,), (2, 3, 2), (0, 2))]
        cases += [Case("Activation", [(3, 4)], attrs, dtype=dtype) for dtype in FLOATS]
        cases.append(Case("Activation", [STEPS], attrs))
    for act_type in ("leaky", "elu", "selu", "gelu"):
        attrs = {"act_type": act_type}
        cases += [Case("LeakyReLU", [shape], attrs) for shape in ((3, 4), (5,), (2, 3, 2), (0, 2))]
        cases += [Case("LeakyReLU", [(3, 4)], attrs, dtype=dtype) for dtype in FLOATS]
        cases += [Case("LeakyReLU", [STEPS[3:-3]], attrs), Case("LeakyReLU", [(3, 4)], dict(attrs, slope="0.7"))]
    cases += [Case("LeakyReLU", [(3, 4)]), Case("LeakyReLU", [(3, 4)], {"slope": "-0.5"})]
    for data, gamma in (((3, 4), (4,)), ((3, 4), (1,)), ((2, 3, 4), (3,)), ((2, 3, 2, 2), (3,)), ((2, 3, 2, 2), (1,)),
                        ((2, 3, 4), (1, 3, 1)), ((2, 3, 4), (3, 4)), ((2, 3, 4), (2, 3, 4)), ((5,), (1,)),
                        ((2, 3, 4), (4,))):
        cases.append(Case("LeakyReLU", [reals(data, -2, 2), reals(gamma, 0.1, 1)], {"act_type": "prelu"}))
    cases += [Case("LeakyReLU", [reals((2, 3, 2), -2, 2, dtype), reals((3,), 0.1, 1, dtype)], {"act_type": "prelu"})
              for dtype in FLOATS]
    cases += [Case("LeakyReLU", [(3, 4)], dict(attrs, act_type="rrelu"), train=False, gradients=[False])
              for attrs in ({}, {"lower_bound": "0.1"}, {"upper_bound": "0.9"},
                            {"lower_bound": "0.2", "upper_bound": "0.2"})]
    cases.append(Case("LeakyReLU", [(3, 4)], {"act_type": "rrelu", "lower_bound": "0.5", "upper_bound": "0.5"}))
    for attrs in ({"a_min": "-1", "a_max": "1"}, {"a_min": "0", "a_max": "0.5"}, {"a_min": "-9", "a_max": "9"},
                  {"a_min": "1", "a_max": "-1"}, {"a_min": "0.5", "a_max": "0.5"}):
        cases.append(Case("clip", [(3, 4)], attrs))
    cases += [Case("clip", [(3, 4)], {"a_min": "-1", "a_max": "1"}, dtype=dtype) for dtype in FLOATS]
    cases += [no_gradients(Case("clip", [(3, 4)], {"a_min": "2", "a_max": "5.7"}, low=0, high=9, dtype=dtype))
              for dtype in ("int32", "int64", "uint8", "int8")]
    cases += [Case("clip", [np.array([-1, 1, 0, np.inf, -np.inf], "float32")], {"a_min": "-1", "a_max": "1"}),
              no_gradients(Case("clip", [np.array([np.nan, 1], "float32")], {"a_min": "-1", "a_max": "0"})),
              Case("clip", [(0, 2)], {"a_min": "-1", "a_max": "1"}), Case("clip", [()], {"a_min": "-1", "a_max": "1"})]
    for attrs in ({}, {"alpha": "0.5"}, {"beta": "0.2"}, {"alpha": "-1", "beta": "0.3"}):
        cases.append(Case("hard_sigmoid", [(3, 4)], attrs, low=-4, high=4))
    cases += [Case("hard_sigmoid", [(3, 4)], low=-4, high=4, dtype=dtype) for dtype in FLOATS]
    cases += [Case("hard_sigmoid", [np.array([-2.5, 2.5, -3, 3, 0], "float32")]), Case("hard_sigmoid", [(0, 2)])]
    return cases


def layers() -> List[Case]:
    cases = []
    for attrs, shapes in (({}, [(2, 3), (4, 3), (4,)]), ({"no_bias": "True"}, [(2, 3), (4, 3)]),
                          ({}, [(2, 3, 2), (4, 6), (4,)]), ({"flatten": "False"}, [(2, 3, 2), (4, 2), (4,)]),
                          ({"flatten": "False", "no_bias": "True"}, [(2, 2, 1, 3), (4, 3)]),
                          ({"flatten": "False"}, [(3,), (4, 3), (4,)]), ({}, [(1, 1), (4, 1), (4,)]),
                          ({}, [(0, 3), (4, 3), (4,)])):
        cases.append(Case("FullyConnected", shapes, dict(attrs, num_hidden="4")))
    cases += [Case("FullyConnected", [(2, 3), (4, 3), (4,)], {"num_hidden": "4"}, dtype=dtype) for dtype in FLOATS]
    for shapes, attrs in (([(1, 2, 2, 3)], {"scale": "2"}), ([(2, 1, 3, 2)], {"scale": "3"}),
                          ([(1, 1, 2, 2)], {"scale": "1"}),
                          ([(1, 2, 2, 2), (1, 1, 4, 4)], {"scale": "2"}),
                          ([(1, 2, 2, 2), (1, 2, 4, 4)], {"scale": "2", "multi_input_mode": "sum"}),
                          ([(1, 2, 4, 2), (1, 3, 2, 1), (1, 1, 8, 4)], {"scale": "2", "multi_input_mode": "concat"}),
                          ([(1, 2, 2, 3)], {"scale": "2", "workspace": "8"})):
        cases.append(Case("UpSampling", shapes, dict(attrs, sample_type="nearest", num_args=str(len(shapes)))))
    cases += [Case("UpSampling", [(1, 2, 2, 3)], {"scale": "2", "sample_type": "nearest", "num_args": "1"}, dtype=dtype)
              for dtype in FLOATS]
    for attrs in ({}, {"p": "0.2"}, {"p": "0"}, {"axes": "(0,)"}, {"mode": "training"}, {"cudnn_off": "True"}):
        cases.append(Case("Dropout", [(3, 4)], attrs, train=False, gradients=[False]))
    cases += [Case("Dropout", [(3, 4)], dtype=dtype, train=False, gradients=[False]) for dtype in FLOATS]
    cases += [Case("Dropout", [(3, 4)], {"p": "0"}), Case("Dropout", [(2, 3)], {"p": "0", "mode": "always"})]
    return cases


def embedding() -> List[Case]:
    cases = []
    for data in (integers((3,), 0, 4), integers((2, 3), 0, 4), integers((2, 1, 2), 0, 4), integers((4,), -3, 9),
                 np.array([0.9, 1.5, 3.999, -0.5], "float32"), integers((0,), 0, 4)):
        cases.append(Case("Embedding", [data, reals((5, 2), -1, 1)], {"input_dim": "5", "output_dim": "2"},
                          gradients=[False, True]))
    for dtype in ("int32", "int64", "uint8", "float64"):
        cases.append(Case("Embedding", [integers((6,), 0, 4, dtype), reals((5, 2), -1, 1)],
                          {"input_dim": "5", "output_dim": "2"}, gradients=[False, True]))
    for dtype in FLOATS:
        cases.append(Case("Embedding", [integers((6,), 0, 4), reals((5, 3), -1, 1, dtype)],
                          {"input_dim": "5", "output_dim": "3", "dtype": dtype}, gradients=[False, True]))
    cases.append(Case("Embedding", [integers((6,), 0, 4), reals((5, 3), -1, 1)],
                      {"input_dim": "5", "output_dim": "3", "sparse_grad": "False"}, gradients=[False, True]))
    cases.append(no_gradients(Case("Embedding", [integers((6,), 0, 4), integers((5, 3), 0, 9, "int32")],
                                   {"input_dim": "5", "output_dim": "3", "dtype": "int32"})))
    return cases


def descent() -> List[Case]:
    cases = []
    for attrs in ({}, {"wd": "0.1"}, {"rescale_grad": "0.5"}, {"clip_gradient": "0.3"}, {"lazy_update": "False"},
                  {"wd": "0.2", "rescale_grad": "3", "clip_gradient": "1"}, {"clip_gradient": "0"}):
        cases.append(no_gradients(Case("sgd_update", [(3, 4), (3, 4)], dict(attrs, lr="0.1"))))
        cases.append(no_gradients(Case("sgd_mom_update", [(3, 4)] * 3, dict(attrs, lr="0.1", momentum="0.9"))))
    cases.append(no_gradients(Case("sgd_mom_update", [(5,), (5,), (5,)], {"lr": "0.1"})))
    for dtype in FLOATS:
        cases.append(no_gradients(Case("sgd_update", [(3, 4)] * 2, {"lr": "0.1", "wd": "0.1"}, dtype=dtype)))
        cases.append(no_gradients(Case("sgd_mom_update", [(3, 4)] * 3, {"lr": "0.1", "momentum": "0.5"}, dtype=dtype)))
    return cases


def nn() -> List[Case]:
    return activations() + layers() + embedding() + descent()
