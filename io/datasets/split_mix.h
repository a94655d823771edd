#ifndef TESSERA_IO_DATASETS_SPLIT_MIX_H_
#define TESSERA_IO_DATASETS_SPLIT_MIX_H_

#include <cstdint>

#include "tessera/base/shape.h"

namespace tessera::io_internal {

/// SplitMix64 (G. L. Steele, D. Lea, C. H. Flood: Fast splittable pseudorandom number generators,
/// OOPSLA 2014). It is good enough for an order, and gives the same numbers on every machine.
class SplitMix {
 public:
  /// Constructs the generator of one of many streams.
  SplitMix(uint64_t seed, uint64_t stream) : state_(seed) { state_ = Draw() ^ stream; }

  /// Returns 64 random bits.
  uint64_t Draw() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  /// Returns a number uniform in [0, bound), with a bias below bound / 2^64.
  index_t Below(index_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<index_t>((Wide{Draw()} * static_cast<uint64_t>(bound)) >> 64);
  }

 private:
  uint64_t state_;
};

}  // namespace tessera::io_internal

#endif  // TESSERA_IO_DATASETS_SPLIT_MIX_H_
