#ifndef TESSERA_TENSOR_REDUCE_REDUCTIONS_H_
#define TESSERA_TENSOR_REDUCE_REDUCTIONS_H_

#include <algorithm>
#include <tuple>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/dense/materialize_operand.h"
#include "tessera/tensor/expr/array_kernel_node.h"
#include "tessera/tensor/expr/expression.h"
#include "tessera/tensor/functors/accumulate.h"
#include "tessera/tensor/reduce/reduce.h"
#include "tessera/tensor/reduce/reduce_columns.h"
#include "tessera/tensor/reduce/reduce_row.h"
#include "tessera/tensor/reduce/reductions_cuda.h"
#include "tessera/tensor/shape/broadcast.h"

/// Reductions as parts of expressions, for example of a matrix x:
///
///     float total = sum(x * x);                            // of all elements, a number
///     r = (a - mean(a)) * b;                               // numbers fit every shape
///     rows = sum<1>(x);                                    // along axis 1: a vector, one a row
///     y = exp(x - maximum<1>(x).spread());                 // spread() broadcasts along it;
///     y = y / sum<1>(y).spread();                          // together: softmax of each row
///
/// sum, mean, maximum, minimum and norm (the root of the sum of squares) reduce an expression of
/// any rank: all of it, or with `<axis>` along one axis, which the result then lacks. .spread()
/// broadcasts the result along that axis again. inner(a, b) is the sum of a * b.
///
/// The operand may be any expression. It is read in one pass and not stored, except that a
/// transpose in it is materialized in a temporary. Reductions inside an element-wise expression are
/// materialized before its loop, in numbers and in temporaries of the results' size. Equal
/// reductions over the same memory (see kIsItsOperands in operand.h) are computed once for an
/// assignment, or for a Fuse in one pass. Functors must therefore give the same result for the same
/// element. A reduction that holds a Store is always computed separately.
///
/// Sums of half and bfloat16 accumulate in float, and sums of integers in 64 bits; the result is
/// then converted to the element type. The order of operations depends only on the shape. A maximum
/// or minimum of elements with a NaN is NaN.
///
/// Over no elements, the sum and the norm are 0, the mean is NaN (0 for integers), the maximum is
/// the type's lowest value (-inf for floating-point types), and the minimum is its highest.
namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The node of a reduction of a whole expression to a number of type T.
template <typename Red, typename Finish, typename T, typename E>
struct ReduceAllExp : Exp<ReduceAllExp<Red, Finish, T, E>, T>,
                      Number<ReduceAllExp<Red, Finish, T, E>, T, 0> {
  using value_type = T;
  using device_type = DeviceOf<E>;
  static constexpr int kRank = 0;
  static constexpr bool kHasPacket = false;
  static constexpr bool kIsMaterialized = true;
  static constexpr bool kIsItsOperands = true;
  static_assert(E::kRank > 0, "a reduction needs an operand with dimensions, not a number");

  E e;

  explicit ReduceAllExp(const E& operand) : e(operand) {}
  std::tuple<E> operands() const { return {e}; }
  template <typename Visitor>
  decltype(auto) VisitOperands(const Visitor& visit) const {
    return visit(e);
  }

  /// Returns the node itself, because a number fits every shape.
  const ReduceAllExp& spread() const { return *this; }

  template <typename Device>
  auto Materialized(Scratch<Device>* scratch) const {
    const auto& ready = MaterializeRows(e, scratch);
    const index_t count = ready.shape().Size();
    if constexpr (Device::kDevCPU) {
      return ScalarExp<T>(Finish::template Map<T>(ReduceToNumber<Red>(ready), count));
    } else {
      T* const number = TemporaryTensor<Device, 1, T>(Shape1(1), scratch->stream(), scratch).dptr_;
      ReduceAllCuda<Red, Finish>(number, ready, count, scratch);
      return DeviceNumberExp<T>(number);
    }
  }
};

namespace finish {

/// Applies Op to the result of Finish.
template <typename Finish, typename Op>
struct Then {
  static constexpr bool kHasAvx2Packet = HasAvx2Packet<Finish>() && HasAvx2Packet<Op>();

