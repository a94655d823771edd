"""The golden cases of operators of boxes and anchors."""

from typing import List

import numpy as np

from case import Case, integers, no_gradients, reals


def boxes(*shape: int, seed: int, steps: int = 16) -> np.ndarray:
    """Boxes (left, top, right, bottom) with corners on a grid, so that some overlaps are equal."""
    random = np.random.RandomState(seed)
    first = random.randint(0, steps, shape + (2,))
    last = first + random.randint(1, steps, shape + (2,))
    return (np.concatenate([first, last], -1) / steps).astype("float32")


def priors() -> List[Case]:
    cases = []
    for attrs in ({}, {"sizes": "(0.5, 0.25)", "ratios": "(1, 2, 0.5)"}, {"ratios": "(2, 1)"},
                  {"clip": "True", "sizes": "(0.9,)"}, {"steps": "(0.3, 0.4)", "offsets": "(0.1, 0.2)"},
                  {"steps": "(0, 0)", "sizes": "[0.1,0.14142136]"}, {"sizes": "(0.5, 0.25)", "ratios": "(3,)"}):
        cases.append(Case("_contrib_MultiBoxPrior", [(1, 2, 3, 2)], attrs))
    return cases


def targets() -> List[Case]:
    cases = []
    for number, attrs in enumerate((
            {}, {"overlap_threshold": "0.2"}, {"overlap_threshold": "0"}, {"overlap_threshold": "0.8"},
            {"variances": "(1, 0.5, 0.25, 2)"}, {"ignore_label": "-7", "negative_mining_ratio": "1"},
            {"negative_mining_ratio": "0.5", "negative_mining_thresh": "0.9"},
            {"negative_mining_ratio": "3", "negative_mining_thresh": "1", "minimum_negative_samples": "2"},
            {"overlap_threshold": "0.25", "negative_mining_ratio": "0.7", "negative_mining_thresh": "1"})):
        label = np.full((3, 4, 5), -1, "float32")
        for sample, count in enumerate((4, 2, 0)):
            label[sample, :count, 0] = np.arange(count) % 3
            label[sample, :count, 1:] = boxes(count, seed=10 * number + sample, steps=8)
        anchors = boxes(1, 12, seed=10 * number + 5, steps=8)
        scores = reals((3, 4, 12), -2, 2, seed=number)
        cases.append(Case("_contrib_MultiBoxTarget", [anchors, label, scores], attrs))
    wide = np.concatenate([label, np.full((3, 4, 2), 3, "float32")], -1)
    cases.append(Case("_contrib_MultiBoxTarget", [anchors, wide, scores]))
    return cases


def detections() -> List[Case]:
    cases = []
    for number, attrs in enumerate((
            {}, {"clip": "False"}, {"background_id": "1"}, {"threshold": "0.5"}, {"nms_threshold": "0"},
            {"nms_threshold": "0.1"}, {"nms_threshold": "0.1", "force_suppress": "True"}, {"nms_threshold": "1"},
            {"nms_topk": "3", "nms_threshold": "0.2"}, {"nms_topk": "0"}, {"nms_topk": "2", "nms_threshold": "-1"},
            {"variances": "(1, 0.5, 0.25, 2)", "nms_threshold": "0.3"})):
        scores = reals((2, 4, 10), 0, 1, seed=number).round(1)
        offsets = reals((2, 40), -2, 2, seed=number + 20) if number % 2 else np.zeros((2, 40), "float32")
        anchors = boxes(1, 10, seed=number, steps=8)
        cases.append(Case("_contrib_MultiBoxDetection", [scores, offsets, anchors], attrs))
    return cases


def codes() -> List[Case]:
    cases = []
    for dtype in ("float32", "float64", "float16"):
        samples = np.array([[1, 0, -1, 0.5, 0.6], [2, 1, 1, 0, 1]], dtype)
        matches = np.array([[0, -1, 5, 1, 1.7], [2, 1, 0, 1, 2]], dtype)
        means = np.array([0, 0.1, -0.2, 0.3], dtype)
        stds = np.array([0.1, 0.1, 0.2, 0.2], dtype)
        arrays = [samples, matches, boxes(2, 5, seed=1).astype(dtype), boxes(2, 3, seed=2).astype(dtype), means, stds]
        cases.append(Case("_contrib_box_encode", arrays, dtype=dtype))
        for attrs in ({}, {"format": "corner"}, {"std0": "0.1", "std1": "0.2", "std2": "0.3", "std3": "0.4"},
                      {"clip": "0.5", "std2": "2"}):
            arrays = [reals((2, 5, 4), -2, 2, dtype), boxes(1, 5, seed=3).astype(dtype)]
            cases.append(Case("_contrib_box_decode", arrays, attrs, dtype=dtype))
    return cases


def matchings() -> List[Case]:
    cases = []
    for number, attrs in enumerate((
            {"threshold": "1e-12"}, {"threshold": "4", "is_ascend": "True"}, {"threshold": "5"},
            {"threshold": "0", "topk": "0"}, {"threshold": "0", "topk": "2"}, {"threshold": "-1", "topk": "-1"})):
        for shape in ((3, 2), (2, 2, 3, 4)):
            dtype = ("float32", "float64", "float16")[number % 3]
            cases.append(Case("_contrib_bipartite_matching", [integers(shape, 0, 8, dtype, seed=number)], attrs,
                              dtype=dtype))
    return cases


def all_boxes() -> List[Case]:
    """All cases; the first one of each operator also asks for gradients, which are 0."""
    seen, cases = set(), []
    for case in priors() + targets() + detections() + codes() + matchings():
        cases.append(no_gradients(case) if case.op in seen else case)
        seen.add(case.op)
    return cases


FAMILIES = {"boxes": all_boxes}
