#ifndef TESSERA_TENSOR_LINALG_BATCH_GEMM_H_
#define TESSERA_TENSOR_LINALG_BATCH_GEMM_H_

#include <type_traits>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/linalg/dot_cuda.h"
#include "tessera/tensor/linalg/gemm.h"
#include "tessera/tensor/reduce/reduce.h"

namespace tessera {
inline namespace TESSERA_ISA_NAMESPACE {

/// Computes a product of matrices for each index of the first dimension: dst[i] = alpha *
/// op(lhs[i]) * op(rhs[i]) + beta * dst[i], where op transposes if kTransposeLeft or
/// kTransposeRight is true.
///
/// Shapes: dst (batch, m, n), lhs (batch, m, k) or transposed (batch, k, m), rhs (batch, k, n) or
/// transposed (batch, n, k). Rows may be padded, and any extent may be 0. dst is not read if beta
/// == 0. Types: float, double, half, bfloat16; the last two accumulate in float. cuBLAS takes the
/// batch as a whole on a GPU. Throws Error(kInvalidArgument) if the shapes do not fit or dst shares
/// memory with an operand; dst is then unchanged.
template <bool kTransposeLeft, bool kTransposeRight, typename Device, typename T,
          expr::Scalar Alpha = T, expr::Scalar Beta = T>
void BatchGEMM(Tensor<Device, 3, T> dst, const Tensor<Device, 3, T>& lhs,
               const Tensor<Device, 3, T>& rhs, Alpha alpha = Alpha(1), Beta beta = Beta(0)) {
  const index_t m = lhs.shape_[kTransposeLeft ? 2 : 1];
  const index_t k = lhs.shape_[kTransposeLeft ? 1 : 2];
  const index_t n = rhs.shape_[kTransposeRight ? 1 : 2];
  if (rhs.shape_[kTransposeRight ? 2 : 1] != k || lhs.shape_[0] != rhs.shape_[0] ||
      dst.shape_ != Shape3(lhs.shape_[0], m, n)) {
    throw InvalidArgument("BatchGEMM: operands of shape ", lhs.shape_,
                          kTransposeLeft ? " transposed" : "", " and ", rhs.shape_,
                          kTransposeRight ? " transposed" : "",
                          " do not give the destination's shape ", dst.shape_);
  }
  expr::RequireMemoryOf(dst, expr::kDestination);
  expr::RequireMemory(lhs, rhs);
  if (expr::ReadsElsewhere<true>(lhs, expr::PlaceOf(dst)) ||
      expr::ReadsElsewhere<true>(rhs, expr::PlaceOf(dst))) {
    throw InvalidArgument("BatchGEMM: the destination of shape ", dst.shape_,
                          " shares memory with an operand; assign to another tensor");
  }
  const tensor_internal::GemmArguments<T> first{.transpose_a = kTransposeLeft,
                                                .transpose_b = kTransposeRight,
                                                .m = m,
                                                .n = n,
                                                .k = k,
                                                .alpha = static_cast<T>(alpha),
                                                .a = lhs.dptr_,
                                                .lda = lhs.stride_,
                                                .b = rhs.dptr_,
                                                .ldb = rhs.stride_,
                                                .beta = static_cast<T>(beta),
                                                .c = dst.dptr_,
                                                .ldc = dst.stride_};
  const tensor_internal::GemmBatch batch{.count = dst.shape_[0],
                                         .stride_a = lhs.template MemSize<1>(),
                                         .stride_b = rhs.template MemSize<1>(),
                                         .stride_c = dst.template MemSize<1>()};
  if constexpr (Device::kDevCPU) {
    ParallelFor(batch.count, tensor_internal::ProductsPerTask(m, n, k, batch.count),
                [&](index_t begin, index_t end) {
                  for (index_t i = begin; i < end; ++i) {
                    tensor_internal::Gemm(tensor_internal::ProductOf(first, batch, i));
                  }
                });
  } else {
    tensor_internal::GemmCuda(first, dst.stream_, batch);
  }
}
/// Computes the products of BatchGEMM. Programs for mshadow pass `workspace`, which is not needed.
template <bool kTransposeLeft, bool kTransposeRight, typename Device, typename T,
          expr::Scalar Alpha, expr::Scalar Beta>
void BatchGEMM(Tensor<Device, 3, T> dst, const Tensor<Device, 3, T>& lhs,
               const Tensor<Device, 3, T>& rhs, Alpha alpha, Beta beta,
               const Tensor<Device, 1, T*>& workspace) {
  static_cast<void>(workspace);
  BatchGEMM<kTransposeLeft, kTransposeRight>(dst, lhs, rhs, alpha, beta);
}

/// Computes dst[0] = the sum of lhs[i] * rhs[i]. Throws Error(kInvalidArgument) unless lhs and rhs
/// have the same length and dst has one element.
template <typename Device, typename T>
void VectorDot(Tensor<Device, 1, T> dst, const Tensor<Device, 1, T>& lhs,
               const Tensor<Device, 1, T>& rhs) {
  if (lhs.shape_ != rhs.shape_ || dst.shape_[0] != 1) {
    throw InvalidArgument("VectorDot: vectors of shape ", lhs.shape_, " and ", rhs.shape_,
                          " do not give the destination's shape ", dst.shape_);
  }
  const auto row = [](const Tensor<Device, 1, T>& vector) {
    return Tensor<Device, 2, T>(vector.dptr_, Shape2(1, vector.shape_[0]), vector.stream_);
  };
  dst = expr::sumall_except_dim<0>(row(lhs) * row(rhs));
}

}  // namespace TESSERA_ISA_NAMESPACE

namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The expression node of batch_dot.
template <bool kTransposeLeft, bool kTransposeRight, typename Device, typename T>
struct BatchDotExp : ComplexExp<BatchDotExp<kTransposeLeft, kTransposeRight, Device, T>, T> {
  using value_type = T;
  using device_type = Device;
  static constexpr int kRank = 3;