  template <typename T, typename Accumulator>
  TESSERA_HD static T Map(Accumulator value, index_t count) {
    return static_cast<T>(Op::Map(Finish::template Map<T>(value, count)));
  }
  template <typename P>
  TESSERA_HD static P PacketMap(const P& value, index_t count) requires requires {
    MapPackets<Op>(Finish::PacketMap(value, count));
  }
  { return MapPackets<Op>(Finish::PacketMap(value, count)); }
};

}  // namespace finish

/// Divides the work of ReduceAlongRows: by rows, or if these are long, by chunks of rows of a
/// constant size, so that a few rows keep every thread busy too.
struct AlongRowsPlan {
  index_t chunks;  // the number of chunks in each row
  TaskPlan tasks;

  AlongRowsPlan(index_t rows, index_t columns, index_t cost)
      : chunks(std::max<index_t>(1, (columns + kReduceChunk - 1) / kReduceChunk)),
        tasks(chunks == 1 ? TaskPlan::Of(rows, columns, cost)
                          : TaskPlan{rows * chunks, ReduceGrain(cost)}) {}
};

/// Sets dst[i] to the finished reduction of row i.
template <typename Red, typename Finish, typename T, typename E>
void ReduceAlongRows(T* dst, const E& e, index_t rows, index_t columns, Scratch<cpu>* scratch) {
  using Accumulator = AccumulatorOf<Red, typename E::value_type>;
  using Op = typename Red::OPType;
  const AlongRowsPlan plan(rows, columns, CostOf(e));
  const index_t chunks = plan.chunks;
  if (chunks == 1) {
    ParallelFor(plan.tasks.count, plan.tasks.grain, [&](index_t first, index_t last) {
      ReduceEachRow<Red, Finish>(e, first, last - first, columns, dst + first);
    });
    return;
  }
  auto* const partial = static_cast<Accumulator*>(
      scratch->Allocate(rows * chunks * static_cast<index_t>(sizeof(Accumulator))));
  ParallelFor(plan.tasks.count, plan.tasks.grain, [&](index_t first, index_t last) {
    const E local = e;
    for (index_t i = first; i < last; ++i) {
      const index_t begin = i % chunks * kReduceChunk;
      partial[i] =
          ReduceRow<Red>(local, i / chunks, begin, std::min(columns, begin + kReduceChunk));
    }
  });
  for (index_t y = 0; y < rows; ++y) {
    Accumulator value = partial[y * chunks];
    for (index_t c = 1; c < chunks; ++c) value = Op::Map(value, partial[y * chunks + c]);
    dst[y] = Finish::template Map<T>(value, columns);
  }
}

/// The node of a reduction along one axis to elements of type T.
template <typename Red, typename Finish, int kAxis, typename T, typename E>
struct ReduceAxisExp : Exp<ReduceAxisExp<Red, Finish, kAxis, T, E>, T> {
  using value_type = T;
  using device_type = DeviceOf<E>;
  static constexpr int kRank = E::kRank - 1;
  static constexpr bool kHasPacket = false;
  static constexpr bool kIsMaterialized = true;
  static constexpr bool kIsItsOperands = true;
  static_assert(0 <= kAxis && kAxis < E::kRank, "the axis to reduce must lie in the expression");

  E e;

  explicit ReduceAxisExp(const E& operand) : e(operand) {}
  std::tuple<E> operands() const { return {e}; }
  template <typename Visitor>
  decltype(auto) VisitOperands(const Visitor& visit) const {
    return visit(e);
  }
  Shape<kRank> shape() const {
    const Shape<E::kRank> all = e.shape();
    Shape<kRank> rest;
    for (int i = 0; i < kRank; ++i) rest[i] = all[i < kAxis ? i : i + 1];
    return rest;
  }

  /// Returns the results broadcast along the axis again: an expression of the operand's shape.
  auto spread() const { return expr::spread<kAxis>(*this, e.shape()[kAxis]); }

