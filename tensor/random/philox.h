#ifndef TESSERA_TENSOR_RANDOM_PHILOX_H_
#define TESSERA_TENSOR_RANDOM_PHILOX_H_

#include <cstdint>

#include "tessera/base/host_device.h"

namespace tessera {

/// Four 32-bit words: Philox's counter, or the random words that it returns.
struct PhiloxWords {
  uint32_t word[4];  ///< the words, the lowest first
};

namespace tensor_internal {

// Multipliers and Weyl increments of Philox4x32 (Salmon et al. 2011, table 2 and section 4.3).
inline constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53u;
inline constexpr uint32_t kPhiloxMultiplier1 = 0xCD9E8D57u;
inline constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9u;
inline constexpr uint32_t kPhiloxWeyl1 = 0xBB67AE85u;
inline constexpr int kPhiloxRounds = 10;

}  // namespace tensor_internal

/// Returns the random words of a counter: Philox4x32-10, a bijection on 128 bits selected by a
/// 64-bit key. Its values on consecutive counters pass tests of randomness. There is no shared
/// state, so any thread on any device can compute any element of a sequence, with the same result.
///
/// Source: J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw: Parallel random numbers: as easy as
/// 1, 2, 3 (SC 2011). cuRAND calls the generator PHILOX4_32_10.
TESSERA_HD PhiloxWords Philox4x32(PhiloxWords counter, uint64_t key) {
  uint32_t key0 = static_cast<uint32_t>(key);
  uint32_t key1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < tensor_internal::kPhiloxRounds; ++round) {
    const uint64_t product0 = uint64_t{tensor_internal::kPhiloxMultiplier0} * counter.word[0];
    const uint64_t product1 = uint64_t{tensor_internal::kPhiloxMultiplier1} * counter.word[2];
    counter = {{static_cast<uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0,
                static_cast<uint32_t>(product1),
                static_cast<uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1,
                static_cast<uint32_t>(product0)}};
    key0 += tensor_internal::kPhiloxWeyl0;
    key1 += tensor_internal::kPhiloxWeyl1;
  }
  return counter;
}

/// A position in one sequence of random numbers. The seed is Philox's key. The counter's low 64
/// bits are the block's number and its high 64 bits the stream's; cuRAND calls the two offset and
/// subsequence. Different streams of one seed are independent, and none repeats within 2^66 words.
///
/// Threads: not synchronized. Users must order concurrent calls, for example by an engine variable.
struct PhiloxState {
  uint64_t seed = 0;        ///< Philox's key
  uint64_t stream = 0;      ///< the number of the sequence among the seed's sequences
  uint64_t next_block = 0;  ///< the first block that is not reserved

  /// Reserves the next `blocks` blocks of four words, and returns the number of the first.
  uint64_t Reserve(uint64_t blocks) {
    const uint64_t first = next_block;
    next_block += blocks;
    return first;
  }

  /// Returns block `number`. `attempt` selects one of several independent blocks for one number,
  /// for algorithms that may reject a draw. Requires: attempt < 2^16; if it is not 0, stream <
  /// 2^48.
  TESSERA_HD PhiloxWords Block(uint64_t number, uint32_t attempt = 0) const {
    const uint64_t high = stream ^ (uint64_t{attempt} << 48);
    return Philox4x32({{static_cast<uint32_t>(number), static_cast<uint32_t>(number >> 32),
                        static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)}},
                      seed);
  }
};

}  // namespace tessera

#endif  // TESSERA_TENSOR_RANDOM_PHILOX_H_
