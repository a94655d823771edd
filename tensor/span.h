#ifndef TESSERA_TENSOR_SPAN_H_
#define TESSERA_TENSOR_SPAN_H_

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tessera/tensor/cost.h"
#include "tessera/tensor/expression.h"
#include "tessera/tensor/wide_loop.h"

/// Rows of expressions that hold costly functions (exp, log, tanh, …), or nodes with loops of their
/// own (a reduction along an axis, a padded image): these run over blocks of elements in buffers,
/// the functions by kernels for the machine's instruction set, and the rest of the expression runs
/// over the buffers.
namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Elements of a block, 4 KiB: buffers of some nested functions stay in the first cache.
template <typename T>
inline constexpr index_t kSpanBlock = index_t{4096} / index_t{sizeof(T)};

/// What nodes may offer for whole rows: see operand.h.
template <typename E, typename T>
concept HasEvalRow = requires(const E& e, index_t i, T* out) {
  e.EvalRow(i, i, i, out);
};

template <typename E>
constexpr bool HoldsSpans();

/// Whether HoldsSpans of any of a tuple of expressions.
template <typename Tuple>
struct AnyHoldsSpans;
template <typename... E>
struct AnyHoldsSpans<std::tuple<E...>> {
  static constexpr bool value = (HoldsSpans<E>() || ...);
};

/// A node that moves elements and computes blocks of them in a loop of its own, for less than they
/// would cost one by one or in packets: it says so, or its loop takes blocks of an operand that
/// holds spans.
template <typename E>
concept ComputesBlocks = HasEvalRow<E, typename E::value_type> &&
    (requires { requires E::kSharesWork; } || AnyHoldsSpans<OperandTupleOf<E>>::value);

/// Whether E is a function with a form over spans.
template <typename E>
struct IsSpan : std::false_type {};
template <typename Op, typename A>
requires requires(const typename A::value_type* in, typename A::value_type* out) {
  Op::Span(in, out, index_t{1}, op::ScaleOrOffset<typename A::value_type>());
}
struct IsSpan<UnaryMapExp<Op, A>> : std::true_type {
  using Function = Op;
};

/// Whether E is a number, which is no place in memory.
template <typename E>
inline constexpr bool kIsNumber = false;
/// As above.
template <typename T>
inline constexpr bool kIsNumber<ScalarExp<T>> = true;

/// Whether E is a function of two operands with a form over spans.
template <typename E>
struct IsSpanOfTwo : std::false_type {};
template <typename Op, typename A, typename B>
requires(A::kRank > 0 || B::kRank > 0) &&
    requires(op::SpanOperand<typename A::value_type> in, typename A::value_type* out) {
  Op::Span(in, in, out, index_t{1});
}
struct IsSpanOfTwo<BinaryMapExp<Op, A, B>> : std::true_type {
  using Function = Op;
  using First = A;
  using Second = B;
};

/// Whether E converts elements of another type, of which a buffer holds more or fewer.
template <typename E>
inline constexpr bool kConverts = false;
/// As above.
template <typename T, typename A>
inline constexpr bool kConverts<TypecastExp<T, A>> = !std::is_same_v<T, typename A::value_type>;

/// Whether such a function, or a node that ComputesBlocks, stands in E where its elements are used
/// in place.
template <typename E>
constexpr bool HoldsSpans() {
  if constexpr (MovesElements<E>()) {
    return ComputesBlocks<E>;
  } else if constexpr (IsSpan<E>::value || IsSpanOfTwo<E>::value) {
    return true;
  } else {
    return AnyHoldsSpans<OperandTupleOf<E>>::value;
  }
}

/// What a function is applied to: another expression, scaled or moved by a number, which the
/// function's kernel does on the way.
template <typename E>
struct SpanInput {
  const E& node;
  op::ScaleOrOffset<typename E::value_type> change = {};
};

