"""Golden cases of the operators that move, repeat and create elements."""

from typing import List

import numpy as np

from case import Case, Shape, integers, no_gradients, reals

TYPES = ("float64", "float16", "int32", "int64", "uint8", "int8")


def in_types(op: str, shape: Shape, attrs: dict, count: int = 1) -> List[Case]:
    """The operator on float32 with gradients, and on the other element types."""
    inputs = [shape] * count
    cases = [Case(op, list(inputs), attrs)]
    for dtype in TYPES:
        case = Case(op, list(inputs), attrs, low=0, high=99, dtype=dtype)
        cases.append(case if dtype.startswith("float") else no_gradients(case))
    cases.append(no_gradients(Case(op, list(inputs), attrs, dtype="bool")))
    return cases


def each(op: str, calls: list) -> List[Case]:
    """A float32 case with gradients for each (shapes, attributes)."""
    return [Case(op, list(shapes), {name: str(value) for name, value in attrs.items()}) for shapes, attrs in calls]


def reshaping() -> List[Case]:
    cases = in_types("Reshape", (2, 6), {"shape": "(3, 4)"})
    cube = [(2, 3, 4)]
    for shape in ("(4, 0, 2)", "(2, 0, 0)", "(6, 1, -1)", "(3, -1, 8)", "(-1,)", "(-2,)", "(2, -2)", "(-2, 1, 1)",
                  "(-3, 4)", "(-3, -2)", "(0, -3)", "(-4, 1, 2, -2)", "(2, -4, -1, 3, -2)", "(-4, -1, 1, -3, 0)",
                  "(0, -4, -1, 3, -1)", "(-1, 0)", "(0, -1)", "(1, -2, -1)"):
        cases += each("Reshape", [(cube, {"shape": shape}), (cube, {"shape": shape, "reverse": True})])
    four = [(2, 3, 5, 5)]
    for shape in ("(-3, -3)", "(-2, -3)", "(0, 0, -1)", "(-1, 0, 0)", "(0, -2)", "(-4, 1, -1, 0, -3)", "(-3, 0, -1)"):
        cases += each("Reshape", [(four, {"shape": shape}), (four, {"shape": shape, "reverse": True})])
    cases += each("Reshape", [
        ([(10, 5, 4)], {"shape": "(-1, 0)"}), ([(10, 5, 4)], {"shape": "(-1, 0)", "reverse": True}),
        ([(8, 3)], {"shape": "(-4, 2, -1, 0)"}), ([(3, 8)], {"shape": "(0, -4, 2, -1)", "reverse": True}),
        (cube, {"target_shape": "(4, 0)"}), (cube, {"target_shape": "(0, 12)"}),
        (cube, {"target_shape": "(7, 0)", "keep_highest": True}),
        (cube, {"shape": "(4, 6)", "target_shape": "(0, 12)"}),
        ([(0, 3)], {"shape": "(3, 0)"}), ([(0, 3)], {"shape": "(0, 3, 1)"}), ([(2, 0, 3)], {"shape": "(-3, 0)"}),
        ([()], {"shape": "(1,)"}), ([()], {"shape": "(1, 1)"})])

    cases += in_types("Flatten", (2, 3, 2), {})
    cases += each("Flatten", [([(4,)], {}), ([(3, 5)], {}), ([(1, 2, 1, 3)], {}), ([(0, 2, 3)], {}),
                              ([(2, 0, 3)], {})])
    cases += in_types("expand_dims", (2, 3), {"axis": "1"})
    cases += each("expand_dims", [([(2, 3)], {"axis": axis}) for axis in (0, 2, -1, -2, -3)])
    cases += each("expand_dims", [([(0, 3)], {"axis": 1}), ([()], {"axis": 0}), ([()], {"axis": -1})])
    cases += in_types("squeeze", (2, 1, 3), {})
    cases += each("squeeze", [([(1, 2, 1)], {"axis": axis}) for axis in ("0", "2", "-1", "(0, 2)", "(-3, -1)")])
    cases += each("squeeze", [([(2, 3)], {}), ([(1, 1)], {}), ([(1, 1)], {"axis": 0}), ([(1,)], {"axis": 0}),
                              ([(1, 0, 1)], {}), ([(0, 1)], {"axis": 1}), ([(2, 1, 1, 3)], {"axis": "None"})])
    for lhs, rhs, attrs in (((2, 6), (3, 4), {}), ((30, 7), (15, 2, 4), {"lhs_begin": 0, "lhs_end": 1, "rhs_end": 2}),
                            ((30, 12), (4, 2, 2, 3), {"lhs_begin": -1, "lhs_end": "None", "rhs_begin": 1}),
                            ((2, 3, 4), (6, 4), {"lhs_begin": 0, "lhs_end": 2, "rhs_begin": 0, "rhs_end": 1}),
                            ((2, 3, 4), (5, 12, 7), {"lhs_begin": 1, "lhs_end": 3, "rhs_begin": 1, "rhs_end": 2}),
                            ((2, 3, 4), (5, 3, 4, 7), {"lhs_begin": -2, "rhs_begin": -3, "rhs_end": -1}),
                            ((0, 3), (3, 0), {})):
        cases += each("reshape_like", [([lhs, rhs], attrs)])
    cases.append(Case("reshape_like", [(2, 6), integers((4, 3), 0, 9, "int32")], gradients=[True, False]))
    cases.append(no_gradients(Case("reshape_like", [(2, 6), (4, 3)], dtype="uint8", low=0, high=9)))
    cases += in_types("BlockGrad", (2, 3), {})
    cases += each("BlockGrad", [([(4,)], {}), ([(0, 2)], {}), ([()], {})])
    cases += in_types("_copy", (2, 3), {})
    cases += each("_copy", [([(0, 2)], {}), ([()], {})])
    cases += [Case("cast_storage", [(2, 3)], {"stype": "default"}),
              Case("cast_storage", [(4,)], {"stype": "default"}, dtype="float64"),
              Case("cast_storage", [(2, 1, 3)], {"stype": "default"}, dtype="float16"),
              no_gradients(Case("cast_storage", [(2, 3)], {"stype": "default"}, dtype="int32", low=0, high=9))]
    return cases


