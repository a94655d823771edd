"""Draws cases of operators for `compare`: shapes from single elements to several tasks of threads, parameters
over their ranges, element types. DRAWS has a function of a random generator for each operator."""

from typing import Callable, Dict, List, Sequence

import numpy as np

import families
from case import Case, Shape, no_gradients

# Around packets, unrolled loops, tiles and blocks of rows.
EXTENTS = (1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 127, 128, 129, 255, 256, 257, 300,
           511, 512, 513, 1000, 1023, 1025, 2049, 4097, 10007, 65537, 200003)
FLOATS = ("float32", "float32", "float32", "float64", "float16")
TYPES = FLOATS + ("int32", "int64", "uint8", "int8")


class Draw:
    """A random generator with the choices that cases are made of."""

    def __init__(self, seed: int):
        self.random = np.random.RandomState(seed)

    def pick(self, values: Sequence) -> object:
        return values[self.random.randint(len(values))]

    def chance(self, probability: float) -> bool:
        return self.random.uniform() < probability

    def integer(self, low: int, high: int) -> int:
        return int(self.random.randint(low, high + 1))

    def real(self, low: float, high: float) -> float:
        return float(np.round(self.random.uniform(low, high), 3))

    def seed(self) -> int:
        return self.integer(0, 2**31 - 2)

    def most(self) -> int:
        """A bound of the number of elements: mostly small, sometimes enough for several threads."""
        return int(self.random.choice([60, 5000, 100000, 400000], p=[0.4, 0.35, 0.2, 0.05]))

    def shape(self, low: int = 1, high: int = 5, most: int = 0) -> Shape:
        """A shape of a rank from low to high with at most `most` elements."""
        most = most or self.most()
        rank = self.integer(low, high)
        extents = [1] * rank
        size = 1
        for d in self.random.permutation(rank):
            fitting = [extent for extent in EXTENTS if extent * size <= most]
            extents[d] = int(self.pick(fitting))
            size *= extents[d]
        return tuple(extents)

    def axis(self, rank: int, negative: bool = True) -> int:
        return self.integer(-rank if negative else 0, rank - 1)

    def axes(self, rank: int, negative: bool = True) -> tuple:
        """A subset of the axes in some order, maybe empty."""
        chosen = self.random.permutation(rank)[:self.integer(0, rank)]
        return tuple(int(axis) - rank if negative and self.chance(0.3) else int(axis) for axis in chosen)

    def array(self, shape: Shape, low: float, high: float, dtype: str = "float32") -> np.ndarray:
        if np.issubdtype(np.dtype(dtype), np.integer):
            return self.random.randint(int(low), int(high) + 1, shape).astype(dtype)
        return np.asarray(self.random.uniform(low, high, shape)).astype(dtype)

    def integers(self, shape: Shape, low: int, high: int, dtype: str = "float32") -> np.ndarray:
        return self.random.randint(low, high + 1, shape).astype(dtype)


Drawer = Callable[[Draw], Case]
DRAWS: Dict[str, Drawer] = {}


def text(attrs: dict) -> Dict[str, str]:
    """Attributes as MXNet writes them."""
    return {name: str(value) for name, value in attrs.items() if value is not ...}


def made(draw: Draw, op: str, inputs: list, attrs: dict, dtype: str, low: float = -2, high: float = 2,
         gradients: Sequence[bool] = (), train: bool = True) -> Case:
    if np.issubdtype(np.dtype(dtype), np.integer):
        low, high = max(low, 0) if dtype == "uint8" else low, max(high, 4)
    case = Case(op, inputs, text(attrs), low, high, dtype, list(gradients) or None, train, draw.seed())
    return case if dtype.startswith("float") else no_gradients(case)


def unary(op: str) -> Drawer:
    low, high = families.UNARY[op]
    return lambda draw: made(draw, op, [draw.shape()], {}, draw.pick(FLOATS), low, high)


def binary(op: str) -> Drawer:
    def drawer(draw: Draw) -> Case:
        dtype = draw.pick(TYPES)
        shape = draw.shape()
        return made(draw, op, [shape, draw.array(shape, 1, 3, dtype)], {}, dtype, 0.5, 5)
    return drawer


def broadcast(op: str) -> Drawer:
    def drawer(draw: Draw) -> Case:
        out = draw.shape()
        lhs = tuple(1 if draw.chance(0.3) else extent for extent in out)
        rhs = tuple(1 if draw.chance(0.3) else extent for extent in out)
        dtype = draw.pick(TYPES)
        return made(draw, op, [lhs, draw.array(rhs, 1, 3, dtype)], {}, dtype, 0.5, 5)
    return drawer


