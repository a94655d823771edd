#ifndef TESSERA_TENSOR_NN_SOFTMAX_H_
#define TESSERA_TENSOR_NN_SOFTMAX_H_

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/nn/softmax_cuda.h"
#include "tessera/tensor/reduce/reduce_row.h"

namespace tessera {

namespace tensor_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// Elements at equal distances in memory.
template <typename T>
struct SoftmaxLine {
  T* first;      ///< element 0
  index_t step;  ///< elements in memory from one to the next

  /// Returns element i.
  TESSERA_HD T& operator[](index_t i) const { return first[i * step]; }
};

/// Computes one softmax over `count` elements: out[i] = exp(in[i] - max(in)) / sum_j exp(in[j] -
/// max(in)). The maximum is subtracted first so that no exponential overflows.
template <typename T>
TESSERA_HD void SoftmaxOfLine(const SoftmaxLine<T>& out, const SoftmaxLine<const T>& in,
                              index_t count) {
  using Accumulator = typename expr::AccumulateIn<T>::type;
  using std::exp;
  T maximum = red::maximum::InitialValue<T>();
  for (index_t i = 0; i < count; ++i) maximum = op::maximum::Map(maximum, in[i]);
  Accumulator sum = 0;
  for (index_t i = 0; i < count; ++i) {
    const Accumulator e = exp(static_cast<Accumulator>(in[i]) - static_cast<Accumulator>(maximum));
    out[i] = static_cast<T>(e);
    sum += e;
  }
  for (index_t i = 0; i < count; ++i) {
    out[i] = static_cast<T>(static_cast<Accumulator>(out[i]) / sum);
  }
}

/// Computes one softmax over `count` contiguous elements in host memory, as SoftmaxOfLine does. It
/// uses the evaluator's loops: an array kernel for exponentials, and packets for the rest.
template <typename T>
requires std::is_floating_point_v<T>
void SoftmaxOfRow(T* out, const T* in, index_t count) {
  const Tensor<cpu, 1, T> x(const_cast<T*>(in), Shape1(count)), y(out, Shape1(count));
  const T maximum = expr::ReduceRow<red::maximum>(x, 0, 0, count);
  expr::EvaluateRow<sv::saveto>(out, F<op::exp>(x - maximum), 0, 0, count);
  const T sum = expr::ReduceRow<red::sum>(y, 0, 0, count);
  expr::EvaluateRow<sv::saveto>(out, y / sum, 0, 0, count);
}

/// The lines of (n, classes, positions), or of a matrix (n, classes), which has one position. Line
/// i belongs to sample i / positions and position i % positions.
template <typename T>
struct SoftmaxLines {
  T* data;              ///< the first element of the first line
  index_t positions;    ///< lines of a sample
  index_t sample_step;  ///< elements in memory from one sample to the next
  index_t class_step;   ///< elements in memory from one class to the next

  /// Returns line i.
  TESSERA_HD SoftmaxLine<T> operator[](index_t i) const {
    const index_t sample = i / positions;
    return {data + sample * sample_step + (i - sample * positions), class_step};
  }
};

/// Returns the lines of a tensor.
template <typename T, typename Device>
SoftmaxLines<T> SoftmaxLinesOf(const Tensor<Device, 3, std::remove_const_t<T>>& t) {
  return {t.dptr_, t.shape_[2], t.shape_[1] * t.stride_, t.stride_};
}
template <typename T, typename Device>
SoftmaxLines<T> SoftmaxLinesOf(const Tensor<Device, 2, std::remove_const_t<T>>& t) {
  return {t.dptr_, 1, t.stride_, 1};
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tensor_internal

inline namespace TESSERA_ISA_NAMESPACE {

/// Computes the softmax over dimension 1: every out[n][·][p] is positive and sums to 1.
///
/// Shapes: dst and src equal, (n, classes, positions), a matrix (n, classes), or a vector
/// (classes); rows may be padded. dst may be src itself; another overlap is not detected, and makes
/// dst's elements undefined. half and bfloat16 compute in float. NaN or +inf among the classes
/// gives NaN. Throws Error(kInvalidArgument) if the shapes differ.
template <typename Device, int N, typename T>
requires(N == 2 || N == 3) void Softmax(const Tensor<Device, N, T>& dst,
                                        const Tensor<Device, N, T>& src) {
  static_assert(!std::is_integral_v<T>, "Softmax: the elements must be real numbers");
  if (dst.shape_ != src.shape_) {
    throw InvalidArgument("Softmax: destination ", dst.shape_, " and source ", src.shape_,
                          " differ in shape");
  }
  if (src.shape_.Size() == 0) return;
  const auto out = tensor_internal::SoftmaxLinesOf<T>(dst);
  const auto in = tensor_internal::SoftmaxLinesOf<const T>(src);
  const index_t classes = src.shape_[1];
  const index_t lines = src.shape_[0] * in.positions;
  if constexpr (Device::kDevCPU) {
    const bool by_rows = std::is_floating_point_v<T> && classes >= expr::kMinAvx2Row &&
                         out.class_step == 1 && in.class_step == 1;
    // An element of SoftmaxOfRow costs about as much as eight of an ordinary expression.
    const index_t cost = by_rows ? 7 : op::kLibraryCost;
    ParallelFor(lines, StepsPerTask(classes, cost), [&](index_t begin, index_t end) {
      for (index_t i = begin; i < end; ++i) {
        if constexpr (std::is_floating_point_v<T>) {
          if (by_rows) {
            tensor_internal::SoftmaxOfRow<T>(out[i].first, in[i].first, classes);
            continue;
          }
        }
        tensor_internal::SoftmaxOfLine<T>(out[i], in[i], classes);
      }
    });
  } else {
    tensor_internal::RequireCompilerFor<Device>();
    tensor_internal::SoftmaxCuda(out, in, lines, classes, dst.stream_);
  }
}
template <typename Device, typename T>
void Softmax(const Tensor<Device, 1, T>& dst, const Tensor<Device, 1, T>& src) {
  Softmax(dst.FlatTo2D(), src.FlatTo2D());
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera

#endif  // TESSERA_TENSOR_NN_SOFTMAX_H_
