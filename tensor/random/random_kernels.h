#ifndef TESSERA_TENSOR_RANDOM_RANDOM_KERNELS_H_
#define TESSERA_TENSOR_RANDOM_RANDOM_KERNELS_H_

#include <cstdint>

namespace tessera::tensor_internal {

/// Random numbers are made in tiles of 16 Philox blocks of four words. Word w of block b becomes
/// word 16 w + b of its tile, so that a tile is four vectors without any shuffling between them.
inline constexpr int kBlocksPerTile = 16;
inline constexpr int kWordsPerTile = 4 * kBlocksPerTile;

/// Where a run of tiles begins: the key, the high half of the counter, and the first block's
/// number.
struct PhiloxOrigin {
  uint64_t key;
  uint64_t stream;
  uint64_t first_block;
};

/// The loops that have to be fast, in versions for several instruction sets with the same results
/// bit for bit: none of them contracts a product and a sum. Each fills `tiles` * kWordsPerTile
/// consecutive elements.
struct RandomKernels {
  /// The words themselves.
  void (*words)(PhiloxOrigin origin, int64_t tiles, uint32_t* out);

  /// min(low + width * u, last), u = k 2^-24 with k uniform below 2^24.
  void (*uniform)(PhiloxOrigin origin, int64_t tiles, float* out, float low, float width,
                  float last);

  /// Normal. Elements 16 w + b with w = 0, 1 and w = 2, 3 are pairs of one Box-Muller transform.
  /// Accuracy before scaling: 2^-20 relative to the larger one of a pair, and 2^-24 / r (at most
  /// 2^-12) for the rounding of the uniform number, where r is the pair's distance from 0.
  void (*gaussian)(PhiloxOrigin origin, int64_t tiles, float* out, float mean, float deviation);

  /// -log(u) * scale with u = (k + 1/2) 2^-31, k uniform below 2^31, rounded.
  void (*exponential)(PhiloxOrigin origin, int64_t tiles, float* out, float scale);
};

/// The best version that this machine runs.
const RandomKernels& BestRandomKernels();

/// All versions that this machine runs, the slowest first; ends with null. For tests.
const RandomKernels* const* AllRandomKernels();

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_RANDOM_RANDOM_KERNELS_H_
