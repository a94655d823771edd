#ifndef TESSERA_TENSOR_EVAL_SPAN_H_
#define TESSERA_TENSOR_EVAL_SPAN_H_

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tessera/tensor/eval/avx2_loop.h"
#include "tessera/tensor/eval/block_prefetch.h"
#include "tessera/tensor/expr/array_kernel_node.h"
#include "tessera/tensor/expr/at_row.h"
#include "tessera/tensor/expr/expression.h"

/// Evaluates rows of expressions that hold costly functions (exp, log, tanh, …), or nodes with
/// loops of their own (a reduction along an axis, a padded image). Such parts run over blocks of
/// elements in buffers. The functions run as array kernels for the machine's instruction set. The
/// rest of the expression runs over the buffers.
namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

template <typename E>
void EvaluateBlock(const E& e, index_t y, index_t begin, index_t count, typename E::value_type* out,
                   BlockPrefetch* ahead);

/// A block: elements [begin, begin + count) of row y of an operand. The elements of the expression
/// above the operand go to `out`.
template <typename E>
struct BlockOf {
  const E& e;
  index_t y, begin, count;
  typename E::value_type* out;
  BlockPrefetch* ahead;
};

/// The place where the loop over a block, or an array kernel of two operands, finds an operand.
enum class BlockPlace {
  kNode,    ///< in the operand itself
  kBuffer,  ///< in a buffer: it holds array kernels, or a kernel needs it in memory
  kResult,  ///< in the result's memory, because it is the only operand read
};

/// Returns the place of E among all the operands of a node.
template <typename E, typename... Operand>
constexpr BlockPlace BlockPlaceOf() {
  if constexpr (!HoldsSpans<E>()) {
    return BlockPlace::kNode;
  } else {
    return (0 + ... + int{!kIsNumber<Operand>}) == 1 ? BlockPlace::kResult : BlockPlace::kBuffer;
  }
}

/// Returns the place of operand E of an array kernel of two operands. The other operand is Other.
template <typename E, typename Other>
constexpr BlockPlace KernelPlaceOf() {
  if constexpr (kReadInPlace<E>) {
    return BlockPlace::kNode;
  } else {
    return kIsNumber<Other> ? BlockPlace::kResult : BlockPlace::kBuffer;
  }
}

/// An operand as the loop over a block reads it. The constructor evaluates the block unless the
/// place is kNode.
template <typename E, BlockPlace kPlace>
class BlockOperand {
 public:
  explicit BlockOperand(const BlockOf<E>& block) : e_(block.e) {}
  const E& node() const { return e_; }

 private:
  const E& e_;
};
template <typename E>
class BlockOperand<E, BlockPlace::kBuffer> {
 public:
  using T = typename E::value_type;

  explicit BlockOperand(const BlockOf<E>& block) : begin_(block.begin) {
    EvaluateBlock(block.e, block.y, block.begin, block.count, buffer_, block.ahead);
  }
  BlockExp<T> node() const { return BlockExp<T>(buffer_ - begin_); }

 private:
  index_t begin_;
  T buffer_[kSpanBlock<T>];
};
template <typename E>
class BlockOperand<E, BlockPlace::kResult> {
 public:
  using T = typename E::value_type;

  explicit BlockOperand(const BlockOf<E>& block) : node_(block.out - block.begin) {
    EvaluateBlock(block.e, block.y, block.begin, block.count, block.out, block.ahead);
  }
  const BlockExp<T>& node() const { return node_; }

 private:
  BlockExp<T> node_;
};

/// Returns the elements of row y from `begin` on, as an array kernel of two operands reads them.
/// They are elements of a tensor, elements of an evaluated block, or one number for all.
template <typename E>
op::ArrayOperand<typename E::value_type> KernelOperand(const E& e, index_t y, index_t begin) {
  if constexpr (kIsNumber<E>) {
    return {.data = &e.value, .repeats = true};
  } else if constexpr (kIsTensor<E>) {
    return {.data = e.dptr_ + y * e.stride_ + begin};
  } else {
    return {.data = e.data + begin};
  }
}

