"""Golden cases of optimizer steps."""

from typing import List

import numpy as np

from case import Case


def step(op: str, states: int, required: dict, attrs: dict, **more) -> Case:
    """A step of a weight in (3, 4), with positive states."""
    shape = (3, 4)
    random = np.random.RandomState(5)
    dtype = more.get("dtype", "float32")
    master = more.pop("master", False)
    held = "float32" if master else dtype
    inputs = [random.uniform(-2, 2, shape).astype(dtype) for _ in range(2)]
    inputs += [random.uniform(0.5, 2, shape).astype(held) for _ in range(states)]
    return Case(op, inputs, {**required, **attrs}, gradients=[False] * len(inputs), **more)


# Operator: number of states, parameters off their defaults.
STEPS = {
    "sgd_update": (0, {"lazy_update": "False"}),
    "sgd_mom_update": (1, {"momentum": "0.9", "lazy_update": "False"}),
    "nag_mom_update": (1, {"momentum": "0.9"}),
    "signsgd_update": (0, {}),
    "signum_update": (1, {"momentum": "0.9", "wd_lh": "0.2"}),
    "adam_update": (2, {"beta1": "0.7", "beta2": "0.8", "epsilon": "0.01", "lazy_update": "False"}),
    "rmsprop_update": (1, {"gamma1": "0.7", "epsilon": "0.01", "clip_weights": "0.5"}),
    "ftrl_update": (2, {"lamda1": "0.7", "beta": "0.3"}),
    "ftml_update": (3, {"beta1": "0.7", "beta2": "0.8", "epsilon": "0.01", "t": "5"}),
    "lamb_update_phase1": (2, {"beta1": "0.7", "beta2": "0.8", "epsilon": "0.01", "t": "5",
                               "bias_correction": "False"}),
}
MASTER_STEPS = {
    "mp_sgd_update": (1, {"lazy_update": "False"}),
    "mp_sgd_mom_update": (2, {"momentum": "0.9", "lazy_update": "False"}),
    "mp_nag_mom_update": (2, {"momentum": "0.9"}),
    "mp_lamb_update_phase1": (3, {"beta1": "0.7", "t": "5", "bias_correction": "False"}),
}


def optimizer() -> List[Case]:
    cases = []
    for table, master in ((STEPS, False), (MASTER_STEPS, True)):
        for op, (states, attrs) in table.items():
            required = {"lr": "0.1"}
            if op.startswith("ftml"):
                required["t"] = "2"
            if "lamb" in op:
                required = {"wd": "0.1", "t": "2"}
            clip = "clip_grad" if op.startswith("ftml") else "clip_gradient"
            common = {"wd": "0.3", "rescale_grad": "0.5", clip: "0.4"}
            dtypes = ("float32", "float16") if master else ("float32", "float64", "float16")
            if op == "mp_lamb_update_phase1":
                dtypes = ("float16",)  # the only one that MXNet takes
            for dtype in dtypes:
                cases.append(step(op, states, required, {}, dtype=dtype, master=master))
            for name, value in {**common, **attrs}.items():
                cases.append(step(op, states, required, {name: value}, master=master,
                                  dtype="float16" if master else "float32"))
            cases.append(step(op, states, required, {**common, **attrs}, master=master,
                              dtype="float16" if master else "float64"))
    return cases + rmspropalex() + second_phase() + several() + preloaded() + adamw() + several_lamb() + lars()


def rmspropalex() -> List[Case]:
    cases = []
    random = np.random.RandomState(6)
    arrays = [random.uniform(low, high, (3, 4)) for low, high in ((-2, 2), (-2, 2), (4, 6), (-1, 1), (-1, 1))]
    for dtype, attrs in (("float32", {}), ("float64", {}), ("float16", {}), ("float32", {"gamma1": "0.7"}),
                         ("float32", {"gamma2": "0.3"}), ("float32", {"epsilon": "0.1"}), ("float32", {"wd": "0.3"}),
                         ("float32", {"rescale_grad": "0.5"}), ("float32", {"clip_gradient": "0.4"}),
                         ("float64", {"clip_weights": "0.5", "wd": "0.3", "clip_gradient": "0.4"})):
        cases.append(Case("rmspropalex_update", [value.astype(dtype) for value in arrays], {"lr": "0.1", **attrs},
                          gradients=[False] * 5))
    return cases


def second_phase() -> List[Case]:
    """Not mp_lamb_update_phase2: MXNet leaves its float32 weight as it was, so that training would not go on."""
    cases = []
    random = np.random.RandomState(7)
    for r1, r2, attrs in ((2, 0.5, {}), (0, 0.5, {}), (2, 0, {}), (0.5, 3, {"lower_bound": "1.5"}),
                          (5, 3, {"upper_bound": "1.5"})):
        norms = [np.array([r1], "float32"), np.array([r2], "float32")]
        weight, grad = (random.uniform(-2, 2, (3, 4)).astype("float32") for _ in range(2))
        cases.append(Case("lamb_update_phase2", [weight, grad] + norms, {"lr": "0.1", **attrs},
                          gradients=[False] * 4))
    return cases