def permuting() -> List[Case]:
    cases = in_types("transpose", (2, 3, 4), {})
    cases += each("transpose", [([(2, 3, 4)], {"axes": axes}) for axes in ("(1, 0, 2)", "(0, 2, 1)", "(2, 0, 1)",
                                                                         "(1, 2, 0)", "(0, 1, 2)", "(-1, 0, 1)")])
    cases += each("transpose", [([(3, 4)], {}), ([(5,)], {}), ([(2, 1, 3, 2)], {"axes": "(3, 1, 0, 2)"}),
                                ([(2, 1, 3, 2, 2)], {"axes": "(4, 2, 0, 3, 1)"}), ([(0, 3)], {}),
                                ([(2, 0, 3)], {"axes": "(1, 2, 0)"}), ([()], {})])
    cases += in_types("SwapAxis", (2, 3, 4), {"dim1": "0", "dim2": "2"})
    cases += each("SwapAxis", [([(2, 3, 4)], {}), ([(2, 3, 4)], {"dim1": 1}), ([(2, 3, 4)], {"dim2": 1}),
                               ([(2, 3, 4)], {"dim1": 2, "dim2": 1}), ([(2, 3, 4)], {"dim1": -1, "dim2": 0}),
                               ([(2, 3, 4)], {"dim1": -2, "dim2": -1}), ([(2, 3, 1, 2)], {"dim1": 1, "dim2": 3}),
                               ([(0, 3)], {"dim1": 0, "dim2": 1})])
    for op, shapes in (("depth_to_space", ((1, 8, 2, 3), (2, 4, 1, 1), (2, 12, 3, 2))),
                       ("space_to_depth", ((1, 2, 4, 6), (2, 1, 2, 2), (2, 3, 2, 4)))):
        cases += in_types(op, shapes[0], {"block_size": "2"})
        cases += each(op, [([shape], {"block_size": 2}) for shape in shapes[1:]])
        cases += each(op, [([(1, 9, 3, 3)], {"block_size": 3}), ([(2, 3, 2, 2)], {"block_size": 1}),
                           ([(0, 4, 2, 2)], {"block_size": 2})])
    return cases