/// Computes out[i] = element begin + i of row y, in packets if there are any. The expression is
/// passed by value: no other code has the copy's address. Its fields therefore stay in registers
/// although packet stores may alias anything.
template <typename E, typename T>
void EvaluatePackets(const E e, index_t y, index_t begin, index_t count, T* out) {
  if constexpr (HasAtRow<E>) {
    EvaluatePackets(AtRow(e, y), y, begin, count, out);
  } else {
    index_t i = 0;
    if constexpr (FitsAvx2Packets<sv::saveto, T, E>()) {
      if (count >= kMinAvx2RowOf<T, E> && RunsAvx2()) {
        i = EvaluateAvx2<sv::saveto>(out - begin, e, y, begin, begin + count) - begin;
      }
    }
    if constexpr (E::kHasPacket && PacketTraits<T>::kVectorizable) {
      using P = typename PacketTraits<T>::type;
      constexpr index_t kSize = PacketTraits<T>::kSize;
      for (; i + kSize <= count; i += kSize) {
        pk::pstoreu(out + i, e.template EvalPacket<P>(y, begin + i));
      }
    } else {
      i = EvaluateInBlocks<sv::saveto>(out - begin, e, y, begin + i, begin + count) - begin;
    }
    for (; i < count; ++i) out[i] = e.Eval(y, begin + i);
  }
}

/// Computes out[i] = element begin + i of row y of a node for whose operands HoldsSpans is true.
/// The operands are evaluated in blocks. Most nodes have one or two operands: these overloads are
/// written out, because they compile faster than a visitor.
template <typename Op, typename A>
void EvaluateOverBlocks(const UnaryMapExp<Op, A>& e, index_t y, index_t begin, index_t count,
                        typename A::value_type* out, BlockPrefetch* ahead) {
  const BlockOperand<A, BlockPlaceOf<A, A>()> a(BlockOf<A>{e.a, y, begin, count, out, ahead});
  EvaluatePackets(e.WithOperands(a.node()), y, begin, count, out);
}
template <typename Op, typename A, typename B>
void EvaluateOverBlocks(const BinaryMapExp<Op, A, B>& e, index_t y, index_t begin, index_t count,
                        typename A::value_type* out, BlockPrefetch* ahead) {
  const BlockOperand<A, BlockPlaceOf<A, A, B>()> a(BlockOf<A>{e.a, y, begin, count, out, ahead});
  const BlockOperand<B, BlockPlaceOf<B, A, B>()> b(BlockOf<B>{e.b, y, begin, count, out, ahead});
  EvaluatePackets(e.WithOperands(a.node(), b.node()), y, begin, count, out);
}
template <typename E>
void EvaluateOverBlocks(const E& e, index_t y, index_t begin, index_t count,
                        typename E::value_type* out, BlockPrefetch* ahead) {
  VisitOperands(e, [&]<typename... Operand>(const Operand&... operand) {
    const auto evaluate = [&](const auto&... block) {
      EvaluatePackets(e.WithOperands(block.node()...), y, begin, count, out);
    };
    evaluate(BlockOperand<Operand, BlockPlaceOf<Operand, Operand...>()>(
        BlockOf<Operand>{operand, y, begin, count, out, ahead})...);
  });
}

/// Computes out[i] = element begin + i of row y, with array kernels if there are any. Requires:
/// count <= kSpanBlock<T>.
template <typename E>
void EvaluateBlock(const E& e, index_t y, index_t begin, index_t count, typename E::value_type* out,
                   BlockPrefetch* ahead) {
  if constexpr (HasArrayKernel<E>::value) {
    using Function = typename HasArrayKernel<E>::Function;
    const auto [node, change] = ArrayKernelInputOf(e.a);
    if constexpr (ArrayKernelOfTensor<E>) {
      Function::ArrayKernel(node.dptr_ + y * node.stride_ + begin, out, count, change,
                            ahead->Take());
    } else {
      EvaluateBlock(node, y, begin, count, out, ahead);
      Function::ArrayKernel(out, out, count, change, ahead->Take());
    }
  } else if constexpr (HasArrayKernelOfTwo<E>::value) {
    using Function = typename HasArrayKernelOfTwo<E>::Function;
    using A = typename HasArrayKernelOfTwo<E>::First;
    using B = typename HasArrayKernelOfTwo<E>::Second;
    const BlockOperand<A, KernelPlaceOf<A, B>()> a(BlockOf<A>{e.a, y, begin, count, out, ahead});
    const BlockOperand<B, KernelPlaceOf<B, A>()> b(BlockOf<B>{e.b, y, begin, count, out, ahead});
    Function::ArrayKernel(KernelOperand(a.node(), y, begin), KernelOperand(b.node(), y, begin), out,
                          count);
  } else if constexpr (!HoldsSpans<E>()) {
    EvaluatePackets(e, y, begin, count, out);
  } else if constexpr (MovesElements<E>()) {
    e.EvalRow(y, begin, begin + count, out);
  } else if constexpr (kConverts<E>) {
    using From = typename decltype(e.a)::value_type;
    From buffer[kSpanBlock<From>];
    BlockPrefetch none;
    for (index_t i = 0; i < count; i += kSpanBlock<From>) {
      const index_t size = std::min(kSpanBlock<From>, count - i), x = begin + i;
      EvaluateBlock(e.a, y, x, size, buffer, &none);
      EvaluatePackets(e.WithOperands(BlockExp<From>(buffer - x)), y, x, size, out + i);
    }
  } else {
    EvaluateOverBlocks(e, y, begin, count, out, ahead);
  }
}

