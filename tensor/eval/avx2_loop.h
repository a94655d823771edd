#ifndef TESSERA_TENSOR_EVAL_AVX2_LOOP_H_
#define TESSERA_TENSOR_EVAL_AVX2_LOOP_H_

#include <tuple>
#include <type_traits>

#include "tessera/tensor/device/copy_bytes.h"
#include "tessera/tensor/expr/expression.h"
#include "tessera/tensor/functors/reducers.h"
#include "tessera/tensor/packet/avx2_packet.h"

/// Loops over a row: in AVX2 packets, and over elements that have no packets.
namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Combines one element with a value: *dst = Saver(*dst, value).
template <typename Saver, typename T>
TESSERA_HD void SaveElement(T* dst, T value) {
  if constexpr (std::is_same_v<Saver, sv::saveto>) {
    *dst = value;
  } else {
    *dst = Saver::OPType::Map(*dst, value);
  }
}

/// The number of elements of a row from which AVX2 packets pay for the call of their loop.
inline constexpr index_t kMinAvx2Row = 32;

/// The number of elements of a row from which AVX2 packets of E pay for the call of their loop.
template <typename T, typename E>
inline constexpr index_t kMinAvx2RowOf = kMinAvx2Row;
/// The number of elements for an E that has no packets except AVX2 ones: one packet of floats.
template <typename T, typename E>
requires(!E::kHasPacket) inline constexpr index_t kMinAvx2RowOf<T, E> = 8;

/// True if E names elements in memory, or one number, and computes nothing.
template <typename E>
inline constexpr bool kHasNoOperands = std::tuple_size_v<OperandTupleOf<E>> == 0;

/// Returns true if E and Saver have a form for AVX2 packets of T. The result is false for elements
/// of half_t that are only copied. These are copied in longer vectors, as other elements of 2 bytes
/// are.
template <typename Saver, typename T, typename E>
constexpr bool FitsAvx2Packets() {
  if constexpr (std::is_same_v<T, half_t> && std::is_same_v<Saver, sv::saveto> &&
                kHasNoOperands<E>) {
    return false;
  }
  return kHasAvx2PacketsOf<T> && HasAvx2Packet<E>() && HasAvx2PacketOf<typename Saver::OPType, T>();
}

/// With kStreamed, results go past the caches from a multiple of 32 bytes on; only by sv::saveto.
using tensor_internal::Stores;

