#ifndef TESSERA_TENSOR_WIDE_LOOP_H_
#define TESSERA_TENSOR_WIDE_LOOP_H_

#include <type_traits>

#include "tessera/tensor/expression.h"
#include "tessera/tensor/reducers.h"
#include "tessera/tensor/wide_packet.h"

/// The loop over a row in wide packets.
namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Elements of a row from which wide packets pay for the call of their loop.
inline constexpr index_t kMinWideRow = 32;

/// Whether E and Saver have a form over wide packets of T.
template <typename Saver, typename T, typename E>
constexpr bool FitsWidePackets() {
  return kHasWidePacketsOf<T> && HasWidePacket<E>() && HasWidePacket<typename Saver::OPType>();
}

/// Where a loop's results go.
enum class Stores {
  kCached,    ///< into the caches, as usual
  kStreamed,  ///< past them, from a multiple of 32 bytes on; only by sv::saveto
};

/// Evaluates elements from `begin` on of row y, whose element 0 lies at `row`, as long as two
/// packets fit before `end`; returns the first element that is left. RunsWide() must be true.
template <typename Saver, typename T, typename E>
TESSERA_WIDE_LOOP index_t EvaluateWide(T* row, const E e, index_t y, index_t begin, index_t end,
                                       Stores stores = Stores::kCached) {
  using P = WidePacket<T>;
  constexpr index_t kSize = P::kSize;
  index_t x = begin;
  for (; x + 2 * kSize <= end; x += 2 * kSize) {
    P first = e.template EvalPacket<P>(y, x);
    P second = e.template EvalPacket<P>(y, x + kSize);
    if constexpr (std::is_same_v<Saver, sv::saveto>) {
      if (stores == Stores::kStreamed) {
        StreamWide(row + x, first);
        StreamWide(row + x + kSize, second);
        continue;
      }
    } else {
      using Op = typename Saver::OPType;
      first = MapPackets<Op>(pk::ploadu<P>(row + x), first);
      second = MapPackets<Op>(pk::ploadu<P>(row + x + kSize), second);
    }
    pk::pstoreu(row + x, first);
    pk::pstoreu(row + x + kSize, second);
  }
  if (stores == Stores::kStreamed) FenceStreamed();
  return x;
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_WIDE_LOOP_H_
