#ifndef MSHADOW_CUDA_H_
#define MSHADOW_CUDA_H_

// Parts of mshadow's GPU headers that programs with their own CUDA kernels use.

#include "tessera/base/dialect.h"

#if defined(__CUDACC__)

#include <cublas_v2.h>

#include "mshadow/base.h"

/// Throws if the launch before it failed.
#define MSHADOW_CUDA_POST_KERNEL_CHECK(kernel)                           \
  do {                                                                   \
    const cudaError_t mshadow_status = cudaPeekAtLastError();            \
    CHECK_EQ(mshadow_status, cudaSuccess)                                \
        << "kernel " #kernel ": " << cudaGetErrorString(mshadow_status); \
  } while (0)

namespace mshadow::cuda {

/// The number of threads in a warp, in a usual block and in the largest block, and the number of
/// blocks in a grid.
constexpr int kMemUnitBits = 5;
constexpr int kMemUnit = 1 << kMemUnitBits;
constexpr int kMemUnitMask = kMemUnit - 1;
constexpr int kBaseThreadBits = 8;
constexpr int kBaseThreadNum = 1 << kBaseThreadBits;
constexpr int kMaxThreadsPerBlock = 1024;
constexpr int kBaseGridNum = 1024;
constexpr int kMaxGridNum = 65535;
constexpr int kMaxGridDim = 65535;

/// Throws if a launch is larger than every device allows.
inline void CheckLaunchParam(dim3 grid, dim3 block, const char* kernel = "") {
  const auto limit = static_cast<unsigned>(kMaxGridDim);
  CHECK(grid.x <= limit && grid.y <= limit && grid.z <= limit)
      << kernel << ": a grid of " << grid.x << " x " << grid.y << " x " << grid.z << " blocks";
  CHECK(block.x * block.y * block.z <= static_cast<unsigned>(kMaxThreadsPerBlock))
      << kernel << ": a block of " << block.x << " x " << block.y << " x " << block.z << " threads";
}

}  // namespace mshadow::cuda

#endif  // defined(__CUDACC__)

#endif  // MSHADOW_CUDA_H_