/// The input of a function whose operand is e.
template <typename E>
SpanInput<E> SpanInputOf(const E& e) {
  return {e};
}
template <typename A>
requires(A::kRank > 0) SpanInput<A> SpanInputOf(const UnaryMapExp<op::negation, A>& e) {
  return {e.a, {.scale = -1}};
}
template <typename A, typename T>
requires(A::kRank > 0) SpanInput<A> SpanInputOf(const BinaryMapExp<op::mul, A, ScalarExp<T>>& e) {
  return {e.a, {.scale = e.b.value}};
}
template <typename A, typename T>
requires(A::kRank > 0) SpanInput<A> SpanInputOf(const BinaryMapExp<op::mul, ScalarExp<T>, A>& e) {
  return {e.b, {.scale = e.a.value}};
}
template <typename A, typename T>
requires(A::kRank > 0) SpanInput<A> SpanInputOf(const BinaryMapExp<op::plus, A, ScalarExp<T>>& e) {
  return {e.a, {.offset = e.b.value}};
}
template <typename A, typename T>
requires(A::kRank > 0) SpanInput<A> SpanInputOf(const BinaryMapExp<op::plus, ScalarExp<T>, A>& e) {
  return {e.b, {.offset = e.a.value}};
}
template <typename A, typename T>
requires(A::kRank > 0) SpanInput<A> SpanInputOf(const BinaryMapExp<op::minus, A, ScalarExp<T>>& e) {
  return {e.a, {.offset = -e.b.value}};
}

/// The node of SpanInputOf, of an IsSpan.
template <typename E>
using SpanNode = std::remove_cvref_t<decltype(SpanInputOf(std::declval<const E&>().a).node)>;

/// Whether a kernel of two operands reads this one where it lies.
template <typename E>
inline constexpr bool kReadInPlace = kIsNumber<E> || kIsTensor<E>;

/// A function whose kernel reads a tensor, or two, or one and a number.
template <typename E>
concept SpanOfTensor = (IsSpan<E>::value && kIsTensor<SpanNode<E>>) ||
                       (IsSpanOfTwo<E>::value && kReadInPlace<typename IsSpanOfTwo<E>::First> &&
                        kReadInPlace<typename IsSpanOfTwo<E>::Second>);

/// A block of a row in a buffer; element x of the row is data[x].
template <typename T>
struct BlockExp : Exp<BlockExp<T>, T> {
  using value_type = T;
  static constexpr int kRank = 0;  // fits every shape
  static constexpr bool kHasPacket = PacketTraits<T>::kVectorizable;
  static constexpr bool kHasWidePacket = true;
  static constexpr bool kMovesElements = false;

  const T* data;

  explicit BlockExp(const T* row) : data(row) {}
  TESSERA_HD T Eval(index_t, index_t x) const { return data[x]; }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t, index_t x) const {
    return pk::ploadu<P>(data + x);
  }
  bool IsFlat() const { return true; }
};

/// How many calls of kernels with a SpanAhead EvaluateBlock makes; what is converted, and nodes
/// that move elements, ask for none.
template <typename E>
constexpr int KernelCalls();
/// The sum of KernelCalls of a tuple of expressions.
template <typename Tuple>
struct KernelCallsOfAll;
template <typename... E>
struct KernelCallsOfAll<std::tuple<E...>> {
  static constexpr int value = (0 + ... + KernelCalls<E>());
};
template <typename E>
constexpr int KernelCalls() {
  if constexpr (!HoldsSpans<E>() || MovesElements<E>() || kConverts<E>) {
    return 0;
  } else if constexpr (IsSpan<E>::value) {
    return 1 + KernelCalls<SpanNode<E>>();
  } else {
    return KernelCallsOfAll<OperandTupleOf<E>>::value;
  }
}

/// The places of the block after the one that is evaluated, where its functions take longer than
/// memory does. The kernels ask for them while they compute, each for its share: the processor does
/// not foresee all that is read in blocks, so that memory would rest meanwhile. Such expressions
/// take 0.7 to 0.95 of the time by it past the caches; those of cheaper functions would take up
/// to 1.08, since memory has no time to give away there.
class BlockAhead {
 public:
  /// None.
  BlockAhead() = default;
  /// Begins with those of the block of e that begins with element `begin` of row y and goes to
  /// `out`. Apart and small, since it takes nothing beside the functions of a block, and a tenth of
  /// what a long expression takes to compile otherwise.
  template <typename E>
  [[gnu::noinline, gnu::cold]] void Begin(const E& e, index_t y, index_t begin,
                                          const typename E::value_type* out) {
    if constexpr (Outlasts<E>(kFewest)) {
      calls_ = KernelCalls<E>();
      TensorsAt{this, y, begin}.Add(e);
      Add(out);
      if (!Outlasts<E>(count_)) count_ = 0;
    }
  }

