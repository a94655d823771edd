#ifndef TESSERA_TENSOR_SHAPE_ROW_MAP_H_
#define TESSERA_TENSOR_SHAPE_ROW_MAP_H_

#include <algorithm>
#include <concepts>
#include <tuple>
#include <type_traits>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/dense/materialize_operand.h"
#include "tessera/tensor/dense/reference.h"
#include "tessera/tensor/expr/merge_dimensions.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Writes elements [begin, end) of row y of a CPU expression to out[0], out[1] and so on.
template <typename E>
void EvalSpan(const E& expression, index_t y, index_t begin, index_t end,
              typename E::value_type* out) {
  using T = typename E::value_type;
  if constexpr (kIsTensor<E>) {
    // The library's copy, which is wider, is worth its call from about 256 bytes on.
    if (end - begin >= index_t{256} / index_t{sizeof(T)}) {
      std::copy_n(expression.dptr_ + y * expression.stride_ + begin, end - begin, out);
      return;
    }
  }
  if constexpr (HasEvalRow<E, T>) {
    expression.EvalRow(y, begin, end, out);
  } else if constexpr (HoldsSpans<E>()) {
    EvaluateSpans(expression, y, begin, end - begin, out);
  } else {
    const E e = expression;  // a copy of its own stays in registers although `out` may alias
    index_t x = begin;
    if constexpr (E::kHasPacket && PacketTraits<T>::kVectorizable) {
      using P = typename PacketTraits<T>::type;
      constexpr index_t kSize = PacketTraits<T>::kSize;
      for (; x + kSize <= end; x += kSize, out += kSize) {
        pk::pstoreu(out, e.template EvalPacket<P>(y, x));
      }
    }
    for (; x < end; ++x) *out++ = e.Eval(y, x);
  }
}

/// Writes `count` elements of row y of a CPU expression backwards, element `last` to out[0].
template <typename E>
void EvalBackwards(const E& expression, index_t y, index_t last, index_t count,
                   typename E::value_type* out) {
  using T = typename E::value_type;
  if constexpr (HoldsSpans<E>()) {
    constexpr index_t kBlock = kSpanBlock<T>;
    T block[kBlock];
    for (index_t i = 0; i < count; i += kBlock) {
      const index_t size = std::min(kBlock, count - i);
      EvalSpan(expression, y, last - i - size + 1, last - i + 1, block);
      std::reverse_copy(block, block + size, out + i);
    }
    return;
  }
  const E e = expression;  // as in EvalSpan
  index_t i = 0;
  // Some packets of integers Eigen 3.4 cannot reverse, and returns them as they are.
  if constexpr (E::kHasPacket && PacketTraits<T>::kVectorizable && !std::is_integral_v<T>) {
    using P = typename PacketTraits<T>::type;
    constexpr index_t kSize = PacketTraits<T>::kSize;
    for (; i + kSize <= count; i += kSize) {
      pk::pstoreu(out + i, pk::preverse(e.template EvalPacket<P>(y, last - i - (kSize - 1))));
    }
  }
  for (; i < count; ++i) out[i] = e.Eval(y, last - i);
}

/// out[i] = first[i * step] for i in [0, count), in packets that load(first + i * step) makes. The
/// last one ends with the row, though elements before are then written twice: one by one, a short
/// row's would be most of what it takes.
template <typename T, typename Load>
[[gnu::always_inline]] inline void CopyPacketsInSteps(const T* first, index_t step, index_t count,
                                                      T* out, const Load& load) {
  constexpr index_t kSize = PacketTraits<T>::kSize;
  index_t i = 0;
  for (; i + kSize <= count; i += kSize) pk::pstoreu(out + i, load(first + i * step));
  if (i > 0) {
    if (i < count) pk::pstoreu(out + count - kSize, load(first + (count - kSize) * step));
    return;
  }
  for (; i < count; ++i) out[i] = first[i * step];
}

/// out[i] = first[i * step] for i in [0, count), of a T that kHasPacketsInSteps.
template <typename T>
[[gnu::always_inline]] inline void CopyInSteps(const T* first, index_t step, index_t count,
                                               T* out) {
  using P = typename PacketTraits<T>::type;
  // PacketInSteps, with its questions before the loops: at -O2 the compiler does not move them.
  if (step == 1) {
    const auto load = [](const T* from) { return PacketInSteps<P>(from, 1); };
    CopyPacketsInSteps(first, 1, count, out, load);
  } else if (step == -1) {
    const auto load = [](const T* from) { return PacketInSteps<P>(from, -1); };
    CopyPacketsInSteps(first, -1, count, out, load);
  } else {
    const auto load = [step](const T* from) { return pk::pgather<T, P>(from, step); };
    CopyPacketsInSteps(first, step, count, out, load);
  }
}

