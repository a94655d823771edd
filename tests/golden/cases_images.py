"""The golden cases of operators of images.

MXNet leaves the middle unset where it flips images of odd extent, and a grey image where it changes the hue or the
light; the hue of integers there is off by one, since float32 numbers a little below them are cut off; and the grey by
which it changes the saturation lacks red and green."""

from typing import List

import numpy as np

from case import Case, integers, no_gradients

PIXELS = (("uint8", 0, 255), ("float32", 0, 255))


def images() -> List[Case]:
    cases = []
    for shape in ((4, 5, 3), (3, 2, 1), (2, 3, 4, 3)):
        for dtype in ("uint8", "float32", "float64", "float16", "int32"):
            cases.append(no_gradients(Case("_image_to_tensor", [integers(shape, 0, 255, dtype)])))
    for dtype in ("float32", "float64", "float16"):
        for shape in ((3, 4, 5), (2, 3, 2, 3)):
            for attrs in ({"mean": "(0.485, 0.456, 0.406)", "std": "(0.229, 0.224, 0.225)"},
                          {"mean": "0.5", "std": "(1, 2, 0.25)"}):
                cases.append(Case("_image_normalize", [shape], attrs, dtype=dtype))
        cases.append(Case("_image_normalize", [(1, 4, 4)], {"mean": "0.13", "std": "0.31"}, dtype=dtype))
    for dtype in ("uint8", "float32", "float64", "float16", "int32"):
        rectangle = {"x": "1", "y": "2", "width": "3", "height": "2"}
        for shape in ((5, 6, 3), (2, 5, 6, 1)):
            case = Case("_image_crop", [integers(shape, 0, 255, dtype)], rectangle)
            cases.append(case if dtype.startswith("float") else no_gradients(case))
        for name in ("left_right", "top_bottom"):
            cases.append(no_gradients(Case(f"_image_flip_{name}", [integers((4, 2, 3), 0, 255, dtype)])))
    return cases + resizing() + colors()


def resizing() -> List[Case]:
    cases = []
    for dtype in ("uint8", "float32", "float64"):
        for shape, attrs in (((6, 7, 3), {"size": "(3, 5)"}), ((4, 5, 3), {"size": "(11, 9)"}),
                             ((5, 3, 1), {"size": "(8, 2)"}), ((8, 6, 3), {"size": "(3, 4)"}),
                             ((3, 8, 1), {"size": "5", "keep_ratio": "True"}), ((1, 1, 3), {"size": "(3, 2)"}),
                             ((7, 3, 1), {"size": "(2,)", "keep_ratio": "True"}), ((2, 4, 5, 3), {"size": "3"}),
                             ((6, 7, 3), {"size": "(4, 5)", "interp": "0"}), ((3, 4, 1), {"size": "7", "interp": "0"})):
            cases.append(no_gradients(Case("_image_resize", [integers(shape, 0, 255, dtype)], attrs)))
    return cases


def colors() -> List[Case]:
    cases = []
    for dtype, low, high in PIXELS:
        color, grey = integers((4, 5, 3), low, high, dtype), integers((3, 4, 1), low, high, dtype)
        for factor in ("0.3", "1", "1.6", "0"):
            attrs = {"min_factor": factor, "max_factor": factor}
            for name in ("brightness", "contrast", "saturation", "hue"):
                right = {"saturation": factor == "1", "hue": dtype == "float32"}
                if right.get(name, True):
                    cases.append(no_gradients(Case(f"_image_random_{name}", [color], attrs)))
                if name != "hue":
                    cases.append(no_gradients(Case(f"_image_random_{name}", [grey], attrs)))
        for alpha in ("(0.5, -0.25, 1)", "(0.01, 0.02, -0.03)"):
            cases.append(no_gradients(Case("_image_adjust_lighting", [color], {"alpha": alpha})))
        cases.append(no_gradients(Case("_image_random_lighting", [color], {"alpha_std": "0"})))
        # Images that equal their mirror images.
        sides = np.array([1, 7, 7, 1], dtype)
        cases.append(no_gradients(Case("_image_random_flip_left_right", [np.tile(sides[:, None], (3, 1, 3))])))
        cases.append(no_gradients(Case("_image_random_flip_top_bottom", [np.tile(sides[:, None, None], (1, 4, 1))])))
    # Changes that are too small to show.
    small = {name: "1e-9" for name in ("brightness", "contrast", "saturation", "hue")}
    cases.append(no_gradients(Case("_image_random_color_jitter", [color], small)))
    return cases


FAMILIES = {"images": images}
