#ifndef TESSERA_TENSOR_SHAPE_RANGE_H_
#define TESSERA_TENSOR_SHAPE_RANGE_H_

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "tessera/base/checked_size.h"
#include "tessera/tensor/dense/dense.h"

namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The node of the function range.
template <typename T>
struct RangeExp : Exp<RangeExp<T>, T> {
  using value_type = T;
  using device_type = void;
  /// The type in which positions are multiplied, so that each value of a 16-bit type is rounded
  /// once.
  using Wide = std::conditional_t<std::is_same_v<T, double> || std::is_integral_v<T>, T, float>;
  /// The members of a node; see operand.h.
  static constexpr int kRank = 1;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = false;

  Wide start;
  Wide step;
  index_t repeat;
  index_t count;

  RangeExp(T first, T stop, T distance, index_t times)
      : start(static_cast<Wide>(first)), step(static_cast<Wide>(distance)), repeat(times) {
    const double steps =
        (static_cast<double>(stop) - static_cast<double>(first)) / static_cast<double>(distance);
    // The comparison is also false for NaN, which is refused.
    if (!(std::abs(steps) < 0x1p62) || times < 1) {
      throw InvalidArgument("range: from ", static_cast<double>(first), " to ",
                            static_cast<double>(stop), " in steps of ",
                            static_cast<double>(distance), ", each ", times,
                            " times, is no finite sequence");
    }
    index_t values = 0;
    if constexpr (std::is_integral_v<T>) {
      // A double would round integers beyond 2^53.
      const bool up = distance > 0;
      if (up ? first < stop : stop < first) {
        const uint64_t low = static_cast<uint64_t>(up ? first : stop);
        const uint64_t high = static_cast<uint64_t>(up ? stop : first);
        const uint64_t each = static_cast<uint64_t>(distance);
        values = static_cast<index_t>((high - low - 1) / (up ? each : 0 - each)) + 1;
      }
    } else if (steps > 0) {
      values = static_cast<index_t>(std::ceil(steps));
    }
    count = (CheckedSize(values) * times).ValueOrThrow("range: number of elements");
  }

  Shape<1> shape() const { return Shape1(count); }
  TESSERA_HD T Eval(index_t, index_t x) const {
    // A division takes several times as long as all the rest, and most ranges repeat nothing. The
    // test is not `repeat == 1`: a compiler then sees that the division would give the same, and
    // divides.
    const index_t position = repeat > 1 ? x / repeat : x;
    if constexpr (std::is_integral_v<T>) {
      // The type is unsigned, because the step's multiple may overflow where the sum does not.
      using Unsigned = std::conditional_t<sizeof(T) <= 4, uint32_t, uint64_t>;
      return static_cast<T>(static_cast<Unsigned>(start) +
                            static_cast<Unsigned>(position) * static_cast<Unsigned>(step));
    } else {
      return static_cast<T>(start + static_cast<Wide>(position) * step);
    }
  }
  bool IsFlat() const { return true; }
};

/// Returns the vector of the numbers start, start + step, … before stop, each of them `repeat`
/// times. Throws Error(kInvalidArgument) if step is 0, a number is not finite or repeat is less
/// than 1.
template <Scalar T>
requires(!std::is_enum_v<T>) RangeExp<T> range(T start, std::type_identity_t<T> stop,
                                               std::type_identity_t<T> step = T(1),
                                               index_t repeat = 1) {
  return {start, stop, step, repeat};
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::range;

}  // namespace tessera

#endif  // TESSERA_TENSOR_SHAPE_RANGE_H_
