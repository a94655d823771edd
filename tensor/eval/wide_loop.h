#ifndef TESSERA_TENSOR_EVAL_WIDE_LOOP_H_
#define TESSERA_TENSOR_EVAL_WIDE_LOOP_H_

#include <tuple>
#include <type_traits>

#include "tessera/tensor/expr/expression.h"
#include "tessera/tensor/functors/reducers.h"
#include "tessera/tensor/packet/wide_packet.h"

/// The loops over a row: in wide packets, and over elements that have none.
namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Combines one element: dst = Saver(dst, value).
template <typename Saver, typename T>
TESSERA_HD void SaveElement(T* dst, T value) {
  if constexpr (std::is_same_v<Saver, sv::saveto>) {
    *dst = value;
  } else {
    *dst = Saver::OPType::Map(*dst, value);
  }
}

/// Elements of a row from which wide packets pay for the call of their loop.
inline constexpr index_t kMinWideRow = 32;

/// The same of a loop over E: where there are no packets but wide ones, one of these.
template <typename T, typename E>
inline constexpr index_t kMinWideRowOf = kMinWideRow;
/// As above.
template <typename T, typename E>
requires(!E::kHasPacket) inline constexpr index_t kMinWideRowOf<T, E> = 8;

/// Whether E names elements that are there, or one number, and computes nothing.
template <typename E>
inline constexpr bool kHasNoOperands = std::tuple_size_v<OperandTupleOf<E>> == 0;

/// Whether E and Saver have a form over wide packets of T. Numbers of half_t that are only copied
/// are so in longer vectors, as others of 2 bytes.
template <typename Saver, typename T, typename E>
constexpr bool FitsWidePackets() {
  if constexpr (std::is_same_v<T, half_t> && std::is_same_v<Saver, sv::saveto> &&
                kHasNoOperands<E>) {
    return false;
  }
  return kHasWidePacketsOf<T> && HasWidePacket<E>() && HasWidePacketOf<typename Saver::OPType, T>();
}

/// Where a loop's results go.
enum class Stores {
  kCached,    ///< into the caches, as usual
  kStreamed,  ///< past them, from a multiple of 32 bytes on; only by sv::saveto
};

/// Evaluates elements from `begin` on of row y, whose element 0 lies at `row`, as long as two
/// packets fit before `end`, or one of an E without others; returns the first element that is left.
/// RunsWide() must be true.
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
  if constexpr (!E::kHasPacket) {
    if (x + kSize <= end) {
      P last = e.template EvalPacket<P>(y, x);
      if constexpr (!std::is_same_v<Saver, sv::saveto>) {
        last = MapPackets<typename Saver::OPType>(pk::ploadu<P>(row + x), last);
      }
      pk::pstoreu(row + x, last);
      x += kSize;
    }
  }
  return x;
}

/// Whether elements of E are computed in blocks which the compiler puts into vectors: those of
/// numbers that depend on the operands' at the same place. Whole numbers of 8 bytes have no vectors
/// of real ones to go to before AVX-512, or from.
template <typename E>
constexpr bool FitsBlocks();
/// FitsBlocks of all of a tuple of expressions.
template <typename Tuple>
struct AllFitBlocks;
template <typename... E>
struct AllFitBlocks<std::tuple<E...>> {
  static constexpr bool value = (FitsBlocks<E>() && ...);
};
/// Whether E converts whole numbers of 8 bytes to real ones, or these to such.
template <typename E>
inline constexpr bool kConvertsLongs = false;
/// As above.
template <typename T, typename A>
inline constexpr bool kConvertsLongs<TypecastExp<T, A>> =
    std::is_integral_v<T> != std::is_integral_v<typename A::value_type> &&
    (std::is_integral_v<T> ? sizeof(T) : sizeof(typename A::value_type)) == 8;
/// Whether elements of E's own type can be in vectors. Those of half_t are where they are copied or
/// converted: arithmetic rounds each result by branches, which alone are faster, and goes in wide
/// packets.
template <typename E, typename T = typename E::value_type>
inline constexpr bool kHasVectors = std::is_arithmetic_v<T> || std::is_same_v<T, bfloat16_t>;
/// As above.
template <typename E>
inline constexpr bool kHasVectors<E, half_t> = kHasNoOperands<E>;
/// As above.
template <typename A>
inline constexpr bool kHasVectors<TypecastExp<half_t, A>, half_t> = true;

