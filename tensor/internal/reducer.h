#ifndef TESSERA_TENSOR_INTERNAL_REDUCER_H_
#define TESSERA_TENSOR_INTERNAL_REDUCER_H_

#include <algorithm>
#include <array>
#include <type_traits>

#include "tessera/tensor/dense.h"
#include "tessera/tensor/internal/adapted_reducer.h"
#include "tessera/tensor/reduce.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The type in which Red reduces elements of T; only a sum needs more than T has.
template <typename Red, typename T>
using ReducedIn = std::conditional_t<std::is_integral_v<T> && !std::is_same_v<Red, red::sum>, T,
                                     typename AccumulateIn<T>::type>;

/// Which elements of a CPU expression a reduction over rows takes: elements [begin, end) of the
/// `count` rows first, first + step, and so on.
struct RowsToReduce {
  index_t first;
  index_t step;
  index_t count;
};

/// out[i] = Red over the rows of element begin + i. The rows are taken in order, a block of columns
/// at a time, so that partial results stay in the nearest cache.
template <typename Red, typename E>
void ReduceRows(const E& expression, const RowsToReduce& rows, index_t begin, index_t end,
                typename E::value_type* out) {
  using T = typename E::value_type;
  using Accumulator = ReducedIn<Red, T>;
  using Op = typename Red::OPType;
  constexpr index_t kBlock = 256;
  const E e = expression;
  alignas(64) std::array<Accumulator, kBlock> results;
  for (index_t x = begin; x < end; x += kBlock) {
    const index_t count = std::min(kBlock, end - x);
    std::fill_n(results.data(), count, Red::template InitialValue<Accumulator>());
    for (index_t k = 0; k < rows.count; ++k) {
      const index_t y = rows.first + k * rows.step;
      index_t i = 0;
      if constexpr (E::kHasPacket && PacketTraits<T>::kVectorizable && HasBinaryPacket<Op, T> &&
                    std::is_same_v<T, Accumulator>) {
        using P = typename PacketTraits<T>::type;
        for (; i + PacketTraits<T>::kSize <= count; i += PacketTraits<T>::kSize) {
          Accumulator* const at = results.data() + i;
          pk::pstoreu(at, MapPackets<Op>(pk::ploadu<P>(at), e.template EvalPacket<P>(y, x + i)));
        }
      }
      for (; i < count; ++i) {
        Accumulator& result = results[static_cast<size_t>(i)];
        result = Op::Map(result, static_cast<Accumulator>(e.Eval(y, x + i)));
      }
    }
    for (index_t i = 0; i < count; ++i) *out++ = static_cast<T>(results[static_cast<size_t>(i)]);
  }
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_INTERNAL_REDUCER_H_