/// The source of a row's elements: element x is the operand's element
/// (y + x * step_y, x0 + x * step_x).
struct RowSource {
  index_t y;
  index_t x0;
  index_t step_y;
  index_t step_x;

  TESSERA_HD static RowSource Whole(index_t y, index_t x0) { return {y, x0, 0, 1}; }
  TESSERA_HD static RowSource Repeated(index_t y, index_t x0) { return {y, x0, 0, 0}; }

  TESSERA_HD bool IsWhole() const { return step_y == 0 && step_x == 1; }
};

/// The rows of a map with kWholeRows, as far as they are known at compile time.
enum class MappedRows {
  kEither,    ///< each may be part of one of the operand's, or one element repeated
  kWhole,     ///< each is part of one of the operand's
  kRepeated,  ///< each is one element repeated
};
/// Map::kMappedRows, or MappedRows::kEither for a map without it.
template <typename Map>
inline constexpr MappedRows kMappedRowsOf = MappedRows::kEither;
template <typename Map>
requires requires { Map::kMappedRows; }
inline constexpr MappedRows kMappedRowsOf<Map> = Map::kMappedRows;

/// A row of a RowMapExp with kWholeRows that is not known to repeat one element.
template <typename E, MappedRows kRows>
struct MappedRowExp : Exp<MappedRowExp<E, kRows>, typename E::value_type> {
  using value_type = typename E::value_type;
  static constexpr int kRank = 0;  // fits every shape
  static constexpr bool kHasPacket = E::kHasPacket;
  static constexpr bool kHasAvx2Packet = HasAvx2Packet<E>();

  E e;
  index_t row;
  index_t x0;
  index_t step;  // 1, or 0 for one element repeated; not read if kRows is kWhole

  MappedRowExp(const E& operand, const RowSource& s)
      : e(operand), row(s.y), x0(s.x0), step(s.step_x) {}
  value_type Eval(index_t, index_t x) const {
    return e.Eval(row, kRows == MappedRows::kWhole ? x0 + x : x0 + x * step);
  }
  template <typename P>
  P EvalPacket(index_t, index_t x) const {
    return kRows == MappedRows::kWhole || step == 1 ? e.template EvalPacket<P>(row, x0 + x)
                                                    : pk::pset1<P>(e.Eval(row, x0));
  }
  bool IsFlat() const { return true; }
};

/// A row of a RowMapExp with kInSteps.
template <typename T>
struct RowInStepsExp : Exp<RowInStepsExp<T>, T, form::kStored> {
  using value_type = T;
  static constexpr int kRank = 0;  // fits every shape
  static constexpr bool kHasPacket = kHasPacketsInSteps<T>;
  static constexpr bool kMovesElements = false;

  const T* first;
  index_t step;

  RowInStepsExp(const T* element, index_t distance) : first(element), step(distance) {}
  T Eval(index_t, index_t x) const { return first[x * step]; }
  template <typename P>
  P EvalPacket(index_t, index_t x) const {
    return PacketInSteps<P>(first + x * step, step);
  }
  bool IsFlat() const { return true; }
};

/// True if the rows of Map run through rows of a tensor in steps, with packets.
template <typename Map, typename E>
inline constexpr bool kReadsInSteps =
    kIsTensor<E>&& kHasPacketsInSteps<typename E::value_type>&& requires {
  requires Map::kStepsAlongRows;
};

/// Tells whether an operand that Map reads is materialized.
template <typename Map, typename E>
inline constexpr bool kMaterializesMapped = [] {
  if constexpr (requires { requires Map::kMaterializesOperand; }) {
    return !kIsTensor<E>;
  } else {
    return !Map::kOneToOne && kIsExpensiveToRepeat<E>;
  }
}();

