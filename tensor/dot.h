#ifndef TESSERA_TENSOR_DOT_H_
#define TESSERA_TENSOR_DOT_H_

#include <functional>

#include "tessera/tensor/dense.h"
#include "tessera/tensor/internal/dot_cuda.h"
#include "tessera/tensor/internal/gemm.h"

namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// dot(a, b): a product that the GEMM computes when it is assigned.
template <typename Device, typename T, bool kTransposeA, bool kTransposeB>
struct DotExp : ComplexExp<DotExp<Device, T, kTransposeA, kTransposeB>> {
  Tensor<Device, 2, T> a;
  Tensor<Device, 2, T> b;
  bool vector_result;  // the left operand was a vector: the result is one as well
  T scale = T(1);

  DotExp(const Tensor<Device, 2, T>& left, const Tensor<Device, 2, T>& right, bool vector)
      : a(left), b(right), vector_result(vector) {}

  template <typename Saver, int N>
  requires(N <= 2) void AssignTo(const Tensor<Device, N, T>& dst) const {
    static_assert(std::is_same_v<Saver, sv::saveto> || std::is_same_v<Saver, sv::plusto> ||
                      std::is_same_v<Saver, sv::minusto>,
                  "a product can be assigned with =, += or -=");
    const index_t m = kTransposeA ? a.shape_[1] : a.shape_[0];
    const index_t k = kTransposeA ? a.shape_[0] : a.shape_[1];
    const index_t b_k = kTransposeB ? b.shape_[1] : b.shape_[0];
    const index_t n = kTransposeB ? b.shape_[0] : b.shape_[1];
    const Shape<2> dst_shape = dst.shape_.FlatTo2D();
    if (k != b_k || dst_shape != Shape2(m, n) || (N == 1) != vector_result) {
      throw InvalidArgument("dot: operands of shape ", a.shape_, kTransposeA ? " transposed" : "",
                            " and ", b.shape_, kTransposeB ? " transposed" : "",
                            " do not give the destination's shape ", dst.shape_);
    }
    if (Overlaps(a, dst) || Overlaps(b, dst)) {
      throw InvalidArgument("dot: the destination of shape ", dst.shape_,
                            " shares memory with an operand; assign to another tensor");
    }
    tensor_internal::GemmArguments<T> arguments{
        .transpose_a = kTransposeA,
        .transpose_b = kTransposeB,
        .m = m,
        .n = n,
        .k = k,
        .alpha = std::is_same_v<Saver, sv::minusto> ? static_cast<T>(-scale) : scale,
        .a = a.dptr_,
        .lda = a.stride_,
        .b = b.dptr_,
        .ldb = b.stride_,
        .beta = std::is_same_v<Saver, sv::saveto> ? T(0) : T(1),
        .c = dst.dptr_,
        .ldc = dst.stride_};
    if constexpr (Device::kDevCPU) {
      tensor_internal::Gemm(arguments);
    } else {
      tensor_internal::GemmCuda(arguments, dst.stream_);
    }
  }

 private:
  template <int N>
  static bool Overlaps(const Tensor<Device, 2, T>& operand, const Tensor<Device, N, T>& dst) {
    const Tensor<Device, 2, T> a = operand;
    const Tensor<Device, 2, T> b = dst.FlatTo2D();
    if (a.shape_.Size() == 0 || b.shape_.Size() == 0) return false;
    // The padding after the last row belongs to nobody.
    const auto end = [](const Tensor<Device, 2, T>& t) {
      return t.dptr_ + (t.shape_[0] - 1) * t.stride_ + t.shape_[1];
    };
    const std::less<const T*> before;
    if (!before(a.dptr_, end(b)) || !before(b.dptr_, end(a))) return false;
    if (a.stride_ != b.stride_ || a.stride_ == 0) return true;
    // Blocks of columns of one matrix: b starts `column` columns after a in some row.
    const index_t offset = (b.dptr_ - a.dptr_) % a.stride_;
    const index_t column = offset < 0 ? offset + a.stride_ : offset;
    return column < a.shape_[1] || column + b.shape_[1] > a.stride_;
  }
};

/// The matrix product, for `dst = dot(a, b)`, `dst += 0.5f * dot(a.T(), b)` and so on.
///
/// Shapes: dst (m, n), a (m, k) or with .T() (k, m), b (k, n) or with .T() (n, k); or dst (n) from
/// a vector a (k). Rows may be padded. Any extent may be 0; k == 0 gives zeros. Types: float,
/// double, half, bfloat16; the last two accumulate in float. Aliasing: dst must not overlap a or b;
/// that is an error. Throws Error(kInvalidArgument) when the shapes do not fit; dst is then
/// unchanged.
template <typename Device, typename T>
DotExp<Device, T, false, false> dot(const Tensor<Device, 2, T>& a, const Tensor<Device, 2, T>& b) {
  return {a, b, false};
}
template <typename Device, typename T>
DotExp<Device, T, true, false> dot(const TransposeExp<Tensor<Device, 2, T>>& a,
                                   const Tensor<Device, 2, T>& b) {
  return {a.a, b, false};
}
template <typename Device, typename T>
DotExp<Device, T, false, true> dot(const Tensor<Device, 2, T>& a,
                                   const TransposeExp<Tensor<Device, 2, T>>& b) {
  return {a, b.a, false};
}
template <typename Device, typename T>
DotExp<Device, T, true, true> dot(const TransposeExp<Tensor<Device, 2, T>>& a,
                                  const TransposeExp<Tensor<Device, 2, T>>& b) {
  return {a.a, b.a, false};
}
template <typename Device, typename T>
DotExp<Device, T, false, false> dot(const Tensor<Device, 1, T>& a, const Tensor<Device, 2, T>& b) {
  return {a.FlatTo2D(), b, true};
}
template <typename Device, typename T>
DotExp<Device, T, false, true> dot(const Tensor<Device, 1, T>& a,
                                   const TransposeExp<Tensor<Device, 2, T>>& b) {
  return {a.FlatTo2D(), b.a, true};
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::dot;

}  // namespace tessera

#endif  // TESSERA_TENSOR_DOT_H_
