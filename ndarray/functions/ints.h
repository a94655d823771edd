#ifndef TESSERA_NDARRAY_FUNCTIONS_INTS_H_
#define TESSERA_NDARRAY_FUNCTIONS_INTS_H_

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "tessera/base/tshape.h"

namespace tessera::ops {

/// A tuple of integers as a parameter: axes, extents, positions. Some parameters may also be None.
/// `.axis = 1`, `.axis = {0, 2}`, `.axis = std::nullopt` and `.shape = x.shape()` all work.
class Ints {
 public:
  /// Constructs an empty tuple.
  Ints() = default;
  /// Constructs None.
  Ints(std::nullopt_t) : is_none_(true) {}  // NOLINT: replaces a plain member
  /// Convert from the elements. A shape of unknown rank is None.
  Ints(int64_t element) : values_{element} {}                            // NOLINT
  Ints(std::initializer_list<int64_t> elements) : values_(elements) {}   // NOLINT
  Ints(std::vector<int64_t> elements) : values_(std::move(elements)) {}  // NOLINT
  Ints(const TShape& shape)                                              // NOLINT
      : is_none_(!shape.rank_known()), values_(shape.begin(), shape.end()) {}

  /// Returns whether the parameter is None. It then has no elements.
  bool is_none() const { return is_none_; }
  /// Returns the elements.
  const std::vector<int64_t>& values() const { return values_; }

 private:
  bool is_none_ = false;
  std::vector<int64_t> values_;
};

}  // namespace tessera::ops

#endif  // TESSERA_NDARRAY_FUNCTIONS_INTS_H_