/// Calls body(x, size, ahead) for each block of elements [begin, begin + count) of row y of e,
/// whose results go to `out`.
template <typename E, typename Body>
void ForEachBlock(const E& e, index_t y, index_t begin, index_t count,
                  const typename E::value_type* out, const Body& body) {
  constexpr index_t kBlock = kSpanBlock<typename E::value_type>;
  BlockPrefetch ahead;
  if (count > kBlock) ahead.Begin(e, y, begin + kBlock, out + kBlock);
  // One call serves all blocks, the last one too: it is most of what an expression compiles to.
  for (index_t i = 0; i < count; i += kBlock) {
    if (i + kBlock >= count) ahead.Clear();
    body(begin + i, std::min(kBlock, count - i), &ahead);
    ahead.MoveOn();
  }
}

/// Computes out[i] = element begin + i of row y, with array kernels if there are any, for any
/// count.
template <typename E>
void EvaluateSpans(const E& e, index_t y, index_t begin, index_t count,
                   typename E::value_type* out) {
  if constexpr (ArrayKernelOfTensor<E>) {
    BlockPrefetch none;
    EvaluateBlock(e, y, begin, count, out, &none);  // needs no buffer
  } else {
    ForEachBlock(e, y, begin, count, out, [&](index_t x, index_t size, BlockPrefetch* ahead) {
      EvaluateBlock(e, y, x, size, out + (x - begin), ahead);
    });
  }
}

/// A condition for RestIsIn: kHolds is true if the loop over a node runs in packets.
struct FitsPackets {
  template <typename E>
  static constexpr bool kHolds = E::kHasPacket;
};
/// A condition for RestIsIn: kHolds is true if the loop over a node runs in packets or in blocks
/// that the compiler vectorizes.
struct FitsVectors {
  template <typename E>
  static constexpr bool kHolds = E::kHasPacket || FitsBlocks<E>();
};
/// A condition for RestIsIn: kHolds is true if the loop over a node runs in AVX2 packets.
struct FitsAvx2 {
  template <typename E>
  static constexpr bool kHolds = FitsAvx2Packets<sv::saveto, typename E::value_type, E>();
};

template <typename Fits, typename E>
constexpr bool RestIsIn();

/// Implements RestIsIn for a node over its operands' blocks.
template <typename Fits, typename E, typename Operands>
struct BlocksAreIn;
template <typename Fits, typename E, typename... Operand>
struct BlocksAreIn<Fits, E, std::tuple<Operand...>> {
  using OverBlocks = decltype(std::declval<const E&>().WithOperands(
      std::declval<const BlockOperand<Operand, BlockPlaceOf<Operand, Operand...>()>&>().node()...));
  static constexpr bool value = Fits::template kHolds<OverBlocks> &&
                                ((!HoldsSpans<Operand>() || RestIsIn<Fits, Operand>()) && ...);
};

/// Returns true if all loops of EvaluateBlock satisfy the condition Fits, except those of array
/// kernels and of nodes with a loop of their own.
template <typename Fits, typename E>
constexpr bool RestIsIn() {
  if constexpr (HasArrayKernel<E>::value) {
    return RestIsIn<Fits, ArrayKernelNode<E>>();
  } else if constexpr (HasArrayKernelOfTwo<E>::value) {
    return RestIsIn<Fits, typename HasArrayKernelOfTwo<E>::First>() &&
           RestIsIn<Fits, typename HasArrayKernelOfTwo<E>::Second>();
  } else if constexpr (!HoldsSpans<E>()) {
    return Fits::template kHolds<E>;
  } else if constexpr (MovesElements<E>()) {
    return true;
  } else {
    return BlocksAreIn<Fits, E, OperandTupleOf<E>>::value;
  }
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_EVAL_SPAN_H_
