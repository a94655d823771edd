#ifndef TESSERA_OPS_VISION_REGIONS_BOXES_H_
#define TESSERA_OPS_VISION_REGIONS_BOXES_H_

#include <algorithm>

#include "tessera/ops/parameter.h"

/// Boxes in a plane, for operators that compare them.
namespace tessera::ops_internal {

/// The meaning of a box's four numbers.
enum class BoxFormat {
  kCorner,  ///< left, top, right, bottom
  kCenter,  ///< x and y of the centre, width, height
};

/// Declares a parameter that is a box's format.
template <typename Parameters>
void DeclareBoxFormat(ParameterSchema<Parameters>& schema, const char* name,
                      BoxFormat Parameters::*member, const char* description) {
  schema.Choice(name, member, {{"center", BoxFormat::kCenter}, {"corner", BoxFormat::kCorner}},
                description);
}

/// A box by its corners. T is float or double.
template <typename T>
struct Box {
  Box(const T* n, BoxFormat format) {
    const bool center = format == BoxFormat::kCenter;
    const T half_width = center ? n[2] / 2 : T(0), half_height = center ? n[3] / 2 : T(0);
    left = n[0] - half_width;
    top = n[1] - half_height;
    right = center ? n[0] + half_width : n[2];
    bottom = center ? n[1] + half_height : n[3];
    const T width = center ? n[2] : n[2] - n[0], height = center ? n[3] : n[3] - n[1];
    area = width > 0 && height > 0 ? width * height : T(0);
  }

  T left, top, right, bottom;
  T area;  ///< 0 for a box turned inside out
};

/// Returns the area that two boxes share, divided by that which they cover; 0 if they share none.
template <typename T>
T OverlapOf(const Box<T>& a, const Box<T>& b) {
  const T width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const T height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  const T both = width * height;
  return width > 0 && height > 0 ? both / (a.area + b.area - both) : T(0);
}

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_VISION_REGIONS_BOXES_H_