  /// Forgets them: no block follows.
  void Clear() { count_ = 0; }
  /// Goes on to the next block.
  [[gnu::noinline]] void MoveOn() {
    for (int i = 0; i < count_; ++i) places_[i] += steps_[i];
    taken_ = 0;
  }
  /// The next kernel's share.
  [[gnu::noinline]] tensor_internal::SpanAhead Take() {
    if (count_ == 0) return {};
    const int begin = taken_ * count_ / calls_;
    ++taken_;
    return {places_ + begin, taken_ * count_ / calls_ - begin};
  }

 private:
  static constexpr int kFewest = 2, kMax = 8;
  /// Kernels below which the gain, a twentieth, is not worth what an expression takes to compile.
  static constexpr int kFewestCalls = 3;

  /// Whether E's functions take longer than memory for so many places; measured.
  template <typename E>
  static constexpr bool Outlasts(int places) {
    return KernelCalls<E>() >= kFewestCalls && 2 * TypeCost<E>::value >= 3 * places;
  }
  /// Adds the tensors of an expression. One visitor for all nodes: a lambda for each would take as
  /// long to compile as what it does.
  struct TensorsAt {
    BlockAhead* ahead;
    index_t y, begin;

    template <typename... E>
    void operator()(const E&... e) const {
      (Add(e), ...);
    }
    template <typename Op, typename A>
    void Add(const UnaryMapExp<Op, A>& e) const {
      Add(e.a);
    }
    template <typename Op, typename A, typename B>
    void Add(const BinaryMapExp<Op, A, B>& e) const {
      Add(e.a);
      Add(e.b);
    }
    template <typename E>
    void Add(const E& e) const {
      if constexpr (kIsTensor<E>) {
        ahead->Add(e.dptr_ + y * e.stride_ + begin);
      } else if constexpr (!MovesElements<E>() && !kIsNumber<E>) {
        VisitOperands(e, *this);
      }
    }
  };

  template <typename T>
  void Add(const T* place) {
    Add(reinterpret_cast<const char*>(place), kSpanBlock<T> * index_t{sizeof(T)});
  }
  [[gnu::noinline]] void Add(const char* place, index_t step) {
    if (count_ == kMax || std::find(places_, places_ + count_, place) != places_ + count_) return;
    steps_[count_] = step;
    places_[count_++] = place;
  }

  const char* places_[kMax];
  index_t steps_[kMax];
  int count_ = 0, calls_ = 0, taken_ = 0;
};

template <typename E>
void EvaluateBlock(const E& e, index_t y, index_t begin, index_t count, typename E::value_type* out,
                   BlockAhead* ahead);

/// Which elements a block holds: [begin, begin + count) of row y, of an operand of an expression
/// whose own go to `out`.
template <typename E>
struct BlockOf {
  const E& e;
  index_t y, begin, count;
  typename E::value_type* out;
  BlockAhead* ahead;
};

/// Where the loop over a block, or a kernel of two operands, finds an operand.
enum class BlockPlace {
  kNode,    ///< in the operand itself
  kBuffer,  ///< in a buffer, for it holds spans, or has to lie in memory for the kernel
  kResult,  ///< in the result's own place instead, since it is all that is read
};

/// The place of E among all the operands.
template <typename E, typename... Operand>
constexpr BlockPlace BlockPlaceOf() {
  if constexpr (!HoldsSpans<E>()) {
    return BlockPlace::kNode;
  } else {
    return (0 + ... + int{!kIsNumber<Operand>}) == 1 ? BlockPlace::kResult : BlockPlace::kBuffer;
  }
}

/// The same of an operand of a kernel of two, whose other one is Other.
template <typename E, typename Other>
constexpr BlockPlace KernelPlaceOf() {
  if constexpr (kReadInPlace<E>) {
    return BlockPlace::kNode;
  } else {
    return kIsNumber<Other> ? BlockPlace::kResult : BlockPlace::kBuffer;
  }
}

/// An operand as the loop over a block reads it.
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

