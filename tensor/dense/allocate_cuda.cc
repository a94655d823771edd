#include <cuda_runtime.h>

#include "tessera/tensor/dense/allocate.h"
#include "tessera/tensor/device/cuda_check.h"

namespace tessera::tensor_internal {
namespace {

// Throws Error(kInternal) for a failure to free memory. When the process ends, CUDA may be unloaded
// before static objects are destroyed; the memory is then free already.
void CheckFreed(cudaError_t status, const char* call) {
  if (status != cudaErrorCudartUnloading) CheckCuda(status, call);
}

}  // namespace

template <>
void* AllocateBytes<gpu>(int64_t size_bytes) {
  if (size_bytes == 0) return nullptr;
  void* memory = nullptr;
  CheckCuda(cudaMalloc(&memory, static_cast<size_t>(size_bytes)), "AllocSpace on gpu: cudaMalloc");
  return memory;
}

template <>
void FreeBytes<gpu>(void* memory) {
  CheckFreed(cudaFree(memory), "FreeSpace on gpu: cudaFree");
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
  CheckFreed(cudaFreeHost(memory), "FreeHost: cudaFreeHost");
}

}  // namespace tessera::tensor_internal