def slicing() -> List[Case]:
    cases = in_types("slice", (4, 5), {"begin": "(1, 0)", "end": "(3, 4)"})
    for begin, end, step in (("(None, 1)", "(None, 4)", ""), ("(1,)", "(3,)", ""), ("(-3, -2)", "(-1, None)", ""),
                             ("(0, 0)", "(4, 5)", "(2, 3)"), ("(None, None)", "(None, None)", "(-1, -2)"),
                             ("(3, 4)", "(0, 1)", "(-1, -1)"), ("(None, -1)", "(None, 0)", "(1, -3)"),
                             ("(1, 1)", "(9, 9)", "(None, 2)"), ("(-9, 0)", "(3, 5)", ""), ("(None,)", "(None,)",
                                                                                            "(-1,)"),
                             ("(2, 3)", "(None, None)", "(-2, 1)"), ("(1, 4)", "(2, None)", "(1, -4)"),
                             ("(3,)", "(-5,)", "(-1,)"), ("(9,)", "(None,)", "(-2,)"), ("(0,)", "(-4,)", "(-1,)")):
        attrs = {"begin": begin, "end": end}
        if step:
            attrs["step"] = step
        cases += each("slice", [([(4, 5)], attrs)])
    cases += each("slice", [([(2, 3, 4)], {"begin": "(None, 1)", "end": "(None, 3)"}),
                            ([(7,)], {"begin": "(1,)", "end": "(None,)", "step": "(2,)"}),
                            ([(2, 3, 2, 3)], {"begin": "(0, 1, 0, 1)", "end": "(2, 3, 1, 3)"}),
                            ([(4, 5)], {"begin": "(2,)", "end": "(2,)"}), ([(4, 5)], {"begin": "(3,)", "end": "(1,)"}),
                            ([(0, 5)], {"begin": "(0, 1)", "end": "(0, 3)"}),
                            ([(0, 5)], {"begin": "(None, 1)", "end": "(None, 3)"})])
    cases.append(Case("slice", [(4, 5)], {"begin": "(2,)", "end": "(2,)"}, np_shape=True))
    cases.append(Case("slice", [(4, 5)], {"begin": "(3,)", "end": "(1,)"}, np_shape=True))
    cases += in_types("slice_axis", (3, 5), {"axis": "1", "begin": "1", "end": "4"})
    cases += each("slice_axis", [([(3, 5)], {"axis": axis, "begin": begin, "end": end}) for axis, begin, end in (
        (0, 1, 3), (-1, -3, -1), (1, 0, None), (-2, -2, None), (1, 2, 5), (0, 0, -1), (1, -5, 5), (1, 4, 9),
        (1, 3, 3), (1, 3, 2), (1, -9, 2))])
    cases += each("slice_axis", [([(2, 3, 4)], {"axis": 1, "begin": 1, "end": 2}), ([(6,)], {"axis": 0, "begin": 2,
                                                                                            "end": "None"}),
                                 ([(0, 5)], {"axis": 1, "begin": 1, "end": 3})])
    for data, like, attrs in (((3, 4), (2, 3), {}), ((3, 4), (2, 9), {"axes": "(0,)"}),
                              ((3, 4), (9, 2), {"axes": "(-1,)"}),
                              ((3, 4, 5), (2, 2, 5), {}), ((3, 4, 5), (2, 3), {"axes": "(0, 1)"}),
                              ((3, 4, 5), (7, 7, 1), {"axes": "(2,)"}), ((3, 4), (3, 4), {}), ((0, 4), (0, 2), {}),
                              ((3, 4), (2, 2, 9), {"axes": "(0, 1)"}), ((3, 4), (0, 2), {})):
        cases += each("slice_like", [([data, like], attrs)])
    cases.append(Case("slice_like", [(3, 4), integers((2, 2), 0, 9, "int32")], gradients=[True, False]))
    cases.append(Case("slice_like", [(3, 4), (2, 2)], dtype="float16"))
    cases.append(no_gradients(Case("slice_like", [(3, 4), (2, 2)], dtype="int32", low=0, high=9)))
    cases += each("Crop", [
        ([(1, 2, 5, 6)], {"num_args": 1, "h_w": "(2, 3)"}), ([(2, 1, 5, 6)], {"num_args": 1, "h_w": "(3, 2)",
                                                                              "offset": "(1, 2)"}),
        ([(2, 1, 5, 6)], {"num_args": 1, "h_w": "(2, 3)", "center_crop": True}),
        ([(1, 1, 6, 6)], {"num_args": 1, "h_w": "(3, 3)", "center_crop": True, "offset": "(1, 1)"}),
        ([(1, 1, 5, 5)], {"num_args": 1, "h_w": "(5, 5)"}), ([(2, 2, 4, 4), (1, 3, 2, 3)], {"num_args": 2}),
        ([(2, 2, 4, 4), (1, 3, 2, 3)], {"num_args": 2, "offset": "(2, 1)"}),
        ([(2, 2, 5, 4), (1, 3, 2, 1)], {"num_args": 2, "center_crop": True})])
    cases += [Case("Crop", [(1, 2, 4, 4)], {"num_args": "1", "h_w": "(2, 2)"}, dtype=dtype)
              for dtype in ("float64", "float16")]
    cases += in_types("reverse", (3, 4), {"axis": "0"})
    cases += each("reverse", [([(2, 3, 4)], {"axis": axis}) for axis in ("1", "(2,)", "(0, 2)", "(0, 1, 2)", "(2, 0)")])
    cases += each("reverse", [([(2, 3, 4)], {"axis": "-1"}), ([(2, 3)], {"axis": "(0, 0)"}), ([(0, 3)], {"axis": "1"}),
                              ([(7,)], {"axis": "0"})])
    for begin, end, step in (("(1, 0)", "(3, 4)", ""), ("(1,)", "(3,)", ""), ("(None, 1)", "(None, 4)", ""),
                             ("(0, 0)", "(4, 5)", "(2, 3)"), ("(3, 4)", "(0, 1)", "(-1, -2)"),
                             ("(-3, -2)", "(-1, None)", ""), ("(None, None)", "(None, None)", "(-1, 2)"),
                             ("(2,)", "(2,)", "")):
        attrs = {"begin": begin, "end": end}
        if step:
            attrs["step"] = step
        index = tuple(slice(*(None if x == "None" else int(x) for x in parts)) for parts in zip(
            *(text.strip("(),").split(", ") for text in ((begin, end, step) if step else (begin, end)))))
        part = np.zeros((4, 5))[index].shape
        cases.append(no_gradients(Case("_slice_assign", [(4, 5), part], attrs)))
        cases.append(no_gradients(Case("_slice_assign_scalar", [(4, 5)], dict(attrs, scalar="2.5"))))
    plain = {"begin": "(1, 0)", "end": "(3, 4)"}
    for dtype in ("float64", "float16", "int32", "uint8", "int64"):
        cases.append(no_gradients(Case("_slice_assign", [(4, 5), (2, 4)], plain, dtype=dtype, low=0, high=9)))
        cases.append(no_gradients(Case("_slice_assign_scalar", [(4, 5)], dict(plain, scalar="3"), dtype=dtype, low=0,
                                       high=9)))
    cases.append(no_gradients(Case("_slice_assign_scalar", [(4, 5)], plain)))
    cases.append(no_gradients(Case("_slice_assign_scalar", [(4, 5)], dict(plain, scalar="-2.7"), dtype="int32")))
    return cases


