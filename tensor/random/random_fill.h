#ifndef TESSERA_TENSOR_RANDOM_RANDOM_FILL_H_
#define TESSERA_TENSOR_RANDOM_RANDOM_FILL_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "tessera/base/dtype.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/random/philox.h"
#include "tessera/tensor/random/random.h"
#include "tessera/tensor/random/random_kernels.h"

namespace tessera::tensor_internal {

/// Returns a number as an element. Floating-point types round; an integer type clamps a number that
/// is too large.
template <typename T, typename Number>
T ToElement(Number value) {
  if constexpr (std::is_integral_v<T>) {
    constexpr auto kMax = std::numeric_limits<T>::max();
    return value >= static_cast<Number>(kMax) ? kMax : static_cast<T>(value);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value);
  } else {
    return T(static_cast<float>(value));
  }
}

/// Copies elements [begin, begin + count) of the numbering into their rows.
template <typename T>
void CopyToRows(const T* from, const RandomRows<T>& out, int64_t begin, int64_t count) {
  while (count > 0) {
    const int64_t row = begin / out.columns;
    const int64_t column = begin % out.columns;
    const int64_t run = std::min(count, out.columns - column);
    std::copy_n(from, run, out.data + row * out.stride + column);
    from += run;
    begin += run;
    count -= run;
  }
}

/// Fills `out` by tiles of kBlocksPerTile blocks; each tile gives `kPerTile` elements.
/// `fill(origin, tiles, elements)` computes `tiles` consecutive tiles. The tiles run in parallel,
/// so the result does not depend on the number of threads.
template <int kPerTile, typename T, typename FillTiles>
void FillByTiles(PhiloxState* state, const RandomRows<T>& out, const FillTiles& fill) {
  constexpr int64_t kTilesAtOnce = 16;  // a buffer of a few KiB stays in the L1 cache
  constexpr int64_t kGrainTiles = 32768 / kPerTile;
  const int64_t size = out.rows * out.columns;
  if (size == 0) return;
  const int64_t num_tiles = (size + kPerTile - 1) / kPerTile;
  const uint64_t first_block = state->Reserve(static_cast<uint64_t>(num_tiles) * kBlocksPerTile);
  const bool flat = out.rows == 1 || out.stride == out.columns;
  const PhiloxState from = *state;
  ParallelFor(num_tiles, kGrainTiles, [&](int64_t begin, int64_t end) {
    T buffer[kTilesAtOnce * kPerTile];
    for (int64_t tile = begin; tile < end; tile += kTilesAtOnce) {
      const int64_t tiles = std::min(kTilesAtOnce, end - tile);
      const PhiloxOrigin origin = {from.seed, from.stream,
                                   first_block + static_cast<uint64_t>(tile) * kBlocksPerTile};
      const int64_t element = tile * kPerTile;
      const int64_t count = std::min(tiles * kPerTile, size - element);
      if (flat && count == tiles * kPerTile) {
        fill(origin, tiles, out.data + element);
      } else {
        fill(origin, tiles, buffer);
        CopyToRows(buffer, out, element, count);
      }
    }
  });
}

/// Fills `out` by tiles. `fill(words, elements)` computes the `kPerTile` elements of one tile from
/// its random words.
template <int kPerTile, typename T, typename FillTile>
void FillFromWords(PhiloxState* state, const RandomRows<T>& out, const FillTile& fill) {
  const auto make_words = BestRandomKernels().words;
  FillByTiles<kPerTile>(state, out, [&](PhiloxOrigin origin, int64_t tiles, T* elements) {
    for (int64_t tile = 0; tile < tiles; ++tile) {
      uint32_t words[kWordsPerTile];
      make_words(origin, 1, words);
      fill(words, elements + tile * kPerTile);
      origin.first_block += kBlocksPerTile;
    }
  });
}

/// Returns element i < 32 of a tile whose elements have two words each: words 0 and 1 of block i
/// for i < 16, and words 2 and 3 of block i - 16 otherwise.
inline constexpr int kPairsPerTile = 2 * kBlocksPerTile;
inline uint64_t PairOfWords(const uint32_t* words, int i) {
  const uint32_t* pair = words + i / kBlocksPerTile * kPairsPerTile + i % kBlocksPerTile;
  return uint64_t{pair[0]} << 32 | pair[kBlocksPerTile];
}

/// Returns k 2^-53 with k the upper 53 bits, which is in [0, 1).
inline double UnitDouble(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

/// Returns (k + 1/2) 2^-53, rounded, with k the upper 53 bits, which is in (0, 1].
inline double PositiveUnitDouble(uint64_t bits) {
  return (static_cast<double>(bits >> 11) + 0.5) * 0x1p-53;
}

/// Returns the upper half of the 128-bit product bits * range. It maps uniform 64 bits to [0,
/// range); the relative error of each probability is below range 2^-64.
inline uint64_t ScaleDown(uint64_t bits, uint64_t range) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<uint64_t>((static_cast<Wide>(bits) * range) >> 64);
}

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_RANDOM_RANDOM_FILL_H_
