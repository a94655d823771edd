#ifndef TESSERA_OPS_VISION_BOXES_ANCHORS_H_
#define TESSERA_OPS_VISION_BOXES_ANCHORS_H_

#include <array>
#include <cmath>

#include "tessera/ops/vision/regions/boxes.h"

/// Boxes relative to anchors, the boxes that a network starts from (Girshick et al. 2014, appendix
/// C; Liu et al. 2016, section 2.2).
namespace tessera::ops_internal {

/// A box by its centre and size. T is float or double.
template <typename T>
struct CenteredBox {
  CenteredBox(const T* n, BoxFormat format) {
    const bool center = format == BoxFormat::kCenter;
    x = center ? n[0] : (n[0] + n[2]) / 2;
    y = center ? n[1] : (n[1] + n[3]) / 2;
    width = center ? n[2] : n[2] - n[0];
    height = center ? n[3] : n[3] - n[1];
  }

  T x, y, width, height;
};

/// Returns a box relative to an anchor: the distance of the centres along x and y in units of the
/// anchor's width and height, and the logarithms of the ratios of widths and of heights.
template <typename T>
std::array<T, 4> OffsetsOf(const CenteredBox<T>& box, const CenteredBox<T>& anchor) {
  return {(box.x - anchor.x) / anchor.width, (box.y - anchor.y) / anchor.height,
          std::log(box.width / anchor.width), std::log(box.height / anchor.height)};
}

/// Writes left, top, right and bottom of the box with the given offsets from an anchor.
template <typename T>
void WriteCorners(const std::array<T, 4>& offsets, const CenteredBox<T>& anchor, T* corners) {
  const T x = offsets[0] * anchor.width + anchor.x;
  const T y = offsets[1] * anchor.height + anchor.y;
  const T half_width = std::exp(offsets[2]) * anchor.width / 2;
  const T half_height = std::exp(offsets[3]) * anchor.height / 2;
  corners[0] = x - half_width;
  corners[1] = y - half_height;
  corners[2] = x + half_width;
  corners[3] = y + half_height;
}

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_VISION_BOXES_ANCHORS_H_