/// Evaluates elements of row y from `begin` on, two AVX2 packets at a time as long as two fit
/// before `end`. An E without other packets takes a last one alone. `row` is the address of the
/// row's element 0. Returns the first element that is left. Requires: RunsAvx2().
template <typename Saver, typename T, typename E>
TESSERA_AVX2_LOOP index_t EvaluateAvx2(T* row, const E e, index_t y, index_t begin, index_t end,
                                       Stores stores = Stores::kCached) {
  using P = Avx2Packet<T>;
  constexpr index_t kSize = P::kSize;
  index_t x = begin;
  for (; x + 2 * kSize <= end; x += 2 * kSize) {
    P first = e.template EvalPacket<P>(y, x);
    P second = e.template EvalPacket<P>(y, x + kSize);
    if constexpr (std::is_same_v<Saver, sv::saveto>) {
      if (stores == Stores::kStreamed) {
        tensor_internal::StreamAvx2(row + x, first);
        tensor_internal::StreamAvx2(row + x + kSize, second);
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
  if (stores == Stores::kStreamed) tensor_internal::FenceStreamed();
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

/// Returns true if elements of E are computed in blocks, which the compiler vectorizes. E is
/// numeric and depends only on the operands' elements at the same index. Conversions between 8-byte
/// integers and floating-point values are excluded, because they have no vector instructions before
/// AVX-512.
template <typename E>
constexpr bool FitsBlocks();
/// True if FitsBlocks is true for all of a tuple of expressions.
template <typename Tuple>
struct AllFitBlocks;
template <typename... E>
struct AllFitBlocks<std::tuple<E...>> {
  static constexpr bool value = (FitsBlocks<E>() && ...);
};
/// True if E converts 8-byte integers to floating-point values, or the reverse.
template <typename E>
inline constexpr bool kConvertsLongs = false;
/// True for a TypecastExp between an 8-byte integer type and a floating-point type.
template <typename T, typename A>
inline constexpr bool kConvertsLongs<TypecastExp<T, A>> =
    std::is_integral_v<T> != std::is_integral_v<typename A::value_type> &&
    (std::is_integral_v<T> ? sizeof(T) : sizeof(typename A::value_type)) == 8;
/// True if elements of E's own type can be in vectors. Elements of half_t can be if they are copied
/// or converted. Arithmetic on half_t cannot: it rounds each result by branches, which are faster
/// without vectors, and it has AVX2 packets.
template <typename E, typename T = typename E::value_type>
inline constexpr bool kHasVectors = std::is_arithmetic_v<T> || std::is_same_v<T, bfloat16_t>;
/// True for half_t elements that are only copied.
template <typename E>
inline constexpr bool kHasVectors<E, half_t> = kHasNoOperands<E>;
/// True for a conversion to half_t.
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

/// Returns true if the functors of E read and write no memory of their own. Functors of Tessera do
/// not, nor do a program's functors that derive from WideFunctor.
template <typename E>
constexpr bool KeepsNoState();
/// True if a node has no functor of its own, or one that keeps no state.
template <typename E>
inline constexpr bool kFunctorKeepsNoState = true;
/// True if a functor of one operand keeps no state.
template <typename Op, typename A>
inline constexpr bool kFunctorKeepsNoState<UnaryMapExp<Op, A>> = HasAvx2Packet<Op>();
/// True if a functor of two operands keeps no state.
template <typename Op, typename A, typename B>
inline constexpr bool kFunctorKeepsNoState<BinaryMapExp<Op, A, B>> = HasAvx2Packet<Op>();
/// True if a functor of three operands keeps no state.
template <typename Op, typename A, typename B, typename C>
inline constexpr bool kFunctorKeepsNoState<TernaryMapExp<Op, A, B, C>> = HasAvx2Packet<Op>();
template <typename E>
constexpr bool KeepsNoState() {
  return kFunctorKeepsNoState<E> && []<typename... Part>(std::type_identity<std::tuple<Part...>>) {
    return (KeepsNoState<Part>() && ...);
  }(std::type_identity<OperandTupleOf<E>>());
}

#if defined(__clang__)
/// States that no iteration of a loop reads what another one writes, at least at other indices.
#define TESSERA_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__) && !defined(__CUDACC__)
#define TESSERA_INDEPENDENT _Pragma("GCC ivdep")
#else
#define TESSERA_INDEPENDENT
#endif

/// The number of elements of a block. It is a constant, so that GCC vectorizes the loop at -O2 too.
inline constexpr index_t kElementBlock = 32;

/// Evaluates elements of row y from `begin` on, as long as blocks fit before `end`. `row` is the
/// address of the row's element 0. Returns the first element that is left. Requires: e reads none
/// of these elements at other indices.
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
      // The results go through a local block, so that the compiler need assume nothing about the
      // functor.
      T block[kElementBlock];
      for (index_t i = 0; i < kElementBlock; ++i) block[i] = static_cast<T>(e.Eval(y, x + i));
      for (index_t i = 0; i < kElementBlock; ++i) SaveElement<Saver>(row + x + i, block[i]);
    }
  }
  return x;
}
#undef TESSERA_INDEPENDENT

/// Evaluates blocks like EvaluateBlocks, compiled for AVX2. Requires: RunsAvx2().
template <typename Saver, typename T, typename E>
TESSERA_AVX2_LOOP index_t EvaluateBlocksAvx2(T* row, const E e, index_t y, index_t begin,
                                             index_t end) {
  return EvaluateBlocks<Saver>(row, e, y, begin, end);
}

/// Evaluates blocks like EvaluateBlocks, for the instruction set of the machine. E has no packets.
/// Returns `begin` unless FitsBlocks<E>() is true.
template <typename Saver, typename T, typename E>
[[gnu::always_inline]] inline index_t EvaluateInBlocks(T* row, const E& e, index_t y, index_t begin,
                                                       index_t end) {
  if constexpr (FitsBlocks<E>()) {
    if constexpr (!FitsAvx2Packets<Saver, T, E>()) {
      if (end - begin >= 2 * kElementBlock && RunsAvx2()) {
        return EvaluateBlocksAvx2<Saver>(row, e, y, begin, end);
      }
    }
    return EvaluateBlocks<Saver>(row, e, y, begin, end);
  }
  return begin;
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_EVAL_AVX2_LOOP_H_
