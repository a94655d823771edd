#include <cuda_runtime.h>

#include "tessera/tensor/allocate.h"
#include "tessera/tensor/internal/cuda_check.h"

namespace tessera::tensor_internal {

template <>
void* AllocateBytes<gpu>(int64_t size_bytes) {
  if (size_bytes == 0) return nullptr;
  void* memory = nullptr;
  CheckCuda(cudaMalloc(&memory, static_cast<size_t>(size_bytes)), "AllocSpace on gpu: cudaMalloc");
  return memory;
}

template <>
void FreeBytes<gpu>(void* memory) {
  // Runs in destructors: a failure here means a sticky error, which the next checked call reports.
  static_cast<void>(cudaFree(memory));
}

template <>
void* AllocateHostBytes<gpu>(int64_t size_bytes) {
  if (size_bytes == 0) return nullptr;
  void* memory = nullptr;
  CheckCuda(cudaMallocHost(&memory, static_cast<size_t>(size_bytes)), "AllocHost: cudaMallocHost");
  return memory;
}

template <>
void FreeHostBytes<gpu>(void* memory) {
  static_cast<void>(cudaFreeHost(memory));  // as above
}

}  // namespace tessera::tensor_internal