def several() -> List[Case]:
    cases = []
    random = np.random.RandomState(8)
    shapes = [(2, 3), (5,)]
    for op, states, master in (("multi_sgd_update", 0, False), ("multi_sgd_mom_update", 1, False),
                               ("multi_mp_sgd_update", 1, True), ("multi_mp_sgd_mom_update", 2, True)):
        tries = [("float32", {}), ("float16", {}), ("float32", {"rescale_grad": "0.5"}),
                 ("float32", {"clip_gradient": "0.4", "rescale_grad": "2"})]
        if not master:
            tries.append(("float64", {}))
        if "mom" in op:
            tries.append(("float16" if master else "float32", {"momentum": "0.9"}))
        for dtype, attrs in tries:
            inputs = []
            for shape in shapes:
                inputs += [random.uniform(-2, 2, shape).astype(dtype) for _ in range(2)]
                inputs += [random.uniform(-2, 2, shape).astype("float32" if master else dtype)
                           for _ in range(states)]
            cases.append(Case(op, inputs, {"lrs": "(0.1, 0.2)", "wds": "(0.3, 0)", "num_weights": "2", **attrs},
                              gradients=[False] * len(inputs)))
    return cases


def arrays_of(random: np.random.RandomState, shapes: list, dtype: str, states: int, held: str) -> list:
    """Weight, gradient and positive states of each shape; a step's inputs in MXNet's order."""
    inputs = []
    for shape in shapes:
        inputs += [random.uniform(-2, 2, shape).astype(dtype) for _ in range(2)]
        inputs += [random.uniform(0.5, 2, shape).astype(held) for _ in range(states)]
    return inputs


# Three weights, so that an order of lists that happens to be right for two is seen.
SHAPES = [(2, 3), (5,), (2, 2)]


def preloaded() -> List[Case]:
    cases = []
    random = np.random.RandomState(9)
    for op, states, master in (("preloaded_multi_sgd_update", 0, False), ("preloaded_multi_sgd_mom_update", 1, False),
                               ("preloaded_multi_mp_sgd_update", 1, True),
                               ("preloaded_multi_mp_sgd_mom_update", 2, True)):
        for dtype, count, attrs in (("float32", 1, {}), ("float16" if master else "float64", 3, {}),
                                    ("float16" if master else "float32", 3,
                                     {"clip_gradient": "0.4", "rescale_grad": "2"}),
                                    ("float32", 3, {"momentum": "0.9"} if "mom" in op else {})):
            inputs = arrays_of(random, SHAPES[:count], dtype, states, "float32" if master else dtype)
            inputs += [np.array([0.1, 0.2, 0.4][:count], "float32"), np.array([0.3, 0, 0.1][:count], "float32")]
            cases.append(Case(op, inputs, {"num_weights": str(count), **attrs}, gradients=[False] * len(inputs)))
    return cases


def adamw() -> List[Case]:
    cases = []
    random = np.random.RandomState(10)
    decays = {"beta1": "0.7", "beta2": "0.8", "epsilon": "0.01"}
    for op, count, states, master in (("_adamw_update", 1, 2, False), ("_mp_adamw_update", 1, 3, True),
                                      ("_multi_adamw_update", 3, 2, False), ("_multi_mp_adamw_update", 3, 3, True)):
        required = {"lr": "0.1", "eta": "0.7", "wd": "0.3"}
        if count > 1:
            required = {"lrs": "(0.1, 0.2, 0.4)", "etas": "(0.7, 1, 0.5)", "wds": "(0.3, 0, 0.1)",
                        "num_weights": str(count)}
        # For several weights in float64 MXNet wants rescale_grad in float64 too.
        other = "float16" if master else "float64" if count == 1 else "float32"
        for dtype, rescale_grad, attrs in (("float32", 1, {}), ("float32", 0.5, decays),
                                           ("float32", 2, {"clip_gradient": "0.4"}), (other, 0.5, decays)):
            inputs = arrays_of(random, SHAPES[:count], dtype, states, "float32" if master else dtype)
            inputs.append(np.array([rescale_grad], "float32"))
            cases.append(Case(op, inputs, {**required, **attrs}, gradients=[False] * len(inputs)))
    return cases


def several_lamb() -> List[Case]:
    cases = []
    random = np.random.RandomState(11)
    for op, states, master in (("_multi_lamb_update", 2, False), ("_multi_mp_lamb_update", 3, True)):
        for dtype, attrs in (("float32", {}), ("float64" if not master else "float16", {}),
                             ("float32", {"bias_correction": "False", "beta1": "0.7", "beta2": "0.8"}),
                             ("float16" if master else "float32", {"lower_bound": "4", "rescale_grad": "0.5"}),
                             ("float32", {"upper_bound": "0.5", "clip_gradient": "0.4", "epsilon": "0.01"})):
            inputs = arrays_of(random, SHAPES, dtype, states, "float32" if master else dtype)
            cases.append(Case(op, inputs, {"learning_rates": "(0.1, 0.2, 0.4)", "wds": "(0.3, 0, 0.1)",
                                           "step_count": "(1, 5, 2)", "num_tensors": "3", **attrs},
                              gradients=[False] * len(inputs)))
    return cases


def lars() -> List[Case]:
    cases = []
    random = np.random.RandomState(12)
    for attrs in ({}, {"rescale_grad": "0.25"}):
        inputs = [random.uniform(0.5, 4, 6).astype("float32") for _ in range(4)]
        inputs[1][1] = inputs[2][2] = inputs[3][3] = 0
        cases.append(Case("multi_lars", inputs, {"eta": "0.02", "eps": "0.001", **attrs}, gradients=[False] * 4))
    return cases