  template <typename Device>
  auto Materialized(Scratch<Device>* scratch) const {
    const auto results = TemporaryTensor<Device, kRank, T>(shape(), scratch->stream(), scratch);
    ComputeInto(results, scratch);
    return results;
  }
  /// Computes the reduction into `results`; see MaterializesInto.
  template <typename Device>
  void ComputeInto(const Tensor<Device, kRank, T>& results, Scratch<Device>* scratch) const {
    ComputeAs<Finish>(results, scratch);
  }
  /// Computes Op of the reduction into `results`. Not used for an expensive Op, which has an array
  /// kernel.
  template <typename Op, typename Device>
  requires(!HasArrayKernel<UnaryMapExp<Op, Tensor<Device, kRank, T>>>::value) void ComputeInto(
      const Tensor<Device, kRank, T>& results, Scratch<Device>* scratch) const {
    ComputeAs<finish::Then<Finish, Op>>(results, scratch);
  }

 private:
  /// Computes the reduction into `results` with Last in place of Finish.
  template <typename Last, typename Device>
  void ComputeAs(const Tensor<Device, kRank, T>& results, Scratch<Device>* scratch) const {
    const auto& ready = MaterializeRows(e, scratch);
    const AxisWalk<kAxis, E::kRank> walk(ready.shape());
    if (results.shape_.Size() > 0) {
      if constexpr (!Device::kDevCPU) {
        ReduceAxisCuda<Red, Last>(results, ready, walk, ready.shape()[E::kRank - 1], scratch);
      } else if constexpr (walk.kAlongRow) {
        ReduceAlongRows<Red, Last>(results.dptr_, ready, walk.outer, walk.extent, scratch);
      } else {
        using Accumulator = AccumulatorOf<Red, typename E::value_type>;
        constexpr bool kInPlace = std::is_same_v<T, Accumulator>;
        T* const out = results.dptr_;
        const index_t columns = walk.columns, extent = walk.extent;
        ReduceAcrossRows<Red>(
            ready, walk, scratch,
            [=](index_t line, index_t column) -> Accumulator* {
              if constexpr (kInPlace) return out + line * columns + column;
              return nullptr;
            },
            [=](index_t line, index_t column, const Accumulator* values, index_t count) {
              FinishResults<Last>(values, count, extent, out + line * columns + column);
            });
      }
    }
  }
};

/// Returns the node for Finish of the reduction of `e` by Red: a number of type T, or a reduction
/// along an axis.
template <typename Red, typename Finish, typename T, typename E>
ReduceAllExp<Red, Finish, T, E> MakeReduction(const E& e) {
  return ReduceAllExp<Red, Finish, T, E>(e);
}
template <typename Red, typename Finish, int kAxis, typename T, typename E>
auto MakeAxisReduction(const E& e) {
  if constexpr (E::kRank == 1) {
    static_assert(kAxis == 0, "the axis to reduce must lie in the expression");
    return ReduceAllExp<Red, Finish, T, E>(e);
  } else {
    return ReduceAxisExp<Red, Finish, kAxis, T, E>(e);
  }
}

/// Returns an operand in the type in which its elements accumulate, for squares and products that
/// its own type could not hold.
template <Operand E>
auto Widened(const E& e) {
  using T = typename E::value_type;
  using Wide = typename AccumulateIn<T>::type;
  if constexpr (std::is_same_v<T, Wide>) {
    return OperandNode<E>(AsNode(e));
  } else {
    return tcast<Wide>(e);
  }
}

