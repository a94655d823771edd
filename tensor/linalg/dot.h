#ifndef TESSERA_TENSOR_LINALG_DOT_H_
#define TESSERA_TENSOR_LINALG_DOT_H_

#include <tuple>
#include <type_traits>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/expr/overlap.h"
#include "tessera/tensor/linalg/dot_cuda.h"
#include "tessera/tensor/linalg/gemm.h"

namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The stored form of an operand of dot. The GEMM reads a transposed operand through a flag.
template <typename E>
struct MatrixOperand {
  using Node = E;
  static constexpr bool kTransposed = false;
  static const E& Stored(const E& e) { return e; }
};
template <typename E>
struct MatrixOperand<TransposeExp<E>> {
  using Node = E;
  static constexpr bool kTransposed = true;
  static const E& Stored(const TransposeExp<E>& e) { return e.a; }
};
/// A vector's transpose is a column: a matrix of one row, transposed.
template <typename Device, typename T>
struct MatrixOperand<TransposeExp<Tensor<Device, 1, T>>> {
  using Node = Tensor<Device, 2, T>;
  static constexpr bool kTransposed = true;
  static Node Stored(const TransposeExp<Tensor<Device, 1, T>>& e) { return e.a.FlatTo2D(); }
};

/// The expression node of dot(a, b): a product that the GEMM computes when it is assigned or is
/// part of an expression. A and B are the operands in their stored form.
template <typename A, typename B, bool kTransposeA, bool kTransposeB>
struct DotExp : ComplexExp<DotExp<A, B, kTransposeA, kTransposeB>, typename A::value_type> {
  using value_type = typename A::value_type;
  using device_type = CommonDevice<A, B>;
  using T = value_type;
  using Device = device_type;
  static constexpr int kRank = A::kRank;

  A a;
  B b;
  T scale = T(1);

  DotExp(const A& left, const B& right) : a(left), b(right) {
    if (Inner() != b.shape()[kTransposeB ? 1 : 0]) {
      throw InvalidArgument("dot: operands of shape ", a.shape(), kTransposeA ? " transposed" : "",
                            " and ", b.shape(), kTransposeB ? " transposed" : "",
                            " do not fit: ", Inner(), " columns against ",
                            b.shape()[kTransposeB ? 1 : 0], " rows");
    }
  }
  Shape<kRank> shape() const {
    Shape<kRank> result;
    if constexpr (kRank == 2) result[0] = a.shape()[kTransposeA ? 1 : 0];
    result[kRank - 1] = b.shape()[kTransposeB ? 0 : 1];
    return result;
  }
  std::tuple<A, B> operands() const { return {a, b}; }

  template <typename Saver>
  void AssignTo(const Tensor<Device, kRank, T>& dst) const {
    if (dst.shape_ != shape()) {
      throw InvalidArgument("dot: operands of shape ", a.shape(), kTransposeA ? " transposed" : "",
                            " and ", b.shape(), kTransposeB ? " transposed" : "",
                            " do not give the destination's shape ", dst.shape_);
    }
    RequireMemory(a, b);
    const bool direct = sv::DoneByGemm<Saver> && !SharesMemory(a, dst) && !SharesMemory(b, dst);
    if constexpr (sv::DoneByGemm<Saver> && kIsTensor<A> && kIsTensor<B>) {
      if (direct) {  // saves the few nanoseconds of a Scratch
        Multiply<Saver>(a, b, dst);
        return;
      }
    }
    Scratch<Device> scratch(dst.stream_);
    const auto left = InMemory(a, dst.stream_, &scratch);
    const auto right = InMemory(b, dst.stream_, &scratch);
    if constexpr (sv::DoneByGemm<Saver>) {
      if (direct) {
        Multiply<Saver>(left, right, dst);
        return;
      }
    }
    const auto product = TemporaryTensor<Device, kRank, T>(dst.shape_, dst.stream_, &scratch);
    Multiply<sv::saveto>(left, right, product);
    Evaluate<Saver>(dst, product);
  }

 private:
  index_t Inner() const { return a.shape()[kTransposeA ? 0 : kRank - 1]; }

  /// Returns the operand itself if it is a tensor, else its value in scratch memory.
  template <typename E>
  static auto InMemory(const E& e, Stream<Device>* stream, Scratch<Device>* scratch) {
    if constexpr (kIsTensor<E>) {
      return e;
    } else {
      const auto value = TemporaryTensor<Device, E::kRank, T>(e.shape(), stream, scratch);
      Assign<sv::saveto, Aliasing::kExcluded>(value, e);
      return value;
    }
  }

