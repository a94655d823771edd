#ifndef TESSERA_TENSOR_SORT_CUDA_H_
#define TESSERA_TENSOR_SORT_CUDA_H_

#include "tessera/tensor/dense.h"

#if defined(__CUDACC__)

#include <thrust/device_ptr.h>
#include <thrust/execution_policy.h>
#include <thrust/sort.h>
#include <thrust/system_error.h>

#include <new>

#include "tessera/tensor/internal/cuda_check.h"

namespace tessera {
inline namespace TESSERA_ISA_NAMESPACE {

/// Enqueues the stable sort on the stream of keys.
template <typename K, typename V, typename Order>
void SortByKeyCuda(const Tensor<gpu, 1, K>& keys, const Tensor<gpu, 1, V>& values, Order order) {
  if (keys.shape_[0] == 0) return;
  const thrust::device_ptr<K> first(keys.dptr_);
  try {
    thrust::stable_sort_by_key(thrust::cuda::par.on(tensor_internal::CudaStream(keys.stream_)),
                               first, first + keys.shape_[0], thrust::device_ptr<V>(values.dptr_),
                               order);
  } catch (const std::bad_alloc& error) {
    throw ResourceExhausted("SortByKey: ", error.what());
  } catch (const thrust::system_error& error) {
    throw Internal("SortByKey: ", error.what());
  }
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera

#endif  // defined(__CUDACC__)

#endif  // TESSERA_TENSOR_SORT_CUDA_H_