/// An expression whose elements are the operand's at other places, so that each row runs through
/// the operand in even steps: slices, reversals, permutations of axes, broadcasts.
///
/// Map is a trivially copyable struct that offers
///   kRank, shape()       of the result
///   operator()(y)        the RowSource of row y, on host and device
///   kWholeRows           true if every row is part of one of the operand's or one element repeated
///   kSharesWork          as nodes have it: true if EvalRow is worth a buffer, for it asks the map
///                        once for a row and knows packets where Eval has but elements; not asked
///                        where there are packets
///   kOneToOne            true if no element of the operand occurs twice
/// and optionally
///   kMappedRows          what is known of rows if kWholeRows is true
///   kMaterializesOperand true if any operand is materialized that is not a tensor; otherwise only
///                        an expensive one is
///   operator==           tells whether two maps read the same elements
///   kStepsAlongRows      true if every row lies in one of the operand's, its elements any step
///                        apart: step_y is always 0
///   MergeableDimensions(), MergeDimensions(count)  as a node does; see operand.h
///   MergesOperand()      whether the operand's last dimensions, too, are then merged
///   Across()             where rows may be columns of the operand's, as a node has it.
/// An expression with kOneToOne over a tensor may also be assigned to; see reference.h.
template <typename Map, typename E>
struct RowMapExp : Exp<RowMapExp<Map, E>, typename E::value_type>,
                   ReferenceExp<RowMapExp<Map, E>>,
                   MaterializesOperand<kMaterializesMapped<Map, E>> {
  using value_type = typename E::value_type;
  using device_type = DeviceOf<E>;
  static constexpr int kRank = Map::kRank;
  static constexpr bool kInSteps = kReadsInSteps<Map, E>;
  static constexpr bool kRepeatsRows = kMappedRowsOf<Map> == MappedRows::kRepeated;
  static constexpr bool kHasPacket = kRepeatsRows ? PacketTraits<value_type>::kVectorizable
                                                  : (Map::kWholeRows && E::kHasPacket) || kInSteps;
  static constexpr bool kHasAvx2Packet = kRepeatsRows || (Map::kWholeRows && HasAvx2Packet<E>());
  static constexpr bool kMovesElements = true;
  static constexpr bool kIsItsOperands = std::equality_comparable<Map>;
  static constexpr bool kSharesWork = Map::kSharesWork && !kInSteps;
  static constexpr bool kIsReference = Map::kOneToOne && Referenceable<E>;
  static constexpr bool kMerges =
      (kRepeatsRows || MergesDimensions<E>()) && requires(const Map& m) {
    m.MergeDimensions(2);
  };

  Map map;
  E e;

  RowMapExp(const Map& m, const E& operand) : map(m), e(operand) {}
  RowMapExp(const RowMapExp&) = default;
  RowMapExp& operator=(const RowMapExp&) & = delete;  // see ReferenceExp
  using ReferenceExp<RowMapExp>::operator=;

  auto operands() const { return std::tuple<E>(e); }
  template <typename A>
  RowMapExp<Map, A> WithOperands(const A& a) const {
    return {map, a};
  }
  template <typename Device>
  auto Materialized(Scratch<Device>* scratch) const requires kMaterializesMapped<Map, E> {
    return WithOperands(MaterializeWhole(e, scratch));
  }

  Shape<kRank> shape() const { return map.shape(); }
  TESSERA_HD value_type Eval(index_t y, index_t x) const {
    const RowSource s = map(y);
    return e.Eval(s.y + x * s.step_y, s.x0 + x * s.step_x);
  }
  template <typename P>
  TESSERA_HD P EvalPacket(index_t y, index_t x) const {
    const RowSource s = map(y);
    if constexpr (kInSteps) return PacketInSteps<P>(RowAt(s) + x * s.step_x, s.step_x);
    if constexpr (!kRepeatsRows) {
      if (s.step_x == 1) return e.template EvalPacket<P>(s.y, s.x0 + x);
    }
    return pk::pset1<P>(e.Eval(s.y, s.x0));
  }
  auto AtRow(index_t y) const requires Map::kWholeRows {
    const RowSource s = map(y);
    if constexpr (kRepeatsRows) {
      return ScalarExp<value_type>(e.Eval(s.y, s.x0));
    } else {
      using Row = decltype(expr::AtRow(e, s.y));
      return MappedRowExp<Row, kMappedRowsOf<Map>>(expr::AtRow(e, s.y), s);
    }
  }
  RowInStepsExp<value_type> AtRow(index_t y) const requires kInSteps {
    const RowSource s = map(y);
    return {RowAt(s), s.step_x};
  }
  bool IsFlat() const { return false; }
  int MergeableDimensions() const requires kMerges {
    const int count = map.MergeableDimensions();
    if constexpr (!kRepeatsRows) {
      if (map.MergesOperand()) return std::min(count, expr::MergeableDimensions(e));
    }
    return count;
  }
  RowMapExp MergeDimensions(int count) const requires kMerges {
    if constexpr (!kRepeatsRows) {
      if (map.MergesOperand()) {
        return {map.MergeDimensions(count), expr::MergeDimensions(e, count)};
      }
    }
    return {map.MergeDimensions(count), e};
  }
  RowsAcross Across() const
      requires(!MovesElements<E>() && requires(const Map& m) { m.Across(); }) {
    return map.Across();
  }

  /// Not offered where the rows are known to have packets, which the evaluator also can stream.
  void EvalRow(index_t y, index_t begin, index_t end, value_type* out) const
      requires(kMappedRowsOf<Map> == MappedRows::kEither || !kHasPacket) {
    if (begin >= end) return;
    const RowSource s = map(y);
    if (s.IsWhole()) {
      EvalSpan(e, s.y, s.x0 + begin, s.x0 + end, out);
    } else if (s.step_y == 0 && s.step_x == 0) {
      std::fill_n(out, end - begin, e.Eval(s.y, s.x0));
    } else if constexpr (kInSteps) {
      CopyInSteps(RowAt(s) + begin * s.step_x, s.step_x, end - begin, out);
    } else if (s.step_y == 0 && s.step_x == -1) {
      EvalBackwards(e, s.y, s.x0 - begin, end - begin, out);
    } else {
      const E operand = e;
      for (index_t x = begin; x < end; ++x) {
        *out++ = operand.Eval(s.y + x * s.step_y, s.x0 + x * s.step_x);
      }
    }
  }
  /// Rows below 64 elements: the call of EvalRow is most of what a short one takes.
  bool EvalRows(index_t begin, index_t end, value_type* data,
                index_t stride) const requires kInSteps {
    const index_t columns = map.shape()[kRank - 1];
    if (columns >= 64) return false;
    const RowMapExp local = *this;  // as in EvalSpan
    for (index_t y = begin; y < end; ++y) {
      const RowSource s = local.map(y);
      CopyInSteps(local.RowAt(s), s.step_x, columns, data + y * stride);
    }
    return true;
  }

  void EvalTile(index_t begin_y, index_t end_y, index_t begin_x, index_t end_x, value_type* out,
                index_t stride) const requires requires(const Map& m) {
    m.Across();
  }
  {
    const RowsAcross axis = map.Across();
    if (end_y - begin_y < 2 * axis.step || axis.extent < 2) {  // too few rows along the axis
      for (index_t y = begin_y; y < end_y; ++y, out += stride) EvalRow(y, begin_x, end_x, out);
      return;
    }
    // Rows first, first + step, first + 2 * step, … are columns of the same rows of the operand.
    const auto steps_to = [&axis](index_t first, index_t y) {
      return y <= first ? 0 : std::min(axis.extent, (y - first + axis.step - 1) / axis.step);
    };
    const index_t rows = axis.extent * axis.step;
    for (index_t begin = begin_y / rows * rows; begin < end_y; begin += rows) {
      for (index_t first = begin; first < begin + axis.step; ++first) {
        const index_t from = steps_to(first, begin_y), to = steps_to(first, end_y);
        if (from == to) continue;
        const RowSource s = map(first);
        EvalTransposed(e, s.y + begin_x * s.step_y, s.step_y, s.x0 + from, to - from,
                       end_x - begin_x, out + (first + from * axis.step - begin_y) * stride,
                       axis.step * stride);
      }
    }
  }

  // The members of a destination; see reference.h.
  TESSERA_HD value_type* Address(index_t y, index_t x) const requires kIsReference {
    const RowSource s = map(y);
    return AddressIn(e, s.y + x * s.step_y, s.x0 + x * s.step_x);
  }
  value_type* RowAddress(index_t y) const requires kIsReference {
    const RowSource s = map(y);
    if (!s.IsWhole()) return nullptr;
    value_type* const row = RowAddressIn(e, s.y);
    return row == nullptr ? nullptr : row + s.x0;
  }

 private:
  TESSERA_HD const value_type* RowAt(const RowSource& s) const requires kInSteps {
    return e.dptr_ + s.y * e.stride_ + s.x0;
  }
};

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // TESSERA_TENSOR_SHAPE_ROW_MAP_H_