  Tensor<Device, 3, T> lhs;
  Tensor<Device, 3, T> rhs;
  T scale = T(1);

  BatchDotExp(const Tensor<Device, 3, T>& left, const Tensor<Device, 3, T>& right)
      : lhs(left), rhs(right) {}

  Shape<3> shape() const {
    return Shape3(lhs.shape_[0], lhs.shape_[kTransposeLeft ? 2 : 1],
                  rhs.shape_[kTransposeRight ? 1 : 2]);
  }
  template <typename Saver>
  void AssignTo(const Tensor<Device, 3, T>& dst) const {
    if constexpr (sv::DoneByGemm<Saver>) {
      const bool shared = dst.shape_ == shape() && (ReadsElsewhere<true>(lhs, PlaceOf(dst)) ||
                                                    ReadsElsewhere<true>(rhs, PlaceOf(dst)));
      if (!shared) {
        BatchGEMM<kTransposeLeft, kTransposeRight>(
            dst, lhs, rhs, std::is_same_v<Saver, sv::minusto> ? static_cast<T>(-scale) : scale,
            static_cast<T>(Saver::BetaBLAS()));
        return;
      }
    }
    Scratch<Device> scratch(dst.stream_);
    const auto product = TemporaryTensor<Device, 3, T>(dst.shape_, dst.stream_, &scratch);
    BatchGEMM<kTransposeLeft, kTransposeRight>(product, lhs, rhs, scale);
    Evaluate<Saver>(dst, product);
  }
};

/// Returns the products of BatchGEMM as an expression: `dst += 0.5f * batch_dot<false, true>(a,
/// b)`. They go through a temporary if dst shares memory with an operand, as in `a =
/// batch_dot<false, false>(a, b)`.
template <bool kTransposeLeft, bool kTransposeRight, typename Device, typename T>
BatchDotExp<kTransposeLeft, kTransposeRight, Device, T> batch_dot(const Tensor<Device, 3, T>& lhs,
                                                                  const Tensor<Device, 3, T>& rhs) {
  return {lhs, rhs};
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::batch_dot;

}  // namespace tessera

#endif  // TESSERA_TENSOR_LINALG_BATCH_GEMM_H_