def joining() -> List[Case]:
    cases = in_types("Concat", (2, 3), {"num_args": "2"}, 2)
    cases += each("Concat", [
        ([(2, 3), (2, 1), (2, 2)], {"num_args": 3}), ([(2, 3), (1, 3)], {"num_args": 2, "dim": 0}),
        ([(2, 1, 3), (2, 1, 2)], {"num_args": 2, "dim": 2}), ([(2, 1, 3), (2, 4, 3)], {"num_args": 2, "dim": -2}),
        ([(2, 3)], {"num_args": 1}), ([(3,), (2,)], {"num_args": 2, "dim": 0}), ([(2,), (1,)],
                                                                                 {"num_args": 2, "dim": -1}),
        ([(2, 2, 2, 1), (2, 3, 2, 1), (2, 1, 2, 1)], {"num_args": 3, "dim": 1}),
        ([(0, 3), (2, 3)], {"num_args": 2, "dim": 0}), ([(2, 0), (2, 0)], {"num_args": 2, "dim": 1}),
        ([(0, 2), (0, 3)], {"num_args": 2, "dim": 1})])
    cases += each("_rnn_param_concat", [([(4,), (3,)], {"num_args": 2, "dim": 0}), ([(4,)], {"num_args": 1, "dim": 0}),
                                        ([(4,), (3,), (2,)], {"num_args": 3, "dim": 0}),
                                        ([(2, 3), (2, 2)], {"num_args": 2, "dim": 1})])
    cases.append(Case("_rnn_param_concat", [(4,), (2,)], {"num_args": "2", "dim": "0"}, dtype="float16"))
    cases += in_types("stack", (2, 3), {"num_args": "2"}, 2)
    cases += each("stack", [([(2, 3)] * 3, {"num_args": 3, "axis": axis}) for axis in (1, 2, -1, -2, -3)])
    cases += each("stack", [([(4,)], {"num_args": 1}), ([(2, 1, 2)] * 2, {"num_args": 2, "axis": 2}),
                            ([(0, 2)] * 2, {"num_args": 2}), ([()] * 3, {"num_args": 3})])
    cases += in_types("SliceChannel", (2, 4), {"num_outputs": "2"})
    cases += each("SliceChannel", [
        ([(4, 3)], {"num_outputs": 2, "axis": 0}), ([(2, 3)], {"num_outputs": 3, "squeeze_axis": True}),
        ([(2, 3, 6)], {"num_outputs": 3, "axis": 2}), ([(2, 6, 2)], {"num_outputs": 2, "axis": -2}),
        ([(2, 3, 3)], {"num_outputs": 3, "axis": 1}), ([(2, 3, 3)],
                                                       {"num_outputs": 3, "axis": -1, "squeeze_axis": True}),
        ([(2, 4)], {"num_outputs": 1}), ([(0, 4)], {"num_outputs": 2}), ([(2, 1)],
                                                                         {"num_outputs": 1, "squeeze_axis": True}),
        ([(6,)], {"num_outputs": 2, "axis": 0})])
    cases += in_types("_split_v2", (2, 5), {"indices": "(0, 2)", "axis": "1"})
    cases += each("_split_v2", [
        ([(6, 2)], {"indices": "(0, 1, 3)", "axis": 0}), ([(2, 7)], {"indices": "()", "axis": 1, "sections": 3}),
        ([(2, 6)], {"indices": "()", "axis": -1, "sections": 2}), ([(2, 3)], {"indices": "(0, 1, 2)", "axis": 1,
                                                                              "squeeze_axis": True}),
        ([(3, 2)], {"indices": "()", "sections": 3, "axis": 0, "squeeze_axis": True}), ([(2, 3)], {"indices": "(0,)"}),
        ([(2, 3, 4)], {"indices": "(0, 1, 3)", "axis": 2}), ([(0, 4)], {"indices": "(0, 1)", "axis": 1}),
        ([(2, 8)], {"indices": "()", "sections": 5}), ([(2, 4)], {"indices": "(0, 2, 2)", "axis": 1})])
    cases.append(Case("_split_v2", [(2, 4)], {"indices": "(0, 2, 2)", "axis": "1"}, np_shape=True))
    cases.append(Case("_split_v2", [(2, 4)], {"indices": "(0, 2, 4)", "axis": "1"}, np_shape=True))
    return cases


