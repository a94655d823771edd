#ifndef TESSERA_TENSOR_INDEX_SCATTER_H_
#define TESSERA_TENSOR_INDEX_SCATTER_H_

#include <algorithm>

#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/functors/accumulate.h"
#include "tessera/tensor/index/row_number.h"
#include "tessera/tensor/index/scatter_cuda.h"

/// Functions that write or add rows to the rows of a matrix that an index selects. Indices may have
/// any numeric type; a fraction is truncated. Results are reproducible on either device, because
/// rows are processed in order and only columns in parallel.
namespace tessera {

namespace tensor_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// Runs AddTakeGradLargeBatch for columns [begin, end), and sums kBlock columns at a time.
template <int kBlock, typename Device, typename I, typename T>
TESSERA_HD void AddRuns(const Tensor<Device, 2, T>& dst, const Tensor<Device, 1, I>& sorted,
                        const Tensor<Device, 1, I>& index, const Tensor<Device, 2, T>& src,
                        index_t begin, index_t end) {
  using Accumulator = typename expr::AccumulateIn<T>::type;
  const index_t count = sorted.shape_[0];
  for (index_t first = begin; first < end; first += kBlock) {
    const index_t width = end - first < kBlock ? end - first : kBlock;
    for (index_t i = 0; i < count;) {
      const index_t row = RowFor<OutOfRange::kNearest>(sorted.dptr_[i], dst.shape_[0]);
      Accumulator sums[kBlock];
      for (index_t x = 0; x < width; ++x) sums[x] = Accumulator(0);
      do {
        const index_t from = RowFor<OutOfRange::kNearest>(index.dptr_[i], src.shape_[0]);
        const T* const gradient = src.dptr_ + from * src.stride_ + first;
        for (index_t x = 0; x < width; ++x) sums[x] += static_cast<Accumulator>(gradient[x]);
        ++i;
      } while (i < count && RowFor<OutOfRange::kNearest>(sorted.dptr_[i], dst.shape_[0]) == row);
      T* const to = dst.dptr_ + row * dst.stride_ + first;
      for (index_t x = 0; x < width; ++x) {
        to[x] = static_cast<T>(static_cast<Accumulator>(to[x]) + sums[x]);
      }
    }
  }
}

/// Calls task(begin, end) for ranges of columns, in parallel if rows * columns is enough work.
template <typename Task>
void ForColumnRanges(index_t rows, index_t columns, const Task& task) {
  ParallelFor(columns, std::max<index_t>(64, StepsPerTask(rows)), task);
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tensor_internal

inline namespace TESSERA_ISA_NAMESPACE {

/// Adds src row i to dst row index[i], for each i in order: the gradient of take, accumulated.
///
/// An index outside the rows selects the nearest row. If kClip is false, it selects its remainder
/// by the number of rows, so that -1 is the last. half and bfloat16 are rounded at each addition.
/// Aliasing: src must not overlap dst. Throws Error(kInvalidArgument) if the shapes do not fit, or
/// if dst has no rows and src has.
template <bool kClip = true, typename Device, typename I, typename T>
void AddTakeGrad(Tensor<Device, 2, T> dst, const Tensor<Device, 1, I>& index,
                 const Tensor<Device, 2, T>& src) {
  using tensor_internal::OutOfRange;
  constexpr OutOfRange kRule = kClip ? OutOfRange::kNearest : OutOfRange::kAround;
  const index_t count = index.shape_[0];
  if (src.shape_ != Shape2(count, dst.shape_[1]) || (dst.shape_[0] == 0 && count != 0)) {
    throw InvalidArgument("AddTakeGrad: ", count, " indices and a gradient of shape ", src.shape_,
                          " do not fit the destination's shape ", dst.shape_);
  }
  if constexpr (Device::kDevCPU) {
    tensor_internal::ForColumnRanges(count, dst.shape_[1], [&](index_t begin, index_t end) {
      for (index_t i = 0; i < count; ++i) {
        const index_t row = tensor_internal::RowFor<kRule>(index.dptr_[i], dst.shape_[0]);
        expr::EvaluateRow<sv::plusto>(dst.dptr_ + row * dst.stride_, src, i, begin, end);
      }
    });
  } else {
    tensor_internal::RequireCompilerFor<Device>();
    tensor_internal::AddTakeGradCuda<kRule>(dst, index, src);
  }
}

/// Adds src row index[i] to dst row sorted[i], for each i in order. SortByKey prepares the
/// arguments: `sorted` is the sorted keys, and `index` is each key's position before sorting. The
/// rows of equal keys are summed first, half and bfloat16 in float, and then added to dst once.
///
/// An index outside the rows selects the nearest row. Keys that are not sorted give the same sums
/// in another order. Aliasing: src must not overlap dst. Throws Error(kInvalidArgument) if the
/// shapes do not fit, or if there are keys and dst or src has no rows.
template <typename Device, typename I, typename T>
void AddTakeGradLargeBatch(Tensor<Device, 2, T> dst, const Tensor<Device, 1, I>& sorted,
                           const Tensor<Device, 1, I>& index, const Tensor<Device, 2, T>& src) {
  const index_t count = sorted.shape_[0];
  if (index.shape_[0] != count || src.shape_[1] != dst.shape_[1] ||
      ((dst.shape_[0] == 0 || src.shape_[0] == 0) && count != 0)) {
    throw InvalidArgument("AddTakeGradLargeBatch: ", count, " keys, ", index.shape_[0],
                          " indices and a gradient of shape ", src.shape_,
                          " do not fit the destination's shape ", dst.shape_);
  }
  if constexpr (Device::kDevCPU) {
    tensor_internal::ForColumnRanges(count, dst.shape_[1], [&](index_t begin, index_t end) {
      tensor_internal::AddRuns<256>(dst, sorted, index, src, begin, end);
    });
  } else {
    tensor_internal::RequireCompilerFor<Device>();
    tensor_internal::AddTakeGradLargeBatchCuda(dst, sorted, index, src);
  }
}
/// Calls AddTakeGradLargeBatch without the workspace, which mshadow's programs pass and which is
/// not needed.
template <typename Device, typename I, typename T, typename W>
void AddTakeGradLargeBatch(Tensor<Device, 2, T> dst, const Tensor<Device, 1, I>& sorted,
                           const Tensor<Device, 1, I>& index, const Tensor<Device, 2, T>& src,
                           const Tensor<Device, 1, W>* workspace) {
  static_cast<void>(workspace);
  AddTakeGradLargeBatch(dst, sorted, index, src);
}

/// Sets dst row index[i] to src row i, for each i in order. If several rows have one index, the
/// last is kept. An index outside the rows writes nothing. Aliasing: src must not overlap dst.
/// Throws Error(kInvalidArgument) if the shapes do not fit.
template <typename Device, typename I, typename T>
void IndexFill(Tensor<Device, 2, T> dst, const Tensor<Device, 1, I>& index,
               const Tensor<Device, 2, T>& src) {
  const index_t count = index.shape_[0];
  if (src.shape_ != Shape2(count, dst.shape_[1])) {
    throw InvalidArgument("IndexFill: ", count, " indices and rows of shape ", src.shape_,
                          " do not fit the destination's shape ", dst.shape_);
  }
  if constexpr (Device::kDevCPU) {
    using tensor_internal::OutOfRange;
    tensor_internal::ForColumnRanges(count, dst.shape_[1], [&](index_t begin, index_t end) {
      for (index_t i = 0; i < count; ++i) {
        const index_t row =
            tensor_internal::RowFor<OutOfRange::kSkipped>(index.dptr_[i], dst.shape_[0]);
        if (row < 0) continue;
        const T* const from = src.dptr_ + i * src.stride_;
        std::copy(from + begin, from + end, dst.dptr_ + row * dst.stride_ + begin);
      }
    });
  } else {
    tensor_internal::RequireCompilerFor<Device>();
    tensor_internal::IndexFillCuda(dst, index, src);
  }
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera

#endif  // TESSERA_TENSOR_INDEX_SCATTER_H_
