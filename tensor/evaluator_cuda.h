#ifndef TESSERA_TENSOR_EVALUATOR_CUDA_H_
#define TESSERA_TENSOR_EVALUATOR_CUDA_H_

#include "tessera/tensor/element_group.h"
#include "tessera/tensor/expression.h"
#include "tessera/tensor/scratch_cuda.h"
#include "tessera/tensor/stream.h"

#if defined(__CUDACC__)

#include "tessera/tensor/internal/cuda_check.h"
#include "tessera/tensor/internal/cuda_launch.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Combines one element with the expression's.
template <typename Saver, typename T, typename E>
__device__ void SaveOne(T* element, const E& e, index_t y, index_t x) {
  if constexpr (std::is_same_v<Saver, sv::saveto>) {
    *element = e.Eval(y, x);
  } else {
    *element = Saver::OPType::Map(*element, e.Eval(y, x));
  }
}

/// The one element-wise kernel: element i of a (rows, columns) destination is combined with
/// element i of the expression; a grid-stride loop, so that any grid covers any size. What is
/// contiguous comes as one row, which needs no division for each element.
template <typename Saver, typename T, typename E>
__global__ void EvaluateKernel(T* dst, index_t stride, index_t rows, index_t columns, E e) {
  const index_t size = rows * columns;
  for (index_t i = blockIdx.x * index_t{blockDim.x} + threadIdx.x; i < size;
       i += index_t{gridDim.x} * blockDim.x) {
    const index_t y = rows == 1 ? 0 : i / columns;
    const index_t x = i - y * columns;
    SaveOne<Saver>(dst + y * stride + x, e, y, x);
  }
}

/// The same in groups of 16 bytes; the last group of a row may be short.
template <typename Saver, typename T, typename E>
__global__ void EvaluateGroupsKernel(T* dst, index_t stride, index_t rows, index_t columns, E e) {
  using Group = ElementGroup<T>;
  const index_t row_groups = (columns + Group::kSize - 1) / Group::kSize;
  const index_t size = rows * row_groups;
  for (index_t i = blockIdx.x * index_t{blockDim.x} + threadIdx.x; i < size;
       i += index_t{gridDim.x} * blockDim.x) {
    const index_t y = rows == 1 ? 0 : i / row_groups;
    const index_t x = (i - y * row_groups) * Group::kSize;
    T* const first = dst + y * stride + x;
    if (x + Group::kSize <= columns) {
      const Group value = e.template EvalPacket<Group>(y, x);
      if constexpr (std::is_same_v<Saver, sv::saveto>) {
        StorePacket(first, value);
      } else {
        StorePacket(first, MapPackets<typename Saver::OPType>(LoadPacket<Group>(first), value));
      }
    } else {
      for (index_t k = 0; x + k < columns; ++k) SaveOne<Saver>(first + k, e, y, x + k);
    }
  }
}

/// True if an expression over rows that lie `stride` apart can be evaluated in groups.
template <typename T, typename E>
bool MovesInGroups(const T* dst, index_t rows, index_t stride, const E& e) {
  if constexpr (HasGroups<E>() && ElementGroup<T>::kSize > 1) {
    return RowsAreAligned(dst, rows, stride) && e.GroupsAreAligned(rows);
  } else {
    return false;
  }
}

/// Enqueues the evaluation of a (rows, columns) destination.
template <typename Saver, typename T, typename E>
void EvaluateOnStream(T* dst, index_t stride, const Shape<2>& shape, const E& e,
                      cudaStream_t stream) {
  const index_t size = shape.Size();
  if (size == 0) return;
  if (MovesInGroups(dst, shape[0], stride, e)) {
    if constexpr (HasGroups<E>() && ElementGroup<T>::kSize > 1) {
      const index_t row_groups = (shape[1] + ElementGroup<T>::kSize - 1) / ElementGroup<T>::kSize;
      const auto launch = tensor_internal::LaunchShapeFor(shape[0] * row_groups);
      EvaluateGroupsKernel<Saver>
          <<<launch.blocks, launch.threads, 0, stream>>>(dst, stride, shape[0], shape[1], e);
    }
  } else {
    const auto launch = tensor_internal::LaunchShapeFor(size);
    EvaluateKernel<Saver>
        <<<launch.blocks, launch.threads, 0, stream>>>(dst, stride, shape[0], shape[1], e);
  }
  tensor_internal::CheckCuda(cudaGetLastError(), "expression kernel");
}

/// Enqueues the evaluation on the destination's stream. The shapes have been checked.
template <typename Saver, int N, typename T, typename E>
void Evaluate(const Tensor<gpu, N, T>& dst, const E& e) {
  const bool one_row = dst.CheckContiguous() && e.IsFlat();
  const Shape<2> shape = one_row ? Shape2(1, dst.shape_.Size()) : dst.shape_.FlatTo2D();
  if (shape.Size() == 0) return;
  EvaluateOnStream<Saver>(dst.dptr_, dst.stride_, shape, e,
                          tensor_internal::CudaStream(dst.stream_));
}

/// Computes an expression without dimensions that is ready for a loop, and waits for it. What a
/// reduction has left in memory is there already, and needs no kernel.
template <typename T, typename E>
T NumberFromDevice(const E& ready, Scratch<gpu>* scratch) {
  const cudaStream_t stream = tensor_internal::CudaStream(scratch->stream());
  const T* number;
  if constexpr (requires { ready.number; }) {
    number = ready.number;
  } else {
    T* const computed = static_cast<T*>(scratch->Allocate(sizeof(T)));
    EvaluateOnStream<sv::saveto>(computed, 1, Shape2(1, 1), ready, stream);
    number = computed;
  }
  T result;
  tensor_internal::CheckCuda(
      cudaMemcpyAsync(&result, number, sizeof(T), cudaMemcpyDeviceToHost, stream),
      "tensor expression: copy of a number");
  tensor_internal::CheckCuda(cudaStreamSynchronize(stream), "tensor expression: a number");
  return result;
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::expr

#endif  // defined(__CUDACC__)

#endif  // TESSERA_TENSOR_EVALUATOR_CUDA_H_