/// The elements of row y from `begin` on, as a kernel of two operands reads them: those of a
/// tensor, of a block that has been evaluated, or a number for all.
template <typename E>
op::SpanOperand<typename E::value_type> KernelOperand(const E& e, index_t y, index_t begin) {
  if constexpr (kIsNumber<E>) {
    return {.data = &e.value, .repeats = true};
  } else if constexpr (kIsTensor<E>) {
    return {.data = e.dptr_ + y * e.stride_ + begin};
  } else {
    return {.data = e.data + begin};
  }
}

/// out[i] = element begin + i of row y, with packets where there are any. The expression comes by
/// value: nobody else has the copy's address, so that its fields stay in registers although packet
/// stores may alias anything.
template <typename E, typename T>
void EvaluatePackets(const E e, index_t y, index_t begin, index_t count, T* out) {
  index_t i = 0;
  if constexpr (FitsWidePackets<sv::saveto, T, E>()) {
    if (count >= kMinWideRow && RunsWide()) {
      i = EvaluateWide<sv::saveto>(out - begin, e, y, begin, begin + count) - begin;
    }
  }
  if constexpr (E::kHasPacket && PacketTraits<T>::kVectorizable) {
    using P = typename PacketTraits<T>::type;
    constexpr index_t kSize = PacketTraits<T>::kSize;
    for (; i + kSize <= count; i += kSize) {
      pk::pstoreu(out + i, e.template EvalPacket<P>(y, begin + i));
    }
  }
  for (; i < count; ++i) out[i] = e.Eval(y, begin + i);
}

/// EvaluatePackets of a node that HoldsSpans in its operands, over blocks of these. Most nodes have
/// one or two; written out, they compile sooner than by a visitor.
template <typename Op, typename A>
void EvaluateOverBlocks(const UnaryMapExp<Op, A>& e, index_t y, index_t begin, index_t count,
                        typename A::value_type* out, BlockAhead* ahead) {
  const BlockOperand<A, BlockPlaceOf<A, A>()> a(BlockOf<A>{e.a, y, begin, count, out, ahead});
  EvaluatePackets(e.WithOperands(a.node()), y, begin, count, out);
}
template <typename Op, typename A, typename B>
void EvaluateOverBlocks(const BinaryMapExp<Op, A, B>& e, index_t y, index_t begin, index_t count,
                        typename A::value_type* out, BlockAhead* ahead) {
  const BlockOperand<A, BlockPlaceOf<A, A, B>()> a(BlockOf<A>{e.a, y, begin, count, out, ahead});
  const BlockOperand<B, BlockPlaceOf<B, A, B>()> b(BlockOf<B>{e.b, y, begin, count, out, ahead});
  EvaluatePackets(e.WithOperands(a.node(), b.node()), y, begin, count, out);
}
template <typename E>
void EvaluateOverBlocks(const E& e, index_t y, index_t begin, index_t count,
                        typename E::value_type* out, BlockAhead* ahead) {
  VisitOperands(e, [&]<typename... Operand>(const Operand&... operand) {
    const auto evaluate = [&](const auto&... block) {
      EvaluatePackets(e.WithOperands(block.node()...), y, begin, count, out);
    };
    evaluate(BlockOperand<Operand, BlockPlaceOf<Operand, Operand...>()>(
        BlockOf<Operand>{operand, y, begin, count, out, ahead})...);
  });
}

