"""The golden cases of operators of regions and boxes."""

from typing import List

import numpy as np

from case import Case, no_gradients, reals


def regions() -> List[Case]:
    cases = []
    rows = [[0, 0, 1, 3, 4], [1, 1.5, 1, 4, 5.25], [0, 2, 2, 2, 2], [1, -3, -2, 2, 1], [0, 3, 3, 9, 7]]
    for size, scale in (("(2, 3)", "1"), ("(3, 2)", "0.5"), ("(1, 1)", "0.75")):
        attrs = {"pooled_size": size, "spatial_scale": scale}
        for dtype in ("float32", "float64"):
            rois = np.array(rows, dtype)
            cases.append(Case("ROIPooling", [(2, 3, 6, 5), rois], attrs, dtype=dtype))
            cases.append(Case("_contrib_ROIAlign", [(2, 3, 6, 5), rois], attrs, dtype=dtype))
        rois = np.array(rows, "float32")
        cases.append(Case("_contrib_ROIAlign", [(2, 2, 6, 5), rois], {**attrs, "sample_ratio": "2"}))
    for more in ({}, {"sample_ratio": "3"}):
        attrs = {"pooled_size": "(2, 2)", "spatial_scale": "0.5", **more}
        cases.append(Case("_contrib_ROIAlign", [(2, 12, 6, 5), rois], {**attrs, "position_sensitive": "True"}))
        with_size = rois[[0, 1, 3, 4]]
        cases.append(Case("_contrib_ROIAlign", [(2, 2, 6, 5), with_size], {**attrs, "aligned": "True"}))
    for size, scale, groups, channels in ((3, "0.5", "0", 18), (2, "1", "1", 2), (4, "0.75", "2", 8)):
        attrs = {"pooled_size": str(size), "spatial_scale": scale, "output_dim": "2", "group_size": groups}
        for dtype in ("float32", "float64"):
            cases.append(Case("_contrib_PSROIPooling", [(2, channels, 6, 5), rois.astype(dtype)], attrs, dtype=dtype))
    turned = np.array([[0, 2, 3, 3.5, 2.5, 30], [1, 2.5, 2, 5, 1, -75], [0, 3, 3, 4, 4, 0], [1, -1, 1, 3, 9, 10]])
    for more in ({}, {"sampling_ratio": "2"}, {"spatial_scale": "0.5"}):
        attrs = {"pooled_size": "(2, 3)", "spatial_scale": "1", **more}
        cases.append(no_gradients(Case("_contrib_RROIAlign", [(2, 3, 6, 5), turned.astype("float32")], attrs)))
    none = np.array([[-1, 0, 0, 3, 3], [1, 0, 0, 3, 3], [0, 3, 3, 1, 1]], "float32")
    cases.append(Case("ROIPooling", [(2, 2, 6, 5), none], {"pooled_size": "(2, 2)", "spatial_scale": "1"}))
    boxes = reals((5, 4), -2, 3), np.array([[-1, -2, 2, 1], [0.5, 0, 3, 2.5], [1, 1, 1, 1], [2, 2, 0, 0]], "float32")
    for form in ({}, {"format": "center"}, {"format": "corner"}):
        cases.append(no_gradients(Case("_contrib_box_iou", list(boxes), form)))
        cases.append(no_gradients(Case("_contrib_box_iou", [(2, 3, 4), (5, 4)], form, dtype="float64")))
    return cases + suppression()


def suppression() -> List[Case]:
    cases = []
    random = np.random.RandomState(4)
    for number, attrs in enumerate((
            {}, {"id_index": "0"}, {"id_index": "0", "force_suppress": "True", "overlap_thresh": "0.2"},
            {"id_index": "0", "background_id": "1"}, {"topk": "3"}, {"topk": "0", "out_format": "center"},
            {"valid_thresh": "0.45"}, {"in_format": "center"}, {"out_format": "center"},
            {"in_format": "center", "out_format": "corner", "overlap_thresh": "0.1"},
            {"coord_start": "0", "score_index": "5", "id_index": "4"}, {"valid_thresh": "2"})):
        rows = random.uniform(0, 1, (2, 6, 7))
        if "coord_start" not in attrs:
            rows[..., 0] = random.randint(0, 3, (2, 6))
            rows[..., 1] = np.round(rows[..., 1], 1)  # some are equal
            rows[..., 4:6] += rows[..., 2:4]
        dtype = ("float32", "float64")[number % 2]
        cases.append(Case("_contrib_box_nms", [rows.astype(dtype)], attrs, dtype=dtype))
    return cases


def moved_regions() -> List[Case]:
    cases = []
    rois = np.array([[0, 0, 1, 3, 4], [1, 1.5, 1, 4, 5.25], [0, 2, 2, 2, 2], [1, -3, -2, 2, 1]])
    for size, scale, groups, parts, points in ((3, "0.5", 3, 0, 1), (2, "1", 1, 4, 2), (4, "0.75", 2, 2, 3)):
        attrs = {"pooled_size": str(size), "spatial_scale": scale, "output_dim": "2", "group_size": str(groups),
                 "part_size": str(parts), "sample_per_part": str(points), "trans_std": "0.25"}
        data = (2, 2 * groups ** 2, 6, 5)
        for classes, dtype in ((1, "float32"), (2, "float32"), (1, "float64")):
            offsets = reals((4, 2 * classes) + (parts or size,) * 2, -1, 1, dtype)
            cases.append(Case("_contrib_DeformablePSROIPooling", [data, rois.astype(dtype), offsets], attrs,
                              dtype=dtype))
        cases.append(Case("_contrib_DeformablePSROIPooling", [data, rois.astype("float32")],
                          {**attrs, "no_trans": "True"}))
    return cases


def proposals() -> List[Case]:
    cases = []
    for number, (images, anchors, info, attrs) in enumerate((
            (1, 12, [48, 64, 1], {}),
            (2, 12, [40, 61, 0.5], {"output_score": "True", "threshold": "0.4"}),
            (1, 2, [48, 64, 1], {"scales": "(2, 3.5)", "ratios": "(1.7,)", "rpn_min_size": "24"}),
            (3, 4, [24, 31, 2], {"scales": "(1, 2)", "ratios": "(0.3, 1)", "feature_stride": "8",
                                 "rpn_pre_nms_top_n": "7", "output_score": "True"}),
            (2, 1, [48, 64, 1], {"scales": "(3,)", "ratios": "(1,)", "iou_loss": "True", "threshold": "0.1",
                                 "rpn_pre_nms_top_n": "0", "rpn_post_nms_top_n": "20"}),
            (1, 1, [48, 64, 1], {"scales": "(2,)", "ratios": "(1,)", "rpn_min_size": "50", "threshold": "1"}))):
        attrs = {"rpn_post_nms_top_n": "8", **attrs}
        scores = reals((images, 2 * anchors, 3, 4), 0, 1, seed=number)
        scores[:, :, :, 2] = scores[:, :, :, 1]  # some are equal
        moves = reals((images, 4 * anchors, 3, 4), -0.4, 0.4, seed=number + 10)
        if "iou_loss" in attrs:
            moves *= 20
        images_info = np.array([info] * images, "float32")
        images_info[:, 0] -= np.arange(images)
        cases.append(no_gradients(Case("_contrib_MultiProposal", [scores, moves, images_info], attrs)))
        first = [scores[:1], moves[:1], images_info[:1]]
        cases.append(Case("_contrib_Proposal", first, attrs))
    return cases


FAMILIES = {"moved_regions": moved_regions, "proposals": proposals, "regions": regions}