def repeating() -> List[Case]:
    cases = in_types("broadcast_to", (1, 3), {"shape": "(2, 3)"})
    cases += each("broadcast_to", [
        ([(2, 1)], {"shape": "(0, 4)"}), ([(1, 3, 1)], {"shape": "(2, 3, 2)"}), ([(1, 1)], {"shape": "(3, 2)"}),
        ([(2, 3)], {"shape": "(2, 3)"}), ([(1, 2, 1, 3)], {"shape": "(2, 0, 3, 0)"}), ([(1,)], {"shape": "(5,)"}),
        ([(1, 0)], {"shape": "(2, 0)"}), ([(2, 1, 1)], {"shape": "(2, 3, 4)"})])
    cases += in_types("broadcast_axis", (1, 3), {"axis": "0", "size": "2"})
    cases += each("broadcast_axis", [
        ([(2, 1)], {"axis": "1", "size": "4"}), ([(1, 3, 1)], {"axis": "(0, 2)", "size": "(2, 3)"}),
        ([(1, 3, 1)], {"axis": "(2, 0)", "size": "(2, 3)"}), ([(2, 3)], {}), ([(2, 1)],
                                                                              {"axis": "(-1,)", "size": "(3,)"}),
        ([(1, 1, 2)], {"axis": "(1,)", "size": "(3,)"}), ([(1, 0)], {"axis": "0", "size": "2"})])
    cases += each("broadcast_like", [
        ([(1, 3), (2, 3)], {}), ([(1, 1, 2), (3, 4, 2)], {}), ([(1, 3), (5, 2)],
                                                               {"lhs_axes": "(0,)", "rhs_axes": "(0,)"}),
        ([(1, 2, 1), (5, 7)], {"lhs_axes": "(0, 2)", "rhs_axes": "(1, 0)"}),
        ([(1, 3), (2, 5, 4)], {"lhs_axes": "(-2,)", "rhs_axes": "(-1,)"}), ([(2, 3), (2, 3)], {}),
        ([(1, 0), (2, 0)], {})])
    cases.append(Case("broadcast_like", [(1, 3), integers((2, 3), 0, 9, "int32")], gradients=[True, False]))
    cases.append(no_gradients(Case("broadcast_like", [(1, 3), (2, 3)], dtype="int64", low=0, high=9)))
    cases.append(Case("broadcast_like", [(1, 3), (2, 3)], dtype="float16"))
    cases += in_types("tile", (2, 3), {"reps": "(2, 2)"})
    cases += each("tile", [([(2, 3)], {"reps": reps}) for reps in ("(3,)", "(2, 1, 2)", "(1, 1)", "(1, 3)", "(2, 1)",
                                                                  "(2, 3, 1, 2)", "()", "(0, 1)")])
    cases += each("tile",
                  [([(4,)], {"reps": "(2, 2)"}), ([(2, 1, 3)], {"reps": "(2,)"}), ([(0, 2)], {"reps": "(2, 2)"}),
                           ([(2, 2, 2)], {"reps": "(2, 3)"})])
    cases += in_types("repeat", (2, 3), {"repeats": "2"})
    cases += each("repeat", [([(2, 3)], {"repeats": 3, "axis": axis}) for axis in (0, 1, -1, -2)])
    cases += each("repeat",
                  [([(2, 3)], {"repeats": 1}), ([(2, 3, 2)], {"repeats": 2, "axis": 1}), ([(4,)], {"repeats": 2,
                                                                                                         "axis": 0}),
                             ([(0, 3)], {"repeats": 2, "axis": 1}), ([(2, 3)], {"repeats": 2, "axis": "None"}),
                             ([(2, 3)], {"repeats": 0})])
    cases.append(Case("repeat", [(2, 3)], {"repeats": "0"}, np_shape=True))
    cases.append(Case("repeat", [(2, 3)], {"repeats": "0", "axis": "1"}, np_shape=True))
    for mode in ("constant", "edge", "reflect"):
        for dtype in ("float32", "float64", "float16"):
            attrs = {"mode": mode, "pad_width": "(0, 0, 0, 0, 1, 2, 2, 1)"}
            cases.append(Case("Pad", [(1, 2, 3, 4)], attrs, dtype=dtype))
        cases += each("Pad", [([(2, 1, 2, 3, 2)], {"mode": mode, "pad_width": "(0, 0, 0, 0, 1, 1, 0, 2, 1, 0)"}),
                              ([(1, 1, 4, 3)], {"mode": mode, "pad_width": "(0, 0, 0, 0, 0, 0, 0, 0)"}),
                              ([(1, 1, 2, 2)], {"mode": mode, "pad_width": "(0, 0, 0, 0, 1, 1, 1, 1)"}),
                              ([(2, 2, 3, 3)], {"mode": mode, "pad_width": "(0, 0, 0, 0, 2, 2, 2, 2)"})])
        cases.append(no_gradients(Case("Pad", [(1, 2, 3, 4)], {"mode": mode, "pad_width": "(0, 0, 0, 0, 1, 2, 2, 1)"},
                                       dtype="int32", low=0, high=9)))
    cases += each("Pad", [([(1, 1, 2, 3)], {"mode": "constant", "pad_width": "(0, 0, 0, 0, 1, 2, 0, 3)",
                                            "constant_value": 2.5}),
                          ([(1, 1, 2, 3)], {"mode": "edge", "pad_width": "(0, 0, 0, 0, 3, 4, 5, 0)"}),
                          ([(0, 1, 2, 3)], {"mode": "constant", "pad_width": "(0, 0, 0, 0, 1, 2, 0, 3)"})])
    return cases