def scalar(op: str) -> Drawer:
    return lambda draw: made(draw, op, [draw.shape()], {"scalar": draw.pick((2, 1.5, 3, 0.25))}, draw.pick(TYPES), 1, 5)


def logic(op: str, kind: str) -> Drawer:
    def drawer(draw: Draw) -> Case:
        dtype = draw.pick(TYPES)
        out = draw.shape()
        if kind == "scalar":
            return no_gradients(Case(op, [draw.integers(out, 0, 2, dtype)], {"scalar": str(draw.integer(0, 2))}))
        shapes = [tuple(1 if kind == "broadcast" and draw.chance(0.3) else extent for extent in out) for _ in range(2)]
        return no_gradients(Case(op, [draw.integers(shape, 0, 2, dtype) for shape in shapes]))
    return drawer


def reduction(op: str) -> Drawer:
    def drawer(draw: Draw) -> Case:
        shape = draw.shape()
        attrs = {"keepdims": draw.pick((True, False, ...)), "exclude": draw.pick((True, False, ..., ...))}
        if draw.chance(0.8):
            attrs["axis"] = draw.axes(len(shape)) if draw.chance(0.6) else draw.axis(len(shape))
        low, high = (0.9, 1.1) if op.endswith("prod") else (-2, 2)
        return made(draw, op, [shape], attrs, draw.pick(FLOATS + ("int32",)), low, high)
    return drawer


for _op in families.UNARY:
    DRAWS[_op] = unary(_op)
for _name in families.BINARY:
    _elementwise = f"elemwise_{_name}" if _name in families.BINARY[:4] else f"_{_name}"
    DRAWS[_elementwise] = binary(_elementwise)
    DRAWS[f"broadcast_{_name}"] = broadcast(f"broadcast_{_name}")
for _name in ("plus", "minus", "rminus", "mul", "div", "rdiv", "mod", "rmod", "power", "rpower", "hypot", "maximum",
              "minimum"):
    DRAWS[f"_{_name}_scalar"] = scalar(f"_{_name}_scalar")
for _name in families.LOGIC:
    DRAWS[f"_{_name}"] = logic(f"_{_name}", "elementwise")
    DRAWS[f"_{_name}_scalar"] = logic(f"_{_name}_scalar", "scalar")
    DRAWS[f"broadcast_{_name}"] = logic(f"broadcast_{_name}", "broadcast")
for _op in ("sum", "mean", "prod", "nansum", "nanprod", "max", "min"):
    DRAWS[_op] = reduction(_op)


def drawn(function: Drawer) -> Drawer:
    """Registers the function under its name, without leading "draw_"."""
    DRAWS[function.__name__[len("draw_"):]] = function
    return function


@drawn
def draw_add_n(draw: Draw) -> Case:
    count = draw.integer(1, 7)
    return made(draw, "add_n", [draw.shape()] * count, {"num_args": count}, draw.pick(FLOATS))


# Shape.


