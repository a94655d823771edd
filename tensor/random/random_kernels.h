#ifndef TESSERA_TENSOR_RANDOM_RANDOM_KERNELS_H_
#define TESSERA_TENSOR_RANDOM_RANDOM_KERNELS_H_

#include <cstdint>

namespace tessera::tensor_internal {

/// Random numbers are computed in tiles of 16 Philox blocks of four words. Word w of block b
/// becomes word 16 w + b of its tile, so that vectors of blocks are stored without shuffles.
inline constexpr int kBlocksPerTile = 16;
inline constexpr int kWordsPerTile = 4 * kBlocksPerTile;

/// The beginning of a run of tiles: the key, the high half of the counter, and the first block's
/// number.
struct PhiloxOrigin {
  uint64_t key;
  uint64_t stream;
  uint64_t first_block;
};

/// The loops that must be fast, compiled for one instruction set. All instruction sets give the
/// same bits, because no loop contracts a product and a sum. Each function fills `tiles` *
/// kWordsPerTile consecutive elements.
struct RandomKernels {
  /// Computes the random words.
  void (*words)(PhiloxOrigin origin, int64_t tiles, uint32_t* out);

  /// Computes min(low + width * u, last), where u = k 2^-24 with k uniform below 2^24.
  void (*uniform)(PhiloxOrigin origin, int64_t tiles, float* out, float low, float width,
                  float last);

  /// Computes normal numbers. Elements 16 w + b for w = 0 and 1 form a pair of one Box-Muller
  /// transform, and so do those for w = 2 and 3. The error before scaling is at most 2^-20 relative
  /// to the larger of a pair, and 2^-24 / r (at most 2^-12) from the rounding of the uniform
  /// number, where r is the pair's distance from 0.
  void (*gaussian)(PhiloxOrigin origin, int64_t tiles, float* out, float mean, float deviation);

  /// Computes -log(u) * scale, where u = (k + 1/2) 2^-31, rounded, with k uniform below 2^31.
  void (*exponential)(PhiloxOrigin origin, int64_t tiles, float* out, float scale);

  /// Computes `value` where the word is at most `last`, and 0 elsewhere.
  void (*bernoulli)(PhiloxOrigin origin, int64_t tiles, float* out, uint32_t last, float value);
};

/// Returns the fastest version that this machine runs.
const RandomKernels& BestRandomKernels();

/// Returns all versions that this machine runs, the slowest first, then null. Only tests use it.
const RandomKernels* const* AllRandomKernels();

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_RANDOM_RANDOM_KERNELS_H_
