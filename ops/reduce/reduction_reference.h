#ifndef TESSERA_OPS_REDUCE_REDUCTION_REFERENCE_H_
#define TESSERA_OPS_REDUCE_REDUCTION_REFERENCE_H_

#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

// References of reductions.
namespace tessera::ops_testing {

/// Returns which axes a case reduces, from its parameters `name` and exclude, read apart from the
/// code under test.
inline std::vector<bool> ReferenceAxes(const ParameterMap& parameters, int ndim,
                                       const std::string& name = "axis") {
  const ParameterReader reader(parameters);
  const std::string text = reader.Text(name, "None");
  std::vector<bool> reduced(static_cast<size_t>(ndim), text == "None" || text == "()");
  if (reduced.empty() || reduced[0]) return reduced;
  std::string number;
  for (const char c : text + ",") {
    if (c == '-' || (c >= '0' && c <= '9')) {
      number += c;
    } else if (!number.empty()) {
      const int axis = std::stoi(number);
      reduced[static_cast<size_t>(axis < 0 ? axis + ndim : axis)] = true;
      number.clear();
    }
  }
  if (reader.Bool("exclude", false)) reduced.flip();
  return reduced;
}

/// Returns the output that element i contributes to.
inline index_t ReferenceTarget(const TShape& shape, const std::vector<bool>& reduced, index_t i) {
  index_t offset = 0, stride = 1;
  for (int d = shape.ndim() - 1; d >= 0; --d) {
    if (!reduced[static_cast<size_t>(d)]) {
      offset += i % shape[d] * stride;
      stride *= shape[d];
    }
    i /= shape[d];
  }
  return offset;
}

/// Returns the shape of the output.
inline TShape ReferenceShape(const TShape& shape, const std::vector<bool>& reduced, bool keepdims) {
  std::vector<index_t> extents;
  for (int d = 0; d < shape.ndim(); ++d) {
    if (!reduced[static_cast<size_t>(d)]) {
      extents.push_back(shape[d]);
    } else if (keepdims) {
      extents.push_back(1);
    }
  }
  if (extents.empty() && !(shape.ndim() == 0 && keepdims)) extents.push_back(1);
  return TShape(std::span<const index_t>(extents));
}

}  // namespace tessera::ops_testing

#endif  // TESSERA_OPS_REDUCE_REDUCTION_REFERENCE_H_
