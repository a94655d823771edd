#ifndef TESSERA_TENSOR_DEVICE_CUDA_LAUNCH_H_
#define TESSERA_TENSOR_DEVICE_CUDA_LAUNCH_H_

#include <algorithm>

#include "tessera/base/shape.h"

namespace tessera::tensor_internal {

/// The size of a kernel launch: the blocks of the grid, and the threads of each block.
struct LaunchShape {
  unsigned blocks;
  unsigned threads;
};

/// Returns the launch for a grid-stride kernel over `size` elements. 256 threads fill a
/// multiprocessor with complete blocks on every supported device. 16384 blocks are several waves on
/// the largest device; more blocks only cost launch time.
inline LaunchShape LaunchShapeFor(index_t size) {
  constexpr index_t kThreads = 256;
  constexpr index_t kMaxBlocks = 16384;
  return {
      static_cast<unsigned>(std::clamp<index_t>((size + kThreads - 1) / kThreads, 1, kMaxBlocks)),
      static_cast<unsigned>(kThreads)};
}

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_DEVICE_CUDA_LAUNCH_H_