/// As EvaluatePackets, with spans where there are any; count is at most kSpanBlock<T>.
template <typename E>
void EvaluateBlock(const E& e, index_t y, index_t begin, index_t count, typename E::value_type* out,
                   BlockAhead* ahead) {
  if constexpr (IsSpan<E>::value) {
    using Function = typename IsSpan<E>::Function;
    const auto [node, change] = SpanInputOf(e.a);
    if constexpr (SpanOfTensor<E>) {
      Function::Span(node.dptr_ + y * node.stride_ + begin, out, count, change, ahead->Take());
    } else {
      EvaluateBlock(node, y, begin, count, out, ahead);
      Function::Span(out, out, count, change, ahead->Take());
    }
  } else if constexpr (IsSpanOfTwo<E>::value) {
    using Function = typename IsSpanOfTwo<E>::Function;
    using A = typename IsSpanOfTwo<E>::First;
    using B = typename IsSpanOfTwo<E>::Second;
    const BlockOperand<A, KernelPlaceOf<A, B>()> a(BlockOf<A>{e.a, y, begin, count, out, ahead});
    const BlockOperand<B, KernelPlaceOf<B, A>()> b(BlockOf<B>{e.b, y, begin, count, out, ahead});
    Function::Span(KernelOperand(a.node(), y, begin), KernelOperand(b.node(), y, begin), out,
                   count);
  } else if constexpr (!HoldsSpans<E>()) {
    EvaluatePackets(e, y, begin, count, out);
  } else if constexpr (MovesElements<E>()) {
    e.EvalRow(y, begin, begin + count, out);
  } else if constexpr (kConverts<E>) {
    using From = typename decltype(e.a)::value_type;
    From buffer[kSpanBlock<From>];
    BlockAhead none;
    for (index_t i = 0; i < count; i += kSpanBlock<From>) {
      const index_t size = std::min(kSpanBlock<From>, count - i), x = begin + i;
      EvaluateBlock(e.a, y, x, size, buffer, &none);
      EvaluatePackets(e.WithOperands(BlockExp<From>(buffer - x)), y, x, size, out + i);
    }
  } else {
    EvaluateOverBlocks(e, y, begin, count, out, ahead);
  }
}

/// Calls body(x, size, ahead) for the blocks of elements [begin, begin + count) of row y of e,
/// whose results go to `out`.
template <typename E, typename Body>
void ForEachBlock(const E& e, index_t y, index_t begin, index_t count,
                  const typename E::value_type* out, const Body& body) {
  constexpr index_t kBlock = kSpanBlock<typename E::value_type>;
  BlockAhead ahead;
  if (count > kBlock) ahead.Begin(e, y, begin + kBlock, out + kBlock);
  // One call for all blocks, the last one too: it is most of what an expression compiles to.
  for (index_t i = 0; i < count; i += kBlock) {
    if (i + kBlock >= count) ahead.Clear();
    body(begin + i, std::min(kBlock, count - i), &ahead);
    ahead.MoveOn();
  }
}

/// EvaluateBlock for a row of any length.
template <typename E>
void EvaluateSpans(const E& e, index_t y, index_t begin, index_t count,
                   typename E::value_type* out) {
  if constexpr (SpanOfTensor<E>) {
    BlockAhead none;
    EvaluateBlock(e, y, begin, count, out, &none);  // which needs no buffer
  } else {
    ForEachBlock(e, y, begin, count, out, [&](index_t x, index_t size, BlockAhead* ahead) {
      EvaluateBlock(e, y, x, size, out + (x - begin), ahead);
    });
  }
}

/// What RestIsIn asks of the loop over a node.
struct FitsPackets {
  template <typename E>
  static constexpr bool kHolds = E::kHasPacket;
};
struct FitsWide {
  template <typename E>
  static constexpr bool kHolds = FitsWidePackets<sv::saveto, typename E::value_type, E>();
};

template <typename Fits, typename E>
constexpr bool RestIsIn();

/// RestIsIn of a node over its operands' blocks.
template <typename Fits, typename E, typename Operands>
struct BlocksAreIn;
template <typename Fits, typename E, typename... Operand>
struct BlocksAreIn<Fits, E, std::tuple<Operand...>> {
  using OverBlocks = decltype(std::declval<const E&>().WithOperands(
      std::declval<const BlockOperand<Operand, BlockPlaceOf<Operand, Operand...>()>&>().node()...));
  static constexpr bool value = Fits::template kHolds<OverBlocks> &&
                                ((!HoldsSpans<Operand>() || RestIsIn<Fits, Operand>()) && ...);
};

/// Whether EvaluateBlock computes whatever is neither a function with a form over spans nor a node
/// with a loop of its own in loops that Fits.
template <typename Fits, typename E>
constexpr bool RestIsIn() {
  if constexpr (IsSpan<E>::value) {
    return RestIsIn<Fits, SpanNode<E>>();
  } else if constexpr (IsSpanOfTwo<E>::value) {
    return RestIsIn<Fits, typename IsSpanOfTwo<E>::First>() &&
           RestIsIn<Fits, typename IsSpanOfTwo<E>::Second>();
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

#endif  // TESSERA_TENSOR_SPAN_H_