template <typename E>
constexpr bool FitsBlocks() {
  constexpr bool kStores = requires(const E& e) { e.Stored(); };
  constexpr bool kStays = (E::kForm | form::kMapped) == form::kMapped;
  if constexpr (!kHasVectors<E> || !kStays || kStores || kConvertsLongs<E>) {
    return false;
  } else {
    return AllFitBlocks<OperandTupleOf<E>>::value;
  }
}

/// Whether the functors of E read and write no memory of their own: Tessera's do not, and those of
/// a program's that derive from WideFunctor.
template <typename E>
constexpr bool KeepsNoState();
/// Whether a node's own functor, if it has one, does.
template <typename E>
inline constexpr bool kFunctorKeepsNoState = true;
/// As above.
template <typename Op, typename A>
inline constexpr bool kFunctorKeepsNoState<UnaryMapExp<Op, A>> = HasWidePacket<Op>();
/// As above.
template <typename Op, typename A, typename B>
inline constexpr bool kFunctorKeepsNoState<BinaryMapExp<Op, A, B>> = HasWidePacket<Op>();
/// As above.
template <typename Op, typename A, typename B, typename C>
inline constexpr bool kFunctorKeepsNoState<TernaryMapExp<Op, A, B, C>> = HasWidePacket<Op>();
template <typename E>
constexpr bool KeepsNoState() {
  return kFunctorKeepsNoState<E> && []<typename... Part>(std::type_identity<std::tuple<Part...>>) {
    return (KeepsNoState<Part>() && ...);
  }(std::type_identity<OperandTupleOf<E>>());
}

#if defined(__clang__)
/// Says that no element of a loop reads what another one writes, under other indices at least.
#define TESSERA_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__) && !defined(__CUDACC__)
#define TESSERA_INDEPENDENT _Pragma("GCC ivdep")
#else
#define TESSERA_INDEPENDENT
#endif

/// Elements of a block. Since their number is known, GCC puts the loop into vectors at -O2 too.
inline constexpr index_t kElementBlock = 32;

/// Evaluates elements from `begin` on of row y, whose element 0 lies at `row`, as long as blocks
/// fit before `end`; returns the first element that is left. Nothing that e reads under other
/// indices lies there.
template <typename Saver, typename T, typename E>
[[gnu::always_inline]] inline index_t EvaluateBlocks(T* row, const E& e, index_t y, index_t begin,
                                                     index_t end) {
  index_t x = begin;
  for (; x + kElementBlock <= end; x += kElementBlock) {
    if constexpr (KeepsNoState<E>()) {
      TESSERA_INDEPENDENT
      for (index_t i = 0; i < kElementBlock; ++i) {
        SaveElement<Saver>(row + x + i, static_cast<T>(e.Eval(y, x + i)));
      }
    } else {
      // Through memory that is nobody else's: the compiler need suppose nothing about the functor.
      T block[kElementBlock];
      for (index_t i = 0; i < kElementBlock; ++i) block[i] = static_cast<T>(e.Eval(y, x + i));
      for (index_t i = 0; i < kElementBlock; ++i) SaveElement<Saver>(row + x + i, block[i]);
    }
  }
  return x;
}
#undef TESSERA_INDEPENDENT

/// The same for AVX2. RunsWide() must be true.
template <typename Saver, typename T, typename E>
TESSERA_WIDE_LOOP index_t EvaluateBlocksWide(T* row, const E e, index_t y, index_t begin,
                                             index_t end) {
  return EvaluateBlocks<Saver>(row, e, y, begin, end);
}

/// The same for the instructions that the machine has, of an E without packets that FitsBlocks.
template <typename Saver, typename T, typename E>
[[gnu::always_inline]] inline index_t EvaluateInBlocks(T* row, const E& e, index_t y, index_t begin,
                                                       index_t end) {
  if constexpr (FitsBlocks<E>()) {
    if constexpr (!FitsWidePackets<Saver, T, E>()) {
      if (end - begin >= 2 * kElementBlock && RunsWide()) {
        return EvaluateBlocksWide<Saver>(row, e, y, begin, end);
      }
    }
    return EvaluateBlocks<Saver>(row, e, y, begin, end);
  }
  return begin;
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_EVAL_WIDE_LOOP_H_
