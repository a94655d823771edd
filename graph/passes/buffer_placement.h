#ifndef TESSERA_GRAPH_PASSES_BUFFER_PLACEMENT_H_
#define TESSERA_GRAPH_PASSES_BUFFER_PLACEMENT_H_

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::graph {

/// The use of a buffer by the steps of a program.
struct BufferUse {
  int64_t size_bytes = 0;  ///< 0 or more
  int first_step = 0;      ///< the first step that uses the buffer, 0 or more
  int last_step = 0;       ///< the last one, at least first_step
};

/// Buffers that have their offsets in a block of memory.
struct PlacedBuffers {
  std::span<const BufferUse> uses;   ///< by number
  std::span<const int64_t> offsets;  ///< for each buffer, in bytes
  int64_t size_bytes = 0;            ///< the block's size
};

/// The result of PlaceBuffers.
struct BufferPlacement {
  static constexpr int64_t kAlignment = 64;  ///< of all offsets and of the size, in bytes

  std::vector<int64_t> offsets;  ///< for each buffer, in bytes; 0 for an empty one
  int64_t size_bytes = 0;        ///< at least the end of every buffer

  /// Returns the smallest multiple of kAlignment that is at least `size_bytes`.
  static constexpr int64_t Aligned(int64_t size_bytes) {
    return (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
  }
};

/// Places buffers in one block of memory: two that are in use at the same step do not overlap. The
/// steps from first to last use a buffer, both included.
///
/// Two orders of the buffers are tried, and the smaller block is the result. In the order of their
/// first steps, a buffer takes the smallest range that is free then and large enough, else bytes at
/// the end. By decreasing size, a buffer takes the smallest range that is free during its whole use
/// and large enough, else bytes at the end (Pisarchyk and Lee 2020, "Efficient Memory Management
/// for Deep Neural Net Inference", greedy by size for the calculation of offsets; buffers of one
/// size are taken in the order of their first steps). The second order is left out if the first one
/// reaches the LivenessBound, or for more than 4,096 buffers.
///
/// The buffers share their block with `earlier` ones: each lies in bytes of `earlier.size_bytes`
/// that these do not use meanwhile, or wholly behind them, never partly so. The result's size
/// includes those bytes. Requires: every earlier buffer that is not empty lies within that size,
/// and its first step comes before those of `buffers`.
///
/// The result depends on nothing else. Its size is at most `earlier.size_bytes` plus the sum of the
/// sizes, each Aligned. Takes time n log n for n buffers, and n² up to 4,096.
BufferPlacement PlaceBuffers(std::span<const BufferUse> buffers, const PlacedBuffers& earlier = {});

/// Returns the largest sum of the sizes, each Aligned, of the buffers that one step uses. No
/// placement is smaller. Takes time n log n.
int64_t LivenessBound(std::span<const BufferUse> buffers);

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_PASSES_BUFFER_PLACEMENT_H_
