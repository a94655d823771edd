"""The golden cases of recurrent layers."""

import numpy as np

import families

GATES = {"rnn_relu": 1, "rnn_tanh": 1, "lstm": 4, "gru": 3}


def net(mode: str, layers: int, both: bool, attrs: dict, steps: int = 3, batch: int = 2, inputs: int = 4,
        units: int = 3, limit: float = 1, **more: object) -> "families.Case":
    directions = 2 if both else 1
    width = int(attrs.get("projection_size", units))
    projection = width * units if "projection_size" in attrs else 0
    count = sum(
        directions * (GATES[mode] * units * ((directions * width if layer else inputs) + width + 2) + projection)
        for layer in range(layers))
    states = layers * directions
    shapes: list = [(steps, batch, inputs), (count,), (states, batch, width)]
    if mode == "lstm":
        shapes.append((states, batch, units))
    gradients = [True] * len(shapes)
    attrs = {"mode": mode, "state_size": str(units), "num_layers": str(layers), **attrs}
    if both:
        attrs["bidirectional"] = "True"
    if attrs.get("use_sequence_length") == "True":
        # MXNet's CPU code takes the lengths without looking at them.
        shapes.append(np.full((batch,), steps, "int32"))
        gradients.append(False)
    return families.Case("RNN", shapes, attrs, low=-limit, high=limit, gradients=gradients, **more)


def rnn() -> list:
    cases = []
    states = {"state_outputs": "True"}
    for mode in GATES:
        cases.append(net(mode, 1, False, {}))
        cases.append(net(mode, 2, True, states))
        # In float64, MXNet has rnn_relu with float's digits, and wrong gradients of the parameters of the layers
        # in the middle with rnn_tanh.
        dtype = "float32" if GATES[mode] == 1 else "float64"
        cases.append(net(mode, 3, False, states, dtype=dtype))
        cases.append(net(mode, 3, True, {}, steps=4, units=2, dtype=dtype))
    cases.append(families.no_gradients(net("lstm", 2, False, {"p": "0.5"}, train=False)))
    # MXNet's CPU code runs projections forward only, and takes limits without looking at them.
    projected = {"projection_size": "2", **states}
    for layers, both in ((1, False), (3, False), (2, True)):
        cases.append(families.no_gradients(net("lstm", layers, both, projected, units=4, train=False)))
    cases.append(net("gru", 1, True, {"use_sequence_length": "True"}))
    cases.append(net("lstm", 1, False, {"use_sequence_length": "True", **states}))
    cases.append(net("gru", 1, False, {"lstm_state_clip_nan": "True"}, steps=1, batch=1, inputs=1, units=1))
    return cases
