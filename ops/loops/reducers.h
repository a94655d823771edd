#ifndef TESSERA_OPS_LOOPS_REDUCERS_H_
#define TESSERA_OPS_LOOPS_REDUCERS_H_

#include <limits>
#include <type_traits>

#include "tessera/base/host_device.h"
#include "tessera/tensor/functors.h"

/// Reducers: Identity<T>() is the reduction of nothing, Map(x) what an element contributes, and
/// Combine(a, b) of two contributions or totals is commutative and associative but for rounding.
namespace tessera::ops_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// The base of reducers to which an element contributes itself.
struct PlainReducer {
  template <typename T>
  TESSERA_HD static T Map(T x) {
    return x;
  }
};

/// A sum. Integers wrap around.
struct SumReducer : PlainReducer {
  template <typename T>
  TESSERA_HD static T Identity() {
    return T(0);
  }
  template <typename T>
  TESSERA_HD static T Combine(T a, T b) {
    return op::plus::Map(a, b);
  }
};
/// A sum of squares.
struct SquareSumReducer : SumReducer {
  template <typename T>
  TESSERA_HD static T Map(T x) {
    return op::mul::Map(x, x);
  }
};
/// A product. Integers wrap around.
struct ProductReducer : PlainReducer {
  template <typename T>
  TESSERA_HD static T Identity() {
    return T(1);
  }
  template <typename T>
  TESSERA_HD static T Combine(T a, T b) {
    return op::mul::Map(a, b);
  }
};
/// The largest element; NaN if any element is NaN.
struct MaximumReducer : PlainReducer {
  template <typename T>
  TESSERA_HD static T Identity() {
    using Limits = std::numeric_limits<T>;
    return std::is_floating_point_v<T> ? -Limits::infinity() : Limits::lowest();
  }
  template <typename T>
  TESSERA_HD static T Combine(T a, T b) {
    return op::maximum::Map(a, b);
  }
};
/// The smallest element; NaN if any element is NaN.
struct MinimumReducer : PlainReducer {
  template <typename T>
  TESSERA_HD static T Identity() {
    using Limits = std::numeric_limits<T>;
    return std::is_floating_point_v<T> ? Limits::infinity() : Limits::max();
  }
  template <typename T>
  TESSERA_HD static T Combine(T a, T b) {
    return op::minimum::Map(a, b);
  }
};

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_REDUCERS_H_