@drawn
def draw_Reshape(draw: Draw) -> Case:
    """Codes are made while walking over the extents: each takes some of them. No -1 stands behind a -4, where MXNet
    infers the extent after the one meant."""
    shape = draw.shape(1, 6)
    reverse = draw.chance(0.4)
    extents = list(shape[::-1] if reverse else shape)
    codes, inferred, at = [], False, 0
    while at < len(extents):
        kind = draw.pick(("copy", "copy", "given", "join", "split", "rest", "ones", "infer"))
        if kind == "join" and at + 2 <= len(extents):
            codes.append([-3])
            at += 2
        elif kind == "split":
            divisors = [k for k in (1, 2, 3, 4, 5, 7, 8, 16) if extents[at] % k == 0]
            first = draw.pick(divisors)
            pair = [first, extents[at] // first]
            if draw.chance(0.5):
                pair[draw.integer(0, 1)] = -1
            codes.append([-4] + pair)
            inferred, at = True, at + 1
        elif kind == "rest" and at > 0:
            codes.append([-2])
            at = len(extents)
        elif kind == "ones" and draw.chance(0.3) and not inferred and at == len(extents) - 1:
            codes.append([1])
            codes.append([-1])
            inferred, at = True, len(extents)
        elif kind == "infer" and not inferred:
            codes.append([-1])
            inferred, at = True, at + 1
        elif kind == "given":
            codes.append([extents[at]])
            at += 1
        else:
            codes.append([0])
            at += 1
    flat = [code for group in codes for code in group]
    return made(draw, "Reshape", [shape], {"shape": tuple(flat[::-1] if reverse else flat), "reverse": reverse},
                draw.pick(TYPES))


@drawn
def draw_Flatten(draw: Draw) -> Case:
    return made(draw, "Flatten", [draw.shape(1, 6)], {}, draw.pick(TYPES))


@drawn
def draw_expand_dims(draw: Draw) -> Case:
    shape = draw.shape()
    return made(draw, "expand_dims", [shape], {"axis": draw.axis(len(shape) + 1)}, draw.pick(TYPES))


@drawn
def draw_squeeze(draw: Draw) -> Case:
    shape = tuple(1 if draw.chance(0.5) else extent for extent in draw.shape())
    ones = [d - (len(shape) if draw.chance(0.3) else 0) for d, extent in enumerate(shape) if extent == 1]
    axis = ... if not ones or draw.chance(0.4) else tuple(ones[:draw.integer(1, len(ones))])
    return made(draw, "squeeze", [shape], {"axis": axis}, draw.pick(TYPES))


@drawn
def draw_reshape_like(draw: Draw) -> Case:
    shape = draw.shape(2, 5)
    joined = draw.integer(0, len(shape) - 2)
    like = shape[:joined] + (shape[joined] * shape[joined + 1],) + shape[joined + 2:]
    attrs = {}
    if draw.chance(0.5):
        attrs = {"lhs_begin": joined, "lhs_end": joined + 2, "rhs_begin": joined, "rhs_end": joined + 1}
    return made(draw, "reshape_like", [shape, like], attrs, draw.pick(FLOATS + ("int32",)))


@drawn
def draw_transpose(draw: Draw) -> Case:
    shape = draw.shape(1, 6)
    axes = ... if draw.chance(0.2) else tuple(int(axis) for axis in draw.random.permutation(len(shape)))
    return made(draw, "transpose", [shape], {"axes": axes}, draw.pick(TYPES))


@drawn
def draw_SwapAxis(draw: Draw) -> Case:
    shape = draw.shape()
    return made(draw, "SwapAxis", [shape], {"dim1": draw.axis(len(shape)), "dim2": draw.axis(len(shape))},
                draw.pick(TYPES))


def depth(op: str) -> Drawer:
    def drawer(draw: Draw) -> Case:
        b = draw.integer(1, 4)
        n, c, h, w = draw.shape(4, 4, max(60, draw.most() // (b * b)))
        shape = (n, c * b * b, h, w) if op == "depth_to_space" else (n, c, h * b, w * b)
        return made(draw, op, [shape], {"block_size": b}, draw.pick(TYPES))
    return drawer


DRAWS["depth_to_space"] = depth("depth_to_space")
DRAWS["space_to_depth"] = depth("space_to_depth")


def slice_of(draw: Draw, shape: Shape) -> tuple:
    """Attributes of a slice, and the shape of the part, which is not empty."""
    begin, end, step, part = [], [], [], []
    for extent in shape[:draw.integer(1, len(shape))]:
        while True:
            bounds = [None if draw.chance(0.2) else draw.integer(-extent, extent) for _ in range(2)]
            stride = draw.pick((None, 1, 1, 2, 3, 7, -1, -1, -2, -5))
            count = len(range(extent)[slice(bounds[0], bounds[1], stride)])
            if count > 0:
                break
        begin.append(bounds[0])
        end.append(bounds[1])
        step.append(stride)
        part.append(count)
    attrs = {"begin": tuple(begin), "end": tuple(end)}
    if any(stride not in (None, 1) for stride in step) or draw.chance(0.3):
        attrs["step"] = tuple(step)
    else:
        step = [1] * len(step)
        part = [len(range(extent)[slice(b, e)]) for extent, b, e in zip(shape, begin, end)]
    return attrs, tuple(part) + shape[len(part):]


@drawn
def draw_slice(draw: Draw) -> Case:
    shape = draw.shape()
    return made(draw, "slice", [shape], slice_of(draw, shape)[0], draw.pick(TYPES))


@drawn
def draw__slice_assign(draw: Draw) -> Case:
    shape = draw.shape()
    attrs, part = slice_of(draw, shape)
    return no_gradients(made(draw, "_slice_assign", [shape, part], attrs, draw.pick(TYPES)))


@drawn
def draw__slice_assign_scalar(draw: Draw) -> Case:
    shape = draw.shape()
    attrs = dict(slice_of(draw, shape)[0], scalar=draw.pick((0, 1.5, 3)))
    return no_gradients(made(draw, "_slice_assign_scalar", [shape], attrs, draw.pick(TYPES)))


@drawn
def draw_slice_axis(draw: Draw) -> Case:
    shape = draw.shape()
    axis = draw.axis(len(shape))
    extent = shape[axis]
    begin = draw.integer(0, extent - 1)
    end = draw.integer(begin + 1, extent)
    attrs = {"axis": axis, "begin": begin - extent if draw.chance(0.3) else begin,
             "end": None if draw.chance(0.2) else end - extent if end < extent and draw.chance(0.3) else end}
    return made(draw, "slice_axis", [shape], attrs, draw.pick(TYPES))


@drawn
def draw_slice_like(draw: Draw) -> Case:
    shape = draw.shape()
    like = tuple(draw.integer(1, extent) for extent in shape)
    axes = draw.axes(len(shape))
    return made(draw, "slice_like", [shape, like], {"axes": axes} if axes else {}, draw.pick(FLOATS + ("int32",)))


@drawn
def draw_Crop(draw: Draw) -> Case:
    shape = draw.shape(4, 4)
    size = tuple(draw.integer(1, extent) for extent in shape[2:])
    offset = tuple(draw.integer(0, extent - part) for extent, part in zip(shape[2:], size))
    attrs = {"offset": offset} if draw.chance(0.6) else {"center_crop": True}
    if draw.chance(0.5):
        return made(draw, "Crop", [shape], dict(attrs, num_args=1, h_w=size), "float32")
    return made(draw, "Crop", [shape, (1, 2) + size], dict(attrs, num_args=2), "float32")


@drawn
def draw_reverse(draw: Draw) -> Case:
    shape = draw.shape()
    axes = draw.axes(len(shape), negative=False) or (0,)
    return made(draw, "reverse", [shape], {"axis": axes}, draw.pick(TYPES))


@drawn
def draw_Concat(draw: Draw) -> Case:
    count = draw.integer(1, 6)
    shape = draw.shape(1, 5, max(10, draw.most() // count))
    axis = draw.axis(len(shape))
    parts = []
    for _ in range(count):
        part = list(shape)
        part[axis] = draw.integer(1, max(1, shape[axis]))
        parts.append(tuple(part))
    return made(draw, "Concat", parts, {"num_args": count, "dim": axis}, draw.pick(TYPES))


@drawn
def draw__rnn_param_concat(draw: Draw) -> Case:
    count = draw.integer(1, 8)
    return made(draw, "_rnn_param_concat", [draw.shape(1, 1, 2000) for _ in range(count)],
                {"num_args": count, "dim": 0},
                draw.pick(FLOATS))


@drawn
def draw_stack(draw: Draw) -> Case:
    count = draw.integer(1, 6)
    shape = draw.shape(1, 5, max(10, draw.most() // count))
    return made(draw, "stack", [shape] * count, {"num_args": count, "axis": draw.axis(len(shape) + 1)},
                draw.pick(TYPES))


@drawn
def draw_SliceChannel(draw: Draw) -> Case:
    count = draw.integer(1, 6)
    shape = list(draw.shape(2, 5, max(10, draw.most() // count)))
    axis = draw.axis(len(shape))
    squeeze = draw.chance(0.3)
    shape[axis] = count if squeeze else shape[axis] * count
    return made(draw, "SliceChannel", [tuple(shape)], {"num_outputs": count, "axis": axis, "squeeze_axis": squeeze},
                draw.pick(TYPES))


@drawn
def draw__split_v2(draw: Draw) -> Case:
    shape = draw.shape(2, 5)
    axis = draw.axis(len(shape))
    extent = shape[axis]
    if draw.chance(0.5):
        attrs = {"indices": "()", "sections": draw.integer(1, min(extent, 7))}
    else:
        cuts = draw.random.permutation(max(extent - 1, 0))[:draw.integer(0, 5)] + 1
        attrs = {"indices": (0,) + tuple(sorted(int(cut) for cut in cuts))}
    return made(draw, "_split_v2", [shape], dict(attrs, axis=axis), draw.pick(TYPES))


@drawn
def draw_broadcast_to(draw: Draw) -> Case:
    out = draw.shape()
    data = tuple(1 if draw.chance(0.4) else extent for extent in out)
    target = tuple(0 if a == b and draw.chance(0.4) else b for a, b in zip(data, out))
    return made(draw, "broadcast_to", [data], {"shape": target}, draw.pick(TYPES))


@drawn
def draw_broadcast_axis(draw: Draw) -> Case:
    out = draw.shape()
    axes = draw.axes(len(out), negative=False)
    data = tuple(1 if d in axes else extent for d, extent in enumerate(out))
    return made(draw, "broadcast_axis", [data], {"axis": axes, "size": tuple(out[d] for d in axes)}, draw.pick(TYPES))


@drawn
def draw_broadcast_like(draw: Draw) -> Case:
    out = draw.shape()
    data = tuple(1 if draw.chance(0.4) else extent for extent in out)
    return made(draw, "broadcast_like", [data, out], {}, draw.pick(FLOATS + ("int32",)))


@drawn
def draw_tile(draw: Draw) -> Case:
    # MXNet gives zeros, or ends, where reps are several more than the dimensions.
    reps = tuple(draw.integer(1, 4) for _ in range(draw.integer(1, 3)))
    return made(draw, "tile", [draw.shape(max(1, len(reps) - 1), 5, max(10, draw.most() // int(np.prod(reps))))],
                {"reps": reps}, draw.pick(TYPES))


@drawn
def draw_repeat(draw: Draw) -> Case:
    repeats = draw.integer(1, 7)
    shape = draw.shape(1, 5, max(10, draw.most() // repeats))
    return made(draw, "repeat", [shape],
                {"repeats": repeats, "axis": ... if draw.chance(0.3) else draw.axis(len(shape))},
                draw.pick(TYPES))


@drawn
def draw_Pad(draw: Draw) -> Case:
    shape = draw.shape(4, 5)
    mode = draw.pick(("constant", "edge", "reflect"))
    width = [0, 0, 0, 0]
    for extent in shape[2:]:
        most = min(9, extent - 1 if mode == "reflect" else 9)
        width += [draw.integer(0, most), draw.integer(0, most)]
    return made(draw, "Pad", [shape],
                {"mode": mode, "pad_width": tuple(width), "constant_value": draw.pick((..., 1.5))},
                draw.pick(FLOATS))


@drawn
def draw_diag(draw: Draw) -> Case:
    shape = draw.shape(1, 5, min(draw.most(), 5000))
    if len(shape) == 1:
        return made(draw, "diag", [(min(shape[0], 300),)], {"k": draw.integer(-3, 3)}, draw.pick(TYPES))
    axis1, axis2 = (int(axis) for axis in draw.random.permutation(len(shape))[:2])
    k = draw.integer(1 - shape[axis1], shape[axis2] - 1)
    return made(draw, "diag", [shape], {"k": k, "axis1": axis1, "axis2": axis2}, draw.pick(TYPES))


@drawn
def draw_Cast(draw: Draw) -> Case:
    return made(draw, "Cast", [draw.shape()], {"dtype": draw.pick(TYPES)}, draw.pick(TYPES), 0, 100)


@drawn
def draw__arange(draw: Draw) -> Case:
    step = draw.pick((1, 2, 0.5, -1, 0.3, -2.5))
    start = draw.integer(-9, 9)
    count = draw.pick((1, 5, 17, 513, 40000))
    attrs = {"start": start, "stop": start + step * count - step / 2, "step": step, "repeat": draw.integer(1, 3),
             "dtype": draw.pick(("float32", "float64", "int32", "int64"))}
    return Case("_arange", [], text(attrs))


@drawn
def draw__linspace(draw: Draw) -> Case:
    return Case("_linspace", [], text({"start": draw.real(-9, 9), "stop": draw.real(-9, 9), "num": draw.integer(1, 600),
                                       "endpoint": draw.chance(0.7), "dtype": draw.pick(("float32", "float64"))}))


@drawn
def draw__eye(draw: Draw) -> Case:
    return Case("_eye", [], text({"N": draw.integer(1, 70), "M": draw.integer(0, 70), "k": draw.integer(-9, 9),
                                  "dtype": draw.pick(TYPES)}))


def constant(op: str) -> Drawer:
    value = {"value": "1.5"} if op == "_full" else {}
    return lambda draw: Case(op, [], text(dict(value, shape=draw.shape(), dtype=draw.pick(TYPES))))


def plain(op: str, types: Sequence[str] = TYPES, gradients: bool = True) -> Drawer:
    def drawer(draw: Draw) -> Case:
        case = made(draw, op, [draw.shape()], {}, draw.pick(types))
        return case if gradients else no_gradients(case)
    return drawer


for _op in ("_zeros", "_ones", "_full"):
    DRAWS[_op] = constant(_op)
for _op in ("zeros_like", "ones_like", "BlockGrad", "_copy"):
    DRAWS[_op] = plain(_op)
for _op in ("shape_array", "size_array"):
    DRAWS[_op] = plain(_op, gradients=False)


@drawn
def draw__contrib_arange_like(draw: Draw) -> Case:
    shape = draw.shape()
    attrs = {"axis": ... if draw.chance(0.3) else draw.axis(len(shape)), "start": draw.pick((..., 2, -1.5)),
             "step": draw.pick((..., 0.5, -2)), "repeat": 1}
    return made(draw, "_contrib_arange_like", [shape], attrs, draw.pick(("float32", "float64")))


# Normalization.


def softmax_of(op: str) -> Drawer:
    def drawer(draw: Draw) -> Case:
        shape = draw.shape()
        axis = draw.axis(len(shape))
        attrs = {"axis": axis, "temperature": draw.pick((..., ..., 0.5, 2, 7.5)),
                 "dtype": draw.pick((..., ..., ..., "float64"))}
        dtype = draw.pick(FLOATS)
        if op == "softmax" and len(shape) > 1 and draw.chance(0.3):
            others = shape[:axis % len(shape)] + shape[axis % len(shape) + 1:]
            length = draw.integers(others, 0, shape[axis], draw.pick(("int32", "int64")))
            return made(draw, op, [shape, length], dict(attrs, use_length=True), dtype, gradients=[True, False])
        return made(draw, op, [shape], attrs, dtype, -5, 5)
    return drawer


for _op in ("softmax", "softmin", "log_softmax"):
    DRAWS[_op] = softmax_of(_op)


@drawn
def draw_SoftmaxActivation(draw: Draw) -> Case:
    mode = draw.pick(("instance", "channel"))
    return made(draw, "SoftmaxActivation", [draw.shape(3 if mode == "channel" else 2, 4)], {"mode": mode}, "float32")


def batch_norm_of(op: str) -> Drawer:
    def drawer(draw: Draw) -> Case:
        v1 = op == "BatchNorm_v1"
        shape = draw.shape(*((2, 4) if v1 else (2, 5)))
        if v1 and len(shape) == 3:
            shape += (2,)
        axis = 1 if v1 or draw.chance(0.6) else draw.axis(len(shape))
        dtype = "float32" if v1 else draw.pick(FLOATS)
        other = "float32" if dtype == "float16" else dtype
        channels = (shape[axis],)
        attrs = {"fix_gamma": draw.pick((..., False, False)), "use_global_stats": draw.pick((..., True)),
                 "eps": draw.pick((..., 0.1, 1e-4)), "momentum": draw.pick((..., 0.5)),
                 "output_mean_var": draw.pick((..., ..., True)), "axis": axis if axis != 1 else ...}
        inputs = [draw.array(shape, -2, 3, dtype), draw.array(channels, 0.5, 2, other),
                  draw.array(channels, -1, 1, other),
                  draw.array(channels, -1, 1, other), draw.array(channels, 0.5, 2, other)]
        train = draw.chance(0.6)
        return Case(op, inputs, text(attrs), gradients=[train] * 3 + [False] * 2, train=train)
    return drawer


DRAWS["BatchNorm"] = batch_norm_of("BatchNorm")
DRAWS["BatchNorm_v1"] = batch_norm_of("BatchNorm_v1")

for _op in ("_contrib_round_ste", "_contrib_sign_ste"):
    DRAWS[_op] = lambda draw, op=_op: made(draw, op, [draw.shape()], {}, draw.pick(TYPES), -9, 9)
for _op in ("_contrib_gradientmultiplier", "_scatter_plus_scalar", "_scatter_minus_scalar"):
    DRAWS[_op] = scalar(_op)


@drawn
def draw_khatri_rao(draw: Draw) -> Case:
    count, columns, most = draw.integer(1, 4), draw.pick((1, 2, 5, 17, 130)), draw.most()
    rows = [draw.integer(1, max(1, int((most / columns) ** (1 / count)))) for _ in range(count)]
    return no_gradients(Case("khatri_rao", [(k, columns) for k in rows], {"num_args": str(count)},
                             dtype=draw.pick(("float32", "float64")), seed=draw.seed()))


@drawn
def draw_IdentityAttachKLSparseReg(draw: Draw) -> Case:
    shape = draw.shape(2, 2)
    attrs = {"sparseness_target": draw.pick((..., 0.3)), "penalty": draw.pick((..., 0.5)),
             "momentum": draw.pick((..., 0.25))}
    return Case("IdentityAttachKLSparseReg",
                [draw.array(shape, 0.1, 0.9), draw.array((shape[1],), 0.2, 0.8)], text(attrs), gradients=[True, False])


def affine(draw: Draw, op: str, shape: Shape, length: int, attrs: dict, dtype: str) -> Case:
    return Case(op, [draw.array(shape, -2, 3, dtype), draw.array((length,), 0.5, 2, dtype),
                     draw.array((length,), -1, 1, dtype)], text(attrs))


@drawn
def draw_LayerNorm(draw: Draw) -> Case:
    shape = draw.shape()
    axis = -1 if draw.chance(0.6) else draw.axis(len(shape))
    attrs = {"axis": axis, "eps": draw.pick((..., 0.01)), "output_mean_var": draw.pick((..., ..., True))}
    return affine(draw, "LayerNorm", shape, shape[axis], attrs, draw.pick(FLOATS))


@drawn
def draw_GroupNorm(draw: Draw) -> Case:
    shape = draw.shape(3, 5)
    groups = draw.pick([k for k in (1, 2, 3, 4, 8, 16) if shape[1] % k == 0])
    attrs = {"num_groups": groups, "eps": draw.pick((..., 0.01)), "output_mean_var": draw.pick((..., ..., True))}
    return affine(draw, "GroupNorm", shape, groups, attrs, draw.pick(FLOATS))


@drawn
def draw_InstanceNorm(draw: Draw) -> Case:
    shape = draw.shape(3, 5)
    return affine(draw, "InstanceNorm", shape, shape[1], {"eps": draw.pick((..., 0.01))}, "float32")


@drawn
def draw_L2Normalization(draw: Draw) -> Case:
    mode = draw.pick(("instance", "channel", "spatial"))
    # Short vectors are left out: gradients of those with one element are only rounding errors.
    return made(draw, "L2Normalization", [draw.shape(2 if mode == "instance" else 3, 4)],
                {"mode": mode, "eps": draw.pick((..., 0.1))}, draw.pick(FLOATS), 0.5, 2)


@drawn
def draw_LRN(draw: Draw) -> Case:
    attrs = {"nsize": draw.pick((1, 3, 5, 7, 9)), "alpha": draw.pick((..., 0.1, 1)), "beta": draw.pick((..., 0.5, 2)),
             "knorm": draw.pick((..., 1))}
    return made(draw, "LRN", [draw.shape(4, 4)], attrs, "float32")


# Outputs and losses.


@drawn
def draw_SoftmaxOutput(draw: Draw) -> Case:
    kind = draw.pick(("plain", "plain", "multi", "preserve", "same"))
    shape = draw.shape(2, 2) if kind in ("plain", "same") else draw.shape(3, 4)
    dtype = draw.pick(FLOATS)
    classes = shape[-1] if kind == "preserve" else shape[1]
    attrs = {"grad_scale": draw.pick((..., 0.5)), "use_ignore": draw.pick((..., True)),
             "ignore_label": draw.pick((..., 1, 0)),
             "normalization": draw.pick((..., "batch", "valid")), "out_grad": draw.pick((..., ..., True)),
             "smooth_alpha": draw.pick((..., ..., 0.1)) if classes > 1 else ...}
    if kind == "multi":
        attrs["multi_output"] = True
        label = (shape[0], int(np.prod(shape[2:])))
    elif kind == "preserve":
        attrs["preserve_shape"] = True
        label = shape[:-1]
    else:
        label = shape[:1]
    target = draw.integers(label, 0, min(classes, 100) - 1, dtype)
    if kind == "same":
        attrs.pop("smooth_alpha")
        target = draw.array(shape, 0, 1, dtype)
    return Case("SoftmaxOutput", [draw.array(shape, -3, 3, dtype), target], text(attrs), gradients=[True, False])


def regression(op: str) -> Drawer:
    def drawer(draw: Draw) -> Case:
        shape = draw.shape(1, 4)
        return made(draw, op, [shape, shape], {"grad_scale": draw.pick((..., 0.3))}, draw.pick(FLOATS),
                    gradients=[True, False])
    return drawer


for _op in ("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"):
    DRAWS[_op] = regression(_op)


@drawn
def draw_MakeLoss(draw: Draw) -> Case:
    attrs = {"grad_scale": draw.pick((..., 0.5)), "valid_thresh": draw.pick((..., 0.5)),
             "normalization": draw.pick((..., "batch", "valid"))}
    return made(draw, "MakeLoss", [draw.shape()], attrs, draw.pick(FLOATS))


DRAWS["make_loss"] = plain("make_loss", FLOATS)


@drawn
def draw_SVMOutput(draw: Draw) -> Case:
    shape = draw.shape(2, 2)
    dtype = draw.pick(FLOATS)
    attrs = {"margin": draw.pick((..., 0.5)), "regularization_coefficient": draw.pick((..., 0.5)),
             "use_linear": draw.pick((..., True))}
    return Case("SVMOutput",
                [draw.array(shape, -2, 2, dtype), draw.integers(shape[:1], 0, min(shape[1], 100) - 1, dtype)],
                text(attrs), gradients=[True, False])


@drawn
def draw_softmax_cross_entropy(draw: Draw) -> Case:
    shape = draw.shape(2, 2)
    dtype = draw.pick(("float32", "float64"))
    return Case("softmax_cross_entropy", [draw.array(shape, -3, 3, dtype),
                                          draw.integers(shape[:1], 0, shape[1] - 1, dtype)], gradients=[True, False])


@drawn
def draw_smooth_l1(draw: Draw) -> Case:
    return made(draw, "smooth_l1", [draw.shape()], {"scalar": draw.pick((1, 0.5, 2, 3))}, draw.pick(FLOATS))


# Layers and activations.


@drawn
def draw_Activation(draw: Draw) -> Case:
    act_type = draw.pick(("relu", "sigmoid", "softrelu", "softsign", "tanh"))
    return made(draw, "Activation", [draw.shape()], {"act_type": act_type}, draw.pick(FLOATS), -5, 5)


@drawn
def draw_LeakyReLU(draw: Draw) -> Case:
    act_type = draw.pick(("leaky", "elu", "selu", "gelu", "prelu"))
    dtype = draw.pick(FLOATS)
    if act_type == "prelu":
        shape = draw.shape(2, 5)
        gamma = draw.array((draw.pick((1, shape[1])),), 0.1, 0.9, dtype)
        return made(draw, "LeakyReLU", [shape, gamma], {"act_type": act_type}, dtype)
    return made(draw, "LeakyReLU", [draw.shape()], {"act_type": act_type, "slope": draw.pick((..., 0.1))}, dtype, -4, 4)


@drawn
def draw_clip(draw: Draw) -> Case:
    attrs = {"a_min": draw.pick((-1, 0, 2)), "a_max": draw.pick((1, 3, 5))}
    return made(draw, "clip", [draw.shape()], attrs, draw.pick(TYPES))


@drawn
def draw_hard_sigmoid(draw: Draw) -> Case:
    return made(draw, "hard_sigmoid", [draw.shape()], {"alpha": draw.pick((..., 0.5)), "beta": draw.pick((..., 0.3))},
                draw.pick(FLOATS), -4, 4)


@drawn
def draw_FullyConnected(draw: Draw) -> Case:
    shape = draw.shape(2, 4, min(draw.most(), 20000))
    flatten = draw.chance(0.6)
    columns = int(np.prod(shape[1:])) if flatten else shape[-1]
    hidden = draw.pick((1, 3, 8, 17, 33))
    no_bias = draw.chance(0.3)
    return made(draw, "FullyConnected", [shape, (hidden, columns)] + ([] if no_bias else [(hidden,)]),
                {"num_hidden": hidden, "no_bias": no_bias,
                 "flatten": flatten}, draw.pick(("float32", "float64")), -1, 1)


@drawn
def draw_UpSampling(draw: Draw) -> Case:
    scale = draw.integer(1, 4)
    n, c, h, w = draw.shape(4, 4, max(60, draw.most() // (scale * scale)))
    count = draw.integer(1, 3)
    add = draw.chance(0.4)
    shapes = [(n, c, h, w)] + [(n, c if add else draw.integer(1, 3), h * scale if draw.chance(0.5) else h,
                                w * scale) for _ in range(count - 1)]
    shapes = [shape if shape[2] * w == h * shape[3] else (n, shape[1], h * scale, w * scale) for shape in shapes]
    return made(draw, "UpSampling", shapes, {"scale": scale, "sample_type": "nearest", "num_args": count,
                                             "multi_input_mode": "sum" if add else "concat"}, draw.pick(FLOATS))


@drawn
def draw_Dropout(draw: Draw) -> Case:
    return made(draw, "Dropout", [draw.shape()], {"p": draw.pick((..., 0.2))}, draw.pick(FLOATS), gradients=[False],
                train=False)


@drawn
def draw_Embedding(draw: Draw) -> Case:
    rows, width = draw.pick((1, 5, 100, 1000)), draw.pick((1, 3, 16, 65, 300))
    data = draw.shape(1, 3, max(10, draw.most() // width))
    dtype = draw.pick(FLOATS)
    return Case("Embedding", [draw.integers(data, 0, rows - 1, draw.pick(("float32", "int32", "int64"))),
                              draw.array((rows, width), -1, 1, dtype)],
                text({"input_dim": rows, "output_dim": width, "dtype": dtype}), gradients=[False, True])


def descent(op: str, inputs: int) -> Drawer:
    def drawer(draw: Draw) -> Case:
        attrs = {"lr": draw.pick((0.1, 0.01)), "wd": draw.pick((..., 0.1)), "rescale_grad": draw.pick((..., 0.5)),
                 "clip_gradient": draw.pick((..., 0.3))}
        if op == "sgd_mom_update":
            attrs["momentum"] = draw.pick((..., 0.9))
        return no_gradients(made(draw, op, [draw.shape()] * inputs, attrs, draw.pick(FLOATS)))
    return drawer


DRAWS["sgd_update"] = descent("sgd_update", 2)
DRAWS["sgd_mom_update"] = descent("sgd_mom_update", 3)


def draw_cases(operators: Sequence[str], count: int, seed: int) -> List[Case]:
    """`count` cases of the operators in turn; each depends on the seed and its number alone."""
    return [DRAWS[operators[number % len(operators)]](Draw((seed * 1000003 + number) % 2**32))
            for number in range(count)]