def diagonals_and_casts() -> List[Case]:
    cases = in_types("diag", (3, 4), {})
    cases += each("diag", [([(3, 4)], {"k": k}) for k in (1, 3, -1, -2)])
    cases += each("diag", [([(4,)], {}), ([(3,)], {"k": 1}), ([(3,)], {"k": -2}), ([(2, 3, 4)], {}),
                           ([(2, 3, 4)], {"axis1": 1, "axis2": 2}), ([(2, 3, 4)], {"axis1": 2, "axis2": 0, "k": 1}),
                           ([(2, 3, 4)], {"axis1": -1, "axis2": -2, "k": -1}), ([(3, 3, 2, 2)],
                                                                                {"axis1": 0, "axis2": 1}),
                           ([(3, 4)], {"axis1": 1, "axis2": 0, "k": 1})])
    numbers = np.array([-300.7, -129, -2.5, -1, -0.4, 0, 0.5, 0.999, 1, 2.5, 127, 128.4, 200, 255.9], "float64")
    for dtype in ("float32", "float64", "float16", "int32", "int64", "int8", "uint8", "bool"):
        floating = dtype.startswith("float")
        for source in ("float32", "float64", "float16"):
            values = numbers[3:-4] if dtype in ("uint8", "int8") else numbers
            values = np.abs(values) if dtype == "uint8" else values
            cases.append(Case("Cast", [values.astype(source)], {"dtype": dtype}, gradients=[floating]))
        for source in ("int32", "int64", "int8", "uint8", "bool"):
            cases.append(no_gradients(Case("Cast", [integers((2, 5), 0, 100, source)], {"dtype": dtype})))
    cases += [no_gradients(Case("Cast", [np.array([-1, 0, 255, 256, 300, -129, 2**31 - 1], "int32")], {"dtype": dtype}))
              for dtype in ("uint8", "int8", "int64", "float32", "float16", "bool")]
    cases += [Case("Cast", [(0, 3)], {"dtype": "float64"}), Case("Cast", [()], {"dtype": "float64"})]
    return cases


