#ifndef TESSERA_TENSOR_SOFTMAX_H_
#define TESSERA_TENSOR_SOFTMAX_H_

#include <algorithm>
#include <cmath>

#include "tessera/tensor/dense.h"
#include "tessera/tensor/reduce.h"
#include "tessera/tensor/softmax_cuda.h"

namespace tessera {
inline namespace TESSERA_ISA_NAMESPACE {

/// One softmax over `count` elements that lie `step` apart:
/// out[i] = exp(in[i] - max(in)) / sum_j exp(in[j] - max(in)). The maximum is taken out first so
/// that no exponential overflows.
template <typename T>
TESSERA_HD void SoftmaxLine(T* out, const T* in, index_t count, index_t step) {
  using Accumulator = typename expr::AccumulateIn<T>::type;
  using std::exp;
  T maximum = red::maximum::InitialValue<T>();
  for (index_t i = 0; i < count; ++i) maximum = op::maximum::Map(maximum, in[i * step]);
  Accumulator sum = 0;
  for (index_t i = 0; i < count; ++i) {
    const Accumulator e =
        exp(static_cast<Accumulator>(in[i * step]) - static_cast<Accumulator>(maximum));
    out[i * step] = static_cast<T>(e);
    sum += e;
  }
  for (index_t i = 0; i < count; ++i) {
    out[i * step] = static_cast<T>(static_cast<Accumulator>(out[i * step]) / sum);
  }
}

/// Softmax over dimension 1: every out[n][·][p] is positive and sums to 1.
///
/// Shapes: dst and src (n, classes, positions), equal and contiguous, or as matrices (n, classes).
/// dst may be src itself. half and bfloat16 compute in float. NaN or +inf among the classes gives
/// NaN. Throws Error(kInvalidArgument) on other shapes, Error(kFailedPrecondition) on padded rows.
template <typename Device, typename T>
void Softmax(const Tensor<Device, 3, T>& dst, const Tensor<Device, 3, T>& src) {
  if (dst.shape_ != src.shape_) {
    throw InvalidArgument("Softmax: destination ", dst.shape_, " and source ", src.shape_,
                          " differ in shape");
  }
  if (!dst.CheckContiguous() || !src.CheckContiguous()) {
    throw FailedPrecondition("Softmax: source and destination must be contiguous");
  }
  if constexpr (Device::kDevCPU) {
    const index_t classes = src.shape_[1];
    const index_t positions = src.shape_[2];
    // An exponential costs some ten elements' worth of an ordinary expression.
    const index_t grain =
        std::max<index_t>(1, expr::kElementsPerTask / 8 / std::max<index_t>(1, classes));
    ParallelFor(src.shape_[0] * positions, grain, [&](index_t begin, index_t end) {
      for (index_t i = begin; i < end; ++i) {
        const index_t first = i / positions * classes * positions + i % positions;
        SoftmaxLine(dst.dptr_ + first, src.dptr_ + first, classes, positions);
      }
    });
  } else {
    SoftmaxCuda(dst, src);
  }
}
template <typename Device, typename T>
void Softmax(const Tensor<Device, 2, T>& dst, const Tensor<Device, 2, T>& src) {
  const auto lines = [](const Tensor<Device, 2, T>& matrix) {
    return Tensor<Device, 3, T>(matrix.FlatTo1D().dptr_,
                                Shape3(matrix.shape_[0], matrix.shape_[1], 1), matrix.stream_);
  };
  Softmax(lines(dst), lines(src));
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera

#endif  // TESSERA_TENSOR_SOFTMAX_H_
