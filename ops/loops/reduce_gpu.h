#ifndef TESSERA_OPS_LOOPS_REDUCE_GPU_H_
#define TESSERA_OPS_LOOPS_REDUCE_GPU_H_

#include <algorithm>
#include <cstdint>

#include "tessera/ops/loops/map_gpu.h"
#include "tessera/ops/loops/reduce.h"

// A reduction on a GPU. Included where nvcc compiles.
namespace tessera::ops_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// Returns the input's offset of position `index` of some dimensions.
__device__ inline index_t OffsetOf(const ReduceArguments::Dimensions& dimensions, index_t index) {
  const index_t* const extents = dimensions.extents.data();
  const index_t* const strides = dimensions.strides.data();
  index_t offset = 0;
  for (int d = dimensions.count - 1; d >= 0; --d) {
    offset += index % extents[d] * strides[d];
    index /= extents[d];
  }
  return offset;
}

/// Each thread computes whole outputs. Neighbouring threads read neighbouring columns.
template <typename R, typename T>
__global__ void ReduceByThreads(const ReduceArguments a, index_t outputs, index_t elements) {
  const index_t step = static_cast<index_t>(gridDim.x) * blockDim.x;
  for (index_t i = static_cast<index_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < outputs;
       i += step) {
    const index_t base = OffsetOf(a.kept, i);
    T total = R::template Identity<T>();
    for (index_t k = 0; k < elements; ++k) {
      const index_t offset = base + OffsetOf(a.reduced, k);
      total = R::Combine(total, R::Map(LoadElement<T>(a.in, a.in_type, offset)));
    }
    StoreElement(FinishTotal(total, a.finish, elements), a.req == kAddTo, a.out_type, a.out, i);
  }
}

inline constexpr int kReduceThreads = 256;

/// Each block of threads computes one output at a time.
template <typename R, typename T>
__global__ void ReduceByBlocks(const ReduceArguments a, index_t outputs, index_t elements) {
  __shared__ T totals[kReduceThreads];
  for (index_t i = blockIdx.x; i < outputs; i += gridDim.x) {
    const index_t base = OffsetOf(a.kept, i);
    T total = R::template Identity<T>();
    for (index_t k = threadIdx.x; k < elements; k += kReduceThreads) {
      const index_t offset = base + OffsetOf(a.reduced, k);
      total = R::Combine(total, R::Map(LoadElement<T>(a.in, a.in_type, offset)));
    }
    totals[threadIdx.x] = total;
    __syncthreads();
    for (int half = kReduceThreads / 2; half > 0; half /= 2) {
      if (threadIdx.x < half) {
        totals[threadIdx.x] = R::Combine(totals[threadIdx.x], totals[threadIdx.x + half]);
      }
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      StoreElement(FinishTotal(totals[0], a.finish, elements), a.req == kAddTo, a.out_type, a.out,
                   i);
    }
    __syncthreads();
  }
}

template <typename R, typename T>
void LaunchReduceIn(const ReduceArguments& a, Stream<gpu>* stream) {
  const index_t outputs = a.kept.Size(), elements = a.reduced.Size();
  cudaStream_t cuda_stream = Stream<gpu>::GetStream(stream);
  // Many outputs, or columns, fill the device with a thread for each.
  if (outputs >= 4096 || elements < 32) {
    const auto [blocks, threads] = tensor_internal::LaunchShapeFor(outputs);
    ReduceByThreads<R, T><<<blocks, threads, 0, cuda_stream>>>(a, outputs, elements);
  } else {
    const auto blocks = static_cast<unsigned>(std::min<index_t>(outputs, 16384));
    ReduceByBlocks<R, T><<<blocks, kReduceThreads, 0, cuda_stream>>>(a, outputs, elements);
  }
  tensor_internal::CheckCuda(cudaGetLastError(), "reduction operator");
}

/// ReduceFunction::launch of R.
template <typename R>
void LaunchReduce(const ReduceArguments& a, Stream<gpu>* stream) {
  switch (a.computed_in) {
    case DType::kFloat64:
      return LaunchReduceIn<R, double>(a, stream);
    case DType::kFloat32:
      return LaunchReduceIn<R, float>(a, stream);
    default:
      return LaunchReduceIn<R, int64_t>(a, stream);
  }
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_LOOPS_REDUCE_GPU_H_