def creating() -> List[Case]:
    cases = []
    for op in ("_zeros", "_ones", "_full"):
        value = {"value": "2.5"} if op == "_full" else {}
        for dtype in ("float32", "float64", "float16", "int32", "int64", "uint8", "int8", "bool"):
            cases.append(Case(op, [], dict(value, shape="(2, 3)", dtype=dtype)))
        cases += [Case(op, [], dict(value, shape=shape)) for shape in ("(4,)", "(2, 1, 3)", "3")]
    cases += [Case("_full", [], {"shape": "(2,)", "value": value, "dtype": dtype}) for value, dtype in (
        ("-1.7", "int32"), ("1e10", "float32"), ("0.1", "float64"), ("0.1", "float16"), ("3", "uint8"), ("inf",
                                                                                                         "float32"))]
    for attrs in ({"start": 5}, {"start": 1, "stop": 7}, {"start": 0, "stop": 1, "step": 0.3}, {"start": 5, "stop": 0,
                                                                                             "step": -2},
                  {"start": 0, "stop": 3, "repeat": 2}, {"start": 2.5, "stop": 6}, {"start": 0, "stop": 10, "step": 3,
                                                                                   "repeat": 3},
                  {"start": -3, "stop": "None", "step": -1}, {"start": 0.1, "stop": 2, "step": 0.1}):
        for dtype in ("float32", "int32"):
            cases.append(Case("_arange", [], {name: str(value) for name, value in dict(attrs, dtype=dtype).items()}))
    cases += [Case("_arange", [], {"start": "1", "stop": "9", "step": "2", "dtype": dtype})
              for dtype in ("float64", "float16", "int64", "uint8", "int8")]
    for attrs in ({"start": 0, "stop": 1, "num": 5}, {"start": 0, "stop": 1, "num": 5, "endpoint": False},
                  {"start": 3, "stop": -2, "num": 4}, {"start": 1, "stop": 2, "num": 1}, {"start": 0, "stop": 10,
                                                                                          "num": 7},
                  {"start": 2, "stop": 2, "num": 3}):
        for dtype in ("float32", "float64", "int32"):
            cases.append(Case("_linspace", [], {name: str(value) for name, value in dict(attrs, dtype=dtype).items()}))
    cases += [Case("_linspace", [], {"start": "0", "stop": "8", "num": "5", "dtype": dtype})
              for dtype in ("float16", "int64", "uint8", "int8")]
    for attrs in ({"N": 3}, {"N": 2, "M": 4}, {"N": 4, "M": 2}, {"N": 3, "k": 1}, {"N": 3, "k": -2}, {"N": 2, "M": 3,
                                                                                                   "k": 2},
                  {"N": 3, "k": 7}, {"N": 3, "k": -7}):
        cases.append(Case("_eye", [], {name: str(value) for name, value in attrs.items()}))
    cases += [Case("_eye", [], {"N": "2", "M": "3", "dtype": dtype})
              for dtype in ("float64", "float16", "int32", "int64", "uint8", "int8")]
    for op in ("zeros_like", "ones_like"):
        cases += in_types(op, (2, 3), {})
        cases += each(op, [([(4,)], {}), ([(0, 3)], {}), ([()], {})])
    for attrs in ({}, {"axis": "0"}, {"axis": "-1"}, {"axis": "1", "start": "2", "step": "0.5"}, {"start": "-1"},
                  {"repeat": "2"}, {"axis": "1", "repeat": "3"}, {"step": "-2"}):
        cases.append(Case("_contrib_arange_like", [(2, 6)], attrs))
    cases += [Case("_contrib_arange_like", [(2, 3)], {}, dtype=dtype) for dtype in ("float64", "float16")]
    cases.append(no_gradients(Case("_contrib_arange_like", [(2, 3)], {}, dtype="int32")))
    for op in ("shape_array", "size_array"):
        for shape in ((2, 3), (4,), (2, 1, 3, 2), (0, 3), ()):
            cases.append(no_gradients(Case(op, [shape])))
        cases += [no_gradients(Case(op, [(2, 3)], dtype=dtype)) for dtype in ("float64", "float16", "int32", "uint8")]
        cases.append(Case(op, [reals((2, 3), -1, 1)]))
    return cases


def shape() -> List[Case]:
    return reshaping() + permuting() + slicing() + joining() + repeating() + diagonals_and_casts() + creating()