  template <typename Saver, typename Left>
  void Multiply(const Left& left, const Tensor<Device, 2, T>& y,
                const Tensor<Device, kRank, T>& dst) const {
    const Tensor<Device, 2, T> x = left.FlatTo2D(), result = dst.FlatTo2D();
    const tensor_internal::GemmArguments<T> arguments{
        .transpose_a = kTransposeA,
        .transpose_b = kTransposeB,
        .m = result.shape_[0],
        .n = result.shape_[1],
        .k = x.shape_[kTransposeA ? 0 : 1],
        .alpha = std::is_same_v<Saver, sv::minusto> ? static_cast<T>(-scale) : scale,
        .a = x.dptr_,
        .lda = x.stride_,
        .b = y.dptr_,
        .ldb = y.stride_,
        .beta = static_cast<T>(Saver::BetaBLAS()),
        .c = result.dptr_,
        .ldc = result.stride_};
    if constexpr (Device::kDevCPU) {
      tensor_internal::Gemm(arguments);
    } else {
      tensor_internal::GemmCuda(arguments, dst.stream_);
    }
  }
  /// Returns whether e is a tensor that overlaps dst. Other expressions are first evaluated into
  /// memory of their own.
  template <typename E>
  static bool SharesMemory(const E& e, const Tensor<Device, kRank, T>& dst) {
    if constexpr (kIsTensor<E>) {
      return PlaceOf(e).Overlaps(PlaceOf(dst));
    } else {
      return false;
    }
  }
};

/// Satisfied by the operands of dot: a matrix and a matrix, or a vector and a matrix.
template <typename A, typename B>
concept DotOperands = Operand<A> && Operand<B> && SameElementType<A, B> && SameDevice<A, B> &&
                      (A::kRank == 1 || A::kRank == 2) &&
                      B::kRank == 2;

/// True for the transpose of a vector, which is a matrix of one column.
template <typename E>
inline constexpr bool kIsColumn = false;
template <typename E>
inline constexpr bool kIsColumn<TransposeExp<E>> = E::kRank == 1;

/// Satisfied by a matrix and a vector.
template <typename A, typename B>
concept MatrixAndVector =
    Operand<A> && Operand<B> && SameElementType<A, B> && SameDevice<A, B> && A::kRank == 2 &&
    B::kRank == 1;

/// Returns the matrix product as an expression, for `dst = dot(a, b)`, `dst += 0.5f * dot(a.T(),
/// b)`, `1.0f + dot(a, b)` and so on.
///
/// Shapes: dst (m, n), a (m, k) or with .T() (k, m), b (k, n) or with .T() (n, k); or dst (n) from
/// a vector a (k); or dst (m) from a vector b (k). A vector is a row on the left and a column on
/// the right. Rows may be padded. Any extent may be 0; k == 0 gives zeros. Operands that are no
/// tensors are evaluated into temporaries first. Types: float, double, half, bfloat16; the last two
/// accumulate in float. Aliasing: the product goes through a temporary if dst overlaps a or b.
/// Throws Error(kInvalidArgument) when the shapes do not fit; dst is then unchanged.
template <typename A, typename B>
requires DotOperands<A, B>
auto dot(const A& a, const B& b) {
  using Left = MatrixOperand<OperandNode<A>>;
  using Right = MatrixOperand<OperandNode<B>>;
  return DotExp<typename Left::Node, typename Right::Node, Left::kTransposed, Right::kTransposed>(
      Left::Stored(AsNode(a)), Right::Stored(AsNode(b)));
}
template <typename A, typename B>
requires(MatrixAndVector<A, B> && !kIsColumn<OperandNode<A>>) auto dot(const A& a, const B& b) {
  const auto shape = a.shape();
  if (shape[1] != b.shape()[0]) {
    throw InvalidArgument("dot: a matrix of shape ", shape, " and a vector of shape ", b.shape(),
                          " do not fit: ", shape[1], " columns against ", b.shape()[0],
                          " elements");
  }
  // The vector as a row, times the transposed matrix.
  using Matrix = MatrixOperand<OperandNode<A>>;
  return DotExp<OperandNode<B>, typename Matrix::Node, false, !Matrix::kTransposed>(
      AsNode(b), Matrix::Stored(AsNode(a)));
}
/// Returns the product of a column and a row, their outer product: `dst = dot(u.T(), v)` for
/// vectors u (m) and v (n) has dst (m, n).
template <typename A, typename Device, typename T>
requires(MatrixAndVector<A, Tensor<Device, 1, T>>&& kIsColumn<OperandNode<A>>) auto dot(
    const A& a, const Tensor<Device, 1, T>& b) {
  return dot(a, b.FlatTo2D());
}

/// The result type of the deleted dot, which the compiler shows for operands that dot does not
/// take. Its name gives the reason; see MismatchOf.
struct DotTakesMatricesAndVectors_UseBatchGEMMForMore;
/// Satisfied by operands that no other overload of dot takes.
template <typename A, typename B>
concept MismatchedDot =
    Operand<A> && Operand<B> && !DotOperands<A, B> && !VectorPair<A, B> &&
    !(MatrixAndVector<A, B> && (!kIsColumn<OperandNode<A>> || kIsTensor<NodeOf<B>>));
/// The type whose name gives the reason why dot does not take A and B.
template <typename A, typename B>
using DotMismatchOf =
    std::conditional_t<SameElementType<A, B> && SameDevice<A, B>,
                       DotTakesMatricesAndVectors_UseBatchGEMMForMore, MismatchOf<A, B>>;
template <typename A, typename B>
requires MismatchedDot<A, B> DotMismatchOf<A, B> dot(const A& a, const B& b)
= delete;

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::dot;

}  // namespace tessera

#endif  // TESSERA_TENSOR_LINALG_DOT_H_