/// Returns the sum of all elements, or the sums along an axis.
template <Operand E>
auto sum(const AnyOperand<E>& e) {
  return MakeReduction<red::sum, finish::None, typename E::value_type>(
      OperandNode<E>(AsNode(e.self())));
}
template <int kAxis, Operand E>
auto sum(const AnyOperand<E>& e) {
  return MakeAxisReduction<red::sum, finish::None, kAxis, typename E::value_type>(
      OperandNode<E>(AsNode(e.self())));
}
/// Returns the mean of all elements, or the means along an axis. Over no elements the mean is NaN,
/// and 0 for integers.
template <Operand E>
auto mean(const AnyOperand<E>& e) {
  return MakeReduction<red::sum, finish::Mean, typename E::value_type>(
      OperandNode<E>(AsNode(e.self())));
}
template <int kAxis, Operand E>
auto mean(const AnyOperand<E>& e) {
  return MakeAxisReduction<red::sum, finish::Mean, kAxis, typename E::value_type>(
      OperandNode<E>(AsNode(e.self())));
}
/// Returns the largest of all elements, or the largest along an axis. A NaN among them gives NaN.
/// Over no elements it is the type's lowest value, or -infinity.
template <Operand E>
auto maximum(const AnyOperand<E>& e) {
  return MakeReduction<red::maximum, finish::None, typename E::value_type>(
      OperandNode<E>(AsNode(e.self())));
}
template <int kAxis, Operand E>
auto maximum(const AnyOperand<E>& e) {
  return MakeAxisReduction<red::maximum, finish::None, kAxis, typename E::value_type>(
      OperandNode<E>(AsNode(e.self())));
}
/// Returns the smallest of all elements, or the smallest along an axis. A NaN among them gives NaN.
/// Over no elements it is the type's highest value, or infinity.
template <Operand E>
auto minimum(const AnyOperand<E>& e) {
  return MakeReduction<red::minimum, finish::None, typename E::value_type>(
      OperandNode<E>(AsNode(e.self())));
}
template <int kAxis, Operand E>
auto minimum(const AnyOperand<E>& e) {
  return MakeAxisReduction<red::minimum, finish::None, kAxis, typename E::value_type>(
      OperandNode<E>(AsNode(e.self())));
}

/// Returns the Euclidean norm of all elements, or the norms along an axis. A square above the
/// accumulator's range makes it infinite, and squares below the range vanish: the norm of three
/// times 1e-30f is 0.
template <Operand E>
auto norm(const AnyOperand<E>& e) {
  return MakeReduction<red::sum, finish::Root, typename E::value_type>(
      F<op::square>(Widened(e.self())));
}
template <int kAxis, Operand E>
auto norm(const AnyOperand<E>& e) {
  return MakeAxisReduction<red::sum, finish::Root, kAxis, typename E::value_type>(
      F<op::square>(Widened(e.self())));
}

/// Returns the products that `operation` sums. Throws Error(kInvalidArgument) if the shapes differ.
template <typename A, typename B>
auto ProductsFor(const char* operation, const A& a, const B& b) {
  if constexpr (A::kRank > 0 && B::kRank > 0) {
    if (a.shape() != b.shape()) {
      throw InvalidArgument(operation, ": the operands' shapes ", a.shape(), " and ", b.shape(),
                            " differ");
    }
  }
  return F<op::mul>(Widened(a), Widened(b));
}

/// Returns the sum of a * b over all elements, or the sums along one axis. Throws
/// Error(kInvalidArgument) if the shapes differ.
template <typename A, typename B>
requires MatchingExpressions<A, B>
auto inner(const AnyOperand<A>& a, const AnyOperand<B>& b) {
  return MakeReduction<red::sum, finish::None, typename A::value_type>(
      ProductsFor("inner", a.self(), b.self()));
}
template <int kAxis, typename A, typename B>
requires MatchingExpressions<A, B>
auto inner(const AnyOperand<A>& a, const AnyOperand<B>& b) {
  return MakeAxisReduction<red::sum, finish::None, kAxis, typename A::value_type>(
      ProductsFor("inner", a.self(), b.self()));
}
template <typename A, typename B>
requires MismatchedExpressions<A, B> MismatchOf<A, B> inner(const AnyOperand<A>& a,
                                                            const AnyOperand<B>& b)
= delete;
template <int kAxis, typename A, typename B>
requires MismatchedExpressions<A, B> MismatchOf<A, B> inner(const AnyOperand<A>& a,
                                                            const AnyOperand<B>& b)
= delete;

/// Returns the inner product of two vectors, which is a number. Throws Error(kInvalidArgument) if
/// the shapes differ. For matrices, dot is the matrix product, as in mshadow; inner is
/// Devectorize's `dot` for any rank.
template <typename A, typename B>
requires VectorPair<A, B>
auto dot(const AnyOperand<A>& a, const AnyOperand<B>& b) {
  return MakeReduction<red::sum, finish::None, typename A::value_type>(
      ProductsFor("dot", a.self(), b.self()));
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::dot;
using expr::inner;
using expr::maximum;
using expr::mean;
using expr::minimum;
using expr::norm;
using expr::sum;

}  // namespace tessera

#endif  // TESSERA_TENSOR_REDUCE_REDUCTIONS_H_
