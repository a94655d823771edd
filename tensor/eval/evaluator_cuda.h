#ifndef TESSERA_TENSOR_EVAL_EVALUATOR_CUDA_H_
#define TESSERA_TENSOR_EVAL_EVALUATOR_CUDA_H_

#include <algorithm>

#include "tessera/tensor/device/scratch_cuda.h"
#include "tessera/tensor/device/stream.h"
#include "tessera/tensor/eval/avx2_loop.h"
#include "tessera/tensor/expr/element_group.h"
#include "tessera/tensor/expr/expression.h"

#if defined(__CUDACC__)

#include "tessera/tensor/device/cuda_check.h"
#include "tessera/tensor/device/cuda_launch.h"

namespace tessera::expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// Combines one element of the destination with element x of row y of the expression.
template <typename Saver, typename T, typename E>
__device__ void SaveOne(T* element, const E& e, index_t y, index_t x) {
  if constexpr (std::is_same_v<Saver, sv::saveto>) {
    *element = e.Eval(y, x);
  } else {
    *element = Saver::OPType::Map(*element, e.Eval(y, x));
  }
}

/// The element-wise kernel. Element i of a (rows, columns) destination is combined with element i
/// of the expression. A grid-stride loop lets any grid cover any size. Contiguous data comes as one
/// row, which needs no division for each element.
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

/// The element-wise kernel in groups of 16 bytes. The last group of a row may be short.
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

/// The number of rows, and of columns, of a tile of EvaluateTilesKernel. A tile of 4-byte elements
/// has 16 KiB.
template <typename T>
inline constexpr int kTile = sizeof(T) <= 4 ? 64 : 32;

/// The element-wise kernel for an expression whose memory is contiguous along other rows than the
/// destination. Neighbouring threads compute neighbouring rows of a tile. The tile goes through
/// shared memory, and neighbouring threads write neighbouring columns. The odd row length of the
/// tile avoids bank conflicts in both directions.
template <typename Saver, typename T, typename E>
__global__ void EvaluateTilesKernel(T* dst, index_t stride, index_t rows, index_t columns,
                                    RowsAcross across, E e) {
  constexpr int kExtent = kTile<T>;
  constexpr int kThreads = 256;
  constexpr int kStep = kThreads / kExtent;
  constexpr int kPasses = kExtent / kStep;
  // The memory is raw bytes, because a variable with a constructor cannot be shared.
  alignas(16) __shared__ unsigned char memory[kExtent * (kExtent + 1) * sizeof(T)];
  T* const tile = reinterpret_cast<T*>(memory);
  const int near = static_cast<int>(threadIdx.x) % kExtent;
  const int far = static_cast<int>(threadIdx.x) / kExtent;
  const index_t tiles_x = (columns + kExtent - 1) / kExtent;
  const index_t tiles_y = (across.extent + kExtent - 1) / kExtent;
  const index_t tiles = rows / across.extent * tiles_y * tiles_x;
  for (index_t t = blockIdx.x; t < tiles; t += gridDim.x) {
    const index_t band = t / tiles_x;
    const index_t plane = band / tiles_y;
    const index_t x0 = (t - band * tiles_x) * kExtent;
    const index_t i0 = (band - plane * tiles_y) * kExtent;
    const index_t outer = plane / across.step;
    const index_t first = outer * across.extent * across.step + (plane - outer * across.step);
    T values[kPasses] = {};  // elements outside go to the tile too
    const bool whole = x0 + kExtent <= columns && i0 + kExtent <= across.extent;
    if (whole) {  // comparisons would be a third of the instructions
      const index_t y = first + (i0 + near) * across.step;
#pragma unroll
      for (int p = 0; p < kPasses; ++p) values[p] = e.Eval(y, x0 + far + p * kStep);
    } else if (i0 + near < across.extent) {
      const index_t y = first + (i0 + near) * across.step;
#pragma unroll
      for (int p = 0; p < kPasses; ++p) {
        const index_t x = x0 + far + p * kStep;
        if (x < columns) values[p] = e.Eval(y, x);
      }
    }
#pragma unroll
    for (int p = 0; p < kPasses; ++p) tile[(far + p * kStep) * (kExtent + 1) + near] = values[p];
    __syncthreads();
    if (whole || x0 + near < columns) {
#pragma unroll
      for (int p = 0; p < kPasses; ++p) {
        const index_t i = i0 + far + p * kStep;
        if (whole || i < across.extent) {
          SaveElement<Saver>(dst + (first + i * across.step) * stride + x0 + near,
                             tile[near * (kExtent + 1) + far + p * kStep]);
        }
      }
    }
    __syncthreads();
  }
}

/// Returns true if an expression can be evaluated in groups into rows that lie `stride` elements
/// apart.
template <typename T, typename E>
bool MovesInGroups(const T* dst, index_t rows, index_t stride, const E& e) {
  if constexpr (HasGroups<E>() && ElementGroup<T>::kSize > 1) {
    return RowsAreAligned(dst, rows, stride) && e.GroupsAreAligned(rows);
  } else {
    return false;
  }
}

/// Enqueues the evaluation of `e` into a (rows, columns) destination.
template <typename Saver, typename T, typename E>
void EvaluateOnStream(T* dst, index_t stride, const Shape<2>& shape, const E& e,
                      cudaStream_t stream) {
  const index_t size = shape.Size();
  if (size == 0) return;
  if constexpr (MayReadAcross<E>()) {
    // Tiles do not pay for a few rows or columns, because most of each tile would be empty.
    const RowsAcross across = RowsAcrossOf(e);
    if (std::min(across.extent, shape[1]) >= 8) {
      constexpr index_t kExtent = kTile<T>;
      const index_t tiles = shape[0] / across.extent * ((across.extent + kExtent - 1) / kExtent) *
                            ((shape[1] + kExtent - 1) / kExtent);
      const auto blocks = static_cast<unsigned>(std::min(tiles, index_t{1} << 20));
      EvaluateTilesKernel<Saver>
          <<<blocks, 256, 0, stream>>>(dst, stride, shape[0], shape[1], across, e);
      tensor_internal::CheckCuda(cudaGetLastError(), "expression kernel");
      return;
    }
  }
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

/// Enqueues the evaluation on the destination's stream. Requires: the shapes have been checked.
template <typename Saver, int N, typename T, typename E>
void Evaluate(const Tensor<gpu, N, T>& dst, const E& e) {
  const bool one_row = dst.CheckContiguous() && e.IsFlat();
  const Shape<2> shape = one_row ? Shape2(1, dst.shape_.Size()) : dst.shape_.FlatTo2D();
  if (shape.Size() == 0) return;
  EvaluateOnStream<Saver>(dst.dptr_, dst.stride_, shape, e,
                          tensor_internal::CudaStream(dst.stream_));
}

/// Computes an expression without dimensions that is ready for a loop, and waits for the number.
/// The result of a reduction is in memory already and needs no kernel.
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

#endif  // TESSERA_TENSOR_EVAL_EVALUATOR_CUDA_H_
