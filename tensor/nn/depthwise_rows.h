// Rows of planes under the windows of a convolution, for depthwise_kernel.h and group_kernel.h. One
// .cc for each instruction set includes the two, and is compiled for that set and with Eigen's
// namespace renamed; gemm_kernel.h says why. No function here may instantiate a template that other
// code shares.
//
// Kernels know no borders: if windows reach outside the plane, their rows are first copied with
// zeros around. Copies for stride 2 have the even columns before the odd ones, so that a packet of
// results reads adjacent elements for each tap.
#ifndef TESSERA_TENSOR_NN_DEPTHWISE_ROWS_H_
#define TESSERA_TENSOR_NN_DEPTHWISE_ROWS_H_

#include <Eigen/Core>
#include <cstdint>

#include "tessera/tensor/packet/interleave.h"
#include "tessera/tensor/packet/partial_packet.h"

#ifndef TESSERA_DEPTHWISE_NAMESPACE
#error "define TESSERA_DEPTHWISE_NAMESPACE to the kernel's instruction set"
#endif

#define TESSERA_UNROLL _Pragma("GCC unroll 32")

namespace tessera::tensor_internal::TESSERA_DEPTHWISE_NAMESPACE {
namespace {

using Lanes = Packet<float>;
constexpr int64_t kWidth = kLanes<float>;

// The elements of a copy, which a first-level cache of 32 KiB holds beside results.
constexpr int64_t kCopySize = 6 * 1024;

constexpr int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t Max(int64_t a, int64_t b) { return a < b ? b : a; }
constexpr int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Stores zeros to [begin, end), in whole packets.
inline void Clear(int64_t begin, int64_t end, float* to) {
  for (; begin < end; begin += kWidth) pk::pstoreu(to + begin, pk::pset1<Lanes>(0.0f));
}

// A block of results: rows [y, y + rows), columns [x, x + columns).
struct Part {
  int64_t y, rows;
  int64_t x, columns;
};

// Copies S * phase elements of a row, from column `begin` on, with zeros outside [0, width) and for
// a row that is null: element i to to[i % S * half + i / S]. The last packets reach at most a
// packet past a phase's end.
template <int S>
void CopyRow(const float* row, int64_t width, int64_t begin, int64_t phase, int64_t half,
             float* to) {
  if (row == nullptr) {
    for (int s = 0; s < S; ++s) Clear(0, phase, to + s * half);
    return;
  }
  const int64_t skipped = Min(Max(0, -begin), S * phase), first = Max(0, begin);
  const int64_t count = Max(0, Min(width, begin + S * phase) - first);
  const float* const from = row + Min(first, width);
  if constexpr (S == 1) {
    Clear(0, skipped, to);
    int64_t i = 0;
    for (; i < count; i += kWidth) pk::pstoreu(to + skipped + i, LoadUpTo(from + i, count - i));
    Clear(skipped + i, phase, to);
  } else {
    // The first element falls into the odd phase if an odd number of zeros precedes it.
    float* const evens = to + skipped % 2 * half;
    float* const odds = to + (skipped + 1) % 2 * half;
    int64_t even = skipped / 2, odd = (skipped + 1) / 2;
    Clear(0, even, evens);
    Clear(0, odd, odds);
    for (int64_t i = 0; i < count; i += 2 * kWidth) {
      const PacketPair pair = Split(LoadUpTo(from + i, count - i),
                                    LoadUpTo(from + Min(i + kWidth, count), count - i - kWidth));
      pk::pstoreu(evens + even, pair.first);
      pk::pstoreu(odds + odd, pair.second);
      even += kWidth;
      odd += kWidth;
    }
    Clear(even, phase, evens);
    Clear(odd, phase, odds);
  }
}

}  // namespace
}  // namespace tessera::tensor_internal::TESSERA_DEPTHWISE_NAMESPACE

#endif  // TESSERA_TENSOR_NN_DEPTHWISE_ROWS_H_
