// The transforms of Winograd's convolutions, for winograd.cc. One .cc for each instruction set
// includes this header, and is compiled for that set and with Eigen's namespace renamed;
// gemm_kernel.h says why. No function here may instantiate a template that other code shares.
//
// A packet holds one element of as many tiles or kernels as it has lanes. Elements of adjacent
// tiles lie `size` apart in a row of the plane, so rows are first dealt out: element (i, j) of a
// group of tiles becomes one array. A group takes its tiles from several rows and images, so that
// small planes fill packets, too.
#ifndef TESSERA_TENSOR_NN_WINOGRAD_KERNEL_H_
#define TESSERA_TENSOR_NN_WINOGRAD_KERNEL_H_

#include <Eigen/Core>
#include <cstdint>

#include "tessera/tensor/nn/winograd_tiles.h"
#include "tessera/tensor/packet/interleave.h"
#include "tessera/tensor/packet/partial_packet.h"

#ifndef TESSERA_WINOGRAD_NAMESPACE
#error "define TESSERA_WINOGRAD_NAMESPACE to the kernel's instruction set"
#endif

#define TESSERA_UNROLL _Pragma("GCC unroll 32")

namespace tessera::tensor_internal::TESSERA_WINOGRAD_NAMESPACE {
namespace {

using Lanes = Packet<float>;
constexpr int64_t kWidth = kLanes<float>;

// The tiles of a group, whose elements fit a first-level cache of 32 KiB, and the distance of their
// arrays, which end with room for a packet that begins at the last tile. kColumns is
// kWinogradColumns.
constexpr int64_t kGroup = 32;
constexpr int64_t kPitch = kGroup + kWidth;
constexpr int64_t kColumns = 16;
static_assert(kGroup % kColumns == 0 && kColumns % kWidth == 0);

constexpr int64_t kTaps = 9;

constexpr int64_t Min(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t Max(int64_t a, int64_t b) { return a < b ? b : a; }
constexpr int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

inline Lanes Constant(float value) { return pk::pset1<Lanes>(value); }
// Returns factor * a + b.
inline Lanes AddScaled(float factor, Lanes a, Lanes b) { return pk::pmadd(Constant(factor), a, b); }

// The products of vectors with G, B' and A' for tiles of M x M results.
template <int M>
struct Transforms;

template <>
struct Transforms<2> {
  static void Weights(const Lanes (&x)[3], Lanes (&y)[4]) {
    const Lanes outer = pk::pmul(Constant(0.5f), pk::padd(x[0], x[2]));
    const Lanes inner = pk::pmul(Constant(0.5f), x[1]);
    y[0] = x[0];
    y[1] = pk::padd(outer, inner);
    y[2] = pk::psub(outer, inner);
    y[3] = x[2];
  }
  static void Input(const Lanes (&x)[4], Lanes (&y)[4]) {
    y[0] = pk::psub(x[0], x[2]);
    y[1] = pk::padd(x[1], x[2]);
    y[2] = pk::psub(x[2], x[1]);
    y[3] = pk::psub(x[1], x[3]);
  }
  static void Output(const Lanes (&x)[4], Lanes (&y)[2]) {
    y[0] = pk::padd(x[0], pk::padd(x[1], x[2]));
    y[1] = pk::psub(pk::psub(x[1], x[2]), x[3]);
  }
};

// Rows of G, B' and A for the point p are (1, p, p^2) / n, the coefficients of the product of
// (x - q) over the other finite points q, and (1, p, p^2, p^3), where n is the product of (p - q).
// For infinity they are (0, 0, 1), the product over all finite points, and (0, 0, 0, 1). Points a
// and -a share most of their operations.
template <>
struct Transforms<4> {
  static constexpr float kA = 0.75f, kA2 = kA * kA, kA3 = kA * kA2;
  static constexpr float kB = 1.5f, kB2 = kB * kB, kB3 = kB * kB2;
  static constexpr float kSum = kA2 + kB2, kProduct = kA2 * kB2;
  static constexpr float kOver0 = 1 / kProduct;
  static constexpr float kOverA = 1 / (2 * kA2 * (kA2 - kB2));
  static constexpr float kOverB = 1 / (2 * kB2 * (kB2 - kA2));

  static void Weights(const Lanes (&x)[3], Lanes (&y)[6]) {
    const Lanes at_a = AddScaled(kA2, x[2], x[0]), at_b = AddScaled(kB2, x[2], x[0]);
    y[0] = pk::pmul(Constant(kOver0), x[0]);
    y[1] = pk::pmul(Constant(kOverA), AddScaled(kA, x[1], at_a));
    y[2] = pk::pmul(Constant(kOverA), AddScaled(-kA, x[1], at_a));
    y[3] = pk::pmul(Constant(kOverB), AddScaled(kB, x[1], at_b));
    y[4] = pk::pmul(Constant(kOverB), AddScaled(-kB, x[1], at_b));
    y[5] = x[2];
  }
  static void Input(const Lanes (&x)[6], Lanes (&y)[6]) {
    const Lanes even_a = AddScaled(-kB2, x[2], x[4]), odd_a = AddScaled(-kB2, x[1], x[3]);
    const Lanes even_b = AddScaled(-kA2, x[2], x[4]), odd_b = AddScaled(-kA2, x[1], x[3]);
    y[0] = AddScaled(kProduct, x[0], AddScaled(-kSum, x[2], x[4]));
    y[1] = AddScaled(kA, odd_a, even_a);
    y[2] = AddScaled(-kA, odd_a, even_a);
    y[3] = AddScaled(kB, odd_b, even_b);
    y[4] = AddScaled(-kB, odd_b, even_b);
    y[5] = AddScaled(kProduct, x[1], AddScaled(-kSum, x[3], x[5]));
  }
  static void Output(const Lanes (&x)[6], Lanes (&y)[4]) {
    const Lanes sum_a = pk::padd(x[1], x[2]), difference_a = pk::psub(x[1], x[2]);
    const Lanes sum_b = pk::padd(x[3], x[4]), difference_b = pk::psub(x[3], x[4]);
    y[0] = pk::padd(x[0], pk::padd(sum_a, sum_b));
    y[1] = AddScaled(kA, difference_a, pk::pmul(Constant(kB), difference_b));
    y[2] = AddScaled(kA2, sum_a, pk::pmul(Constant(kB2), sum_b));
    y[3] = AddScaled(kA3, difference_a, AddScaled(kB3, difference_b, x[5]));
  }
};

// Stores zeros to [begin, end), in whole packets.
inline void Clear(int64_t begin, int64_t end, float* to) {
  for (; begin < end; begin += kWidth) pk::pstoreu(to + begin, Constant(0));
}

// Copies elements [begin, begin + count) of a row of `width` elements, with zeros outside of it.
// The last packet reaches less than a packet past the copy's end.
inline void CopyRow(const float* row, int64_t width, int64_t begin, int64_t count, float* to) {
  const int64_t left = Min(Max(0, -begin), count), first = Max(0, begin);
  const int64_t inside = Max(0, Min(width, begin + count) - first);
  Clear(0, left, to);
  for (int64_t i = 0; i < inside; i += kWidth) {
    pk::pstoreu(to + left + i, LoadUpTo(row + first + i, inside - i));
  }
  Clear(left + inside, count, to);
}

// Loads M adjacent packets: element i of packet j is from[i * M + j].
template <int M>
inline void LoadApart(const float* from, Lanes (&packet)[M]) {
  const auto load = [from](int i) { return pk::ploadu<Lanes>(from + i * kWidth); };
  const PacketPair low = Split(load(0), load(1));
  if constexpr (M == 2) {
    packet[0] = low.first;
    packet[1] = low.second;
  } else {
    const PacketPair high = Split(load(2), load(3));
    const PacketPair even = Split(low.first, high.first), odd = Split(low.second, high.second);
    packet[0] = even.first;
    packet[1] = odd.first;
    packet[2] = even.second;
    packet[3] = odd.second;
  }
}

// The inverse of LoadApart: packet i of `line` holds the elements that lie there in memory.
template <int M>
inline void Join(const Lanes (&packet)[M], Lanes (&line)[M]) {
  if constexpr (M == 2) {
    const PacketPair both = Interleave(packet[0], packet[1]);
    line[0] = both.first;
    line[1] = both.second;
  } else {
    const PacketPair even = Interleave(packet[0], packet[2]);
    const PacketPair odd = Interleave(packet[1], packet[3]);
    const PacketPair low = Interleave(even.first, odd.first);
    const PacketPair high = Interleave(even.second, odd.second);
    line[0] = low.first;
    line[1] = low.second;
    line[2] = high.first;
    line[3] = high.second;
  }
}

// Calls visit(image, y, x, first, n) for the rows of tiles that together are tiles [begin, begin +
// count): n tiles from (y, x) on, of which the first is tile begin + first.
template <int M, typename Visit>
void ForEachRow(const WinogradTiles& w, int64_t begin, int64_t count, const Visit& visit) {
  const int64_t rows = (w.out_height + M - 1) / M, columns = (w.out_width + M - 1) / M;
  int64_t row = begin / columns, x = begin % columns;
  for (int64_t first = 0; first < count; ++row, x = 0) {
    const int64_t n = Min(columns - x, count - first);
    visit(row / rows, row % rows, x, first, n);
    first += n;
  }
}

// Returns whether a packet is worth its time for `rest` tiles.
inline bool FillsPacket(int64_t rest) { return 2 * rest > kWidth; }

// Writes element j of the M + 2 in a row of each of n tiles to to[j * kPitch]. A tile begins M
// elements after the one before it. Whole packets are read and written.
template <int M>
void Deal(const float* line, int64_t n, float* to) {
  for (int64_t k = 0; k < n;) {
    const float* const from = line + k * M;
    if (FillsPacket(n - k)) {
      Lanes own[M], next[M];
      LoadApart<M>(from, own);
      LoadApart<M>(from + M, next);
      TESSERA_UNROLL for (int j = 0; j < M; ++j) pk::pstoreu(to + j * kPitch + k, own[j]);
      pk::pstoreu(to + M * kPitch + k, next[0]);
      pk::pstoreu(to + (M + 1) * kPitch + k, next[1]);
      k += kWidth;
    } else {
      TESSERA_UNROLL for (int j = 0; j < M + 2; ++j) to[j * kPitch + k] = from[j];
      ++k;
    }
  }
}

// Writes the elements of a group of tiles: (i, j) of all tiles to to[(i * (M + 2) + j) * kPitch].
template <int M>
void Gather(const WinogradTiles& w, const float* plane, int64_t begin, int64_t count, float* to) {
  constexpr int kSide = M + 2;
  alignas(64) float line[M * (kGroup + 1) + 2 * kWidth] = {};
  // A packet may write past its row's tiles. The next row overwrites that.
  ForEachRow<M>(w, begin, count,
                [&](int64_t image, int64_t y, int64_t x, int64_t first, int64_t n) {
                  for (int i = 0; i < kSide; ++i) {
                    float* const at = to + i * kSide * kPitch + first;
                    const int64_t row = y * M - w.pad_y + i;
                    if (row < 0 || row >= w.height) {
                      for (int j = 0; j < kSide; ++j) Clear(0, n, at + j * kPitch);
                    } else {
                      CopyRow(plane + image * w.plane_stride + row * w.width, w.width,
                              x * M - w.pad_x, (n + 1) * M, line);
                      Deal<M>(line, n, at);
                    }
                  }
                });
}

// The inverse of Deal: writes the first `columns` results of a row of n tiles, of which column j of
// all tiles is from[j * kPitch]. Whole packets are read.
template <int M>
void Collect(const float* from, int64_t n, int64_t columns, bool add, float* to) {
  for (int64_t k = 0; k < n;) {
    float* const at = to + k * M;
    const int64_t rest = columns - k * M;
    if (FillsPacket(n - k)) {
      Lanes packet[M], line[M];
      TESSERA_UNROLL for (int j = 0; j < M; ++j) {
        packet[j] = pk::ploadu<Lanes>(from + j * kPitch + k);
      }
      Join<M>(packet, line);
      TESSERA_UNROLL for (int j = 0; j < M; ++j) {
        if (rest > j * kWidth) StoreUpTo(at + j * kWidth, line[j], rest - j * kWidth, add);
      }
      k += kWidth;
    } else {
      for (int64_t j = 0; j < Min(M, rest); ++j) {
        const float result = from[j * kPitch + k];
        at[j] = add ? at[j] + result : result;
      }
      ++k;
    }
  }
}

// Writes a group's results to the planes; result (i, j) of all tiles is from[(i * M + j) * kPitch].
template <int M>
void Scatter(const WinogradTiles& w, const float* from, bool add, int64_t begin, int64_t count,
             float* out) {
  ForEachRow<M>(w, begin, count,
                [&](int64_t image, int64_t y, int64_t x, int64_t first, int64_t n) {
                  const int64_t rows = Min(M, w.out_height - y * M);
                  float* const to = out + image * w.out_stride + y * M * w.out_width + x * M;
                  for (int64_t i = 0; i < rows; ++i) {
                    Collect<M>(from + i * M * kPitch + first, n, Min(n * M, w.out_width - x * M),
                               add, to + i * w.out_width);
                  }
                });
}

template <int M>
void TransformWeights(const float* weights, int64_t begin, int64_t end, float* to, int64_t stride) {
  constexpr int kSide = M + 2;
  float last[kTaps * kWidth] = {};
  for (int64_t k = begin; k < end; k += kWidth) {
    const float* from = weights + k * kTaps;
    if (end - k < kWidth) {
      for (int64_t i = 0; i < (end - k) * kTaps; ++i) last[i] = from[i];
      from = last;
    }
    Lanes half[kSide][3];
    TESSERA_UNROLL for (int x = 0; x < 3; ++x) {
      Lanes column[3], terms[kSide];
      TESSERA_UNROLL for (int y = 0; y < 3; ++y) {
        column[y] = pk::pgather<float, Lanes>(from + y * 3 + x, kTaps);
      }
      Transforms<M>::Weights(column, terms);
      TESSERA_UNROLL for (int i = 0; i < kSide; ++i) half[i][x] = terms[i];
    }
    TESSERA_UNROLL for (int i = 0; i < kSide; ++i) {
      Lanes terms[kSide];
      Transforms<M>::Weights(half[i], terms);
      TESSERA_UNROLL for (int j = 0; j < kSide; ++j) {
        StoreUpTo(to + (i * kSide + j) * stride + k, terms[j], end - k, false);
      }
    }
  }
}

template <int M>
void TransformInput(const WinogradTiles& w, const float* plane, int64_t begin, int64_t end,
                    float* to, int64_t stride) {
  constexpr int kSide = M + 2;
  alignas(64) float elements[kSide * kSide * kPitch];
  for (; begin < end; begin += kGroup, to += kGroup) {
    const int64_t count = Min(kGroup, end - begin), columns = RoundUp(count, kColumns);
    Gather<M>(w, plane, begin, count, elements);
    for (int i = 0; i < kSide * kSide; ++i) {
      for (int64_t k = count; k < columns; ++k) elements[i * kPitch + k] = 0;
    }
    for (int64_t k = 0; k < columns; k += kWidth) {
      Lanes half[kSide][kSide];
      TESSERA_UNROLL for (int j = 0; j < kSide; ++j) {
        Lanes column[kSide], terms[kSide];
        TESSERA_UNROLL for (int i = 0; i < kSide; ++i) {
          column[i] = pk::ploadu<Lanes>(elements + (i * kSide + j) * kPitch + k);
        }
        Transforms<M>::Input(column, terms);
        TESSERA_UNROLL for (int i = 0; i < kSide; ++i) half[i][j] = terms[i];
      }
      TESSERA_UNROLL for (int i = 0; i < kSide; ++i) {
        Lanes terms[kSide];
        Transforms<M>::Input(half[i], terms);
        TESSERA_UNROLL for (int j = 0; j < kSide; ++j) {
          pk::pstoreu(to + (i * kSide + j) * stride + k, terms[j]);
        }
      }
    }
  }
}

// Computes the results of a packet of tiles, of which load(p) returns the terms at p.
template <int M, typename Load>
inline void TransformSums(const float* from, int64_t stride, Lanes bias, const Load& load,
                          float* results) {
  constexpr int kSide = M + 2;
  Lanes half[M][kSide];
  TESSERA_UNROLL for (int j = 0; j < kSide; ++j) {
    Lanes column[kSide], sums[M];
    TESSERA_UNROLL for (int i = 0; i < kSide; ++i) {
      column[i] = load(from + (i * kSide + j) * stride);
    }
    Transforms<M>::Output(column, sums);
    TESSERA_UNROLL for (int i = 0; i < M; ++i) half[i][j] = sums[i];
  }
  TESSERA_UNROLL for (int i = 0; i < M; ++i) {
    Lanes sums[M];
    Transforms<M>::Output(half[i], sums);
    TESSERA_UNROLL for (int j = 0; j < M; ++j) {
      pk::pstoreu(results + (i * M + j) * kPitch, pk::padd(sums[j], bias));
    }
  }
}

template <int M>
void TransformOutput(const WinogradTiles& w, const float* from, int64_t stride, float bias,
                     bool add, int64_t begin, int64_t end, float* out) {
  alignas(64) float results[M * M * kPitch];
  for (; begin < end; begin += kGroup, from += kGroup) {
    const int64_t count = Min(kGroup, end - begin);
    int64_t k = 0;
    for (; k + kWidth <= count; k += kWidth) {
      TransformSums<M>(
          from + k, stride, Constant(bias), [](const float* at) { return pk::ploadu<Lanes>(at); },
          results + k);
    }
    if (k < count) {
      TransformSums<M>(
          from + k, stride, Constant(bias),
          [rest = count - k](const float* at) { return LoadFirst<float>(at, rest); }, results + k);
    }
    Scatter<M>(w, results, add, begin, count, out);
  }
}

}  // namespace

// The functions of winograd.h.

void Weights(int64_t size, const float* weights, int64_t begin, int64_t end, float* to,
             int64_t stride) {
  const auto function = size == 2 ? TransformWeights<2> : TransformWeights<4>;
  function(weights, begin, end, to, stride);
}

void Input(const WinogradTiles& w, const float* plane, int64_t begin, int64_t end, float* to,
           int64_t stride) {
  const auto function = w.size == 2 ? TransformInput<2> : TransformInput<4>;
  function(w, plane, begin, end, to, stride);
}

void Output(const WinogradTiles& w, const float* from, int64_t stride, float bias, bool add,
            int64_t begin, int64_t end, float* out) {
  const auto function = w.size == 2 ? TransformOutput<2> : TransformOutput<4>;
  function(w, from, stride, bias, add, begin, end, out);
}

}  // namespace tessera::tensor_internal::TESSERA_WINOGRAD_NAMESPACE

#undef TESSERA_UNROLL

#endif  // TESSERA_TENSOR_NN_WINOGRAD_KERNEL_H_
