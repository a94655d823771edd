// Depthwise convolutions of one plane, for depthwise.cc; depthwise_rows.h says how this header is
// compiled.
//
// A tile is several rows of results by one packet. Its sums stay in registers while the taps run,
// and an element that was loaded serves all rows under whose window it lies.
#ifndef TESSERA_TENSOR_NN_DEPTHWISE_KERNEL_H_
#define TESSERA_TENSOR_NN_DEPTHWISE_KERNEL_H_

#include <Eigen/Core>
#include <cstdint>

#include "tessera/tensor/nn/depthwise_rows.h"
#include "tessera/tensor/nn/depthwise_window.h"
#include "tessera/tensor/packet/interleave.h"
#include "tessera/tensor/packet/partial_packet.h"

namespace tessera::tensor_internal::TESSERA_DEPTHWISE_NAMESPACE {
namespace {

// The rows of a tile of results. Four sums, nine weights and an element fit 16 registers.
constexpr int kTileRows = 4;
// The rows of taps whose sums of weight gradients fit the registers.
template <int K>
constexpr int kTapRows = K == 3 || EIGEN_ARCH_DEFAULT_NUMBER_OF_REGISTERS >= 32 ? K : 2;
// The columns of results that are computed from one copy.
constexpr int64_t kPartColumns = 128;
// The columns whose windows lie inside the plane from which they are worth a part of their own,
// read in place.
constexpr int64_t kColumnsInPlace = 64;
// The packets that are added to a sum in float.
constexpr int64_t kPacketsInFloat = 512;

// The elements of a part's windows: tap kx of column x in row y is
// data[y * pitch + kx % S * half + kx / S + x].
struct Rows {
  const float* data;
  int64_t pitch;
  int64_t half;
};

// ForEachPart for stride 1 where no row of the plane or of results is longer than a packet. Copying
// such a plane row by row would take longer than its sums, so one store copies a row, into memory
// that was cleared as a whole. A row's zeros on the right are in front of the next row too.
template <int K, typename Visit>
void ForEachNarrowPart(const DepthwiseWindow& w, const float* plane, int64_t y_begin, int64_t y_end,
                       float* copy, const Visit& visit) {
  const int64_t pitch = w.out_width + K - 1;
  const int64_t skipped = Min(Max(0, w.pad_x), pitch), first = Max(0, -w.pad_x);
  const int64_t count = Max(0, Min(w.width, pitch - w.pad_x) - first);
  const float* const from = plane + Min(first, w.width);
  static_assert(((kTileRows + K - 1) * (kWidth + K - 1)) + 2 * kWidth <= kCopySize);
  const int64_t most = ((kCopySize - 2 * kWidth) / pitch - K + 1) / kTileRows * kTileRows;
  for (int64_t y = y_begin; y < y_end; y += most) {
    const int64_t rows = Min(most, y_end - y), copied = rows + K - 1;
    Clear(0, copied * pitch + kWidth, copy);
    const int64_t top = y - w.pad_y;  // the plane's row that is copied first
    const int64_t last = Min(copied, w.height - top);
    for (int64_t i = Max(0, -top); i < last; ++i) {
      pk::pstoreu(copy + i * pitch + skipped, LoadUpTo(from + (top + i) * w.width, count));
    }
    visit(Rows{copy, pitch, 0}, Part{y, rows, 0, w.out_width});
  }
}

// Calls visit(rows, part) for parts that together are rows [y_begin, y_end) of the results of a
// window of K x K taps. A part has at most kPartColumns columns. rows.data is the first tap of the
// part's first result; whole packets of all taps may be read.
template <int K, int S, typename Visit>
void ForEachPart(const DepthwiseWindow& w, const float* plane, int64_t y_begin, int64_t y_end,
                 const Visit& visit) {
  alignas(64) float copy[kCopySize];
  if constexpr (S == 1) {
    if (w.width <= kWidth && w.out_width <= kWidth) {
      return ForEachNarrowPart<K>(w, plane, y_begin, y_end, copy, visit);
    }
  }
  const auto visit_copies = [&](const Part& all) {
    for (int64_t x = all.x; x < all.x + all.columns; x += kPartColumns) {
      const int64_t columns = Min(kPartColumns, all.x + all.columns - x);
      const int64_t phase = RoundUp(columns, kWidth) + (K - 1) / S;
      const int64_t half = phase + kWidth, pitch = S * half;
      const int64_t most = ((kCopySize / pitch - K) / S + 1) / kTileRows * kTileRows;
      for (int64_t y = all.y; y < all.y + all.rows; y += most) {
        const int64_t rows = Min(most, all.y + all.rows - y);
        for (int64_t i = 0; i < (rows - 1) * S + K; ++i) {
          const int64_t row = y * S - w.pad_y + i;
          const bool inside = row >= 0 && row < w.height;
          CopyRow<S>(inside ? plane + row * w.width : nullptr, w.width, x * S - w.pad_x, phase,
                     half, copy + i * pitch);
        }
        visit(Rows{copy, pitch, half}, Part{y, rows, x, columns});
      }
    }
  };
  constexpr int64_t kWidestHalf = RoundUp(kPartColumns, kWidth) + (K - 1) / S + kWidth;
  static_assert(((kTileRows - 1) * S + K) * S * kWidestHalf <= kCopySize);
  static_assert(kPartColumns % kWidth == 0);
  if constexpr (S == 1) {
    const int64_t left = RoundUp(Max(0, w.pad_x), kWidth);
    const int64_t inside = Min(w.out_width, w.width - K + 1 + w.pad_x) - left;
    const int64_t top = Min(Max(y_begin, w.pad_y), y_end);
    const int64_t bottom = Min(w.height - K + 1 + w.pad_y, y_end);
    if (inside >= kColumnsInPlace && top < bottom) {
      const int64_t right = left + inside / kWidth * kWidth;
      visit_copies({y_begin, top - y_begin, 0, w.out_width});
      visit_copies({top, bottom - top, 0, left});
      for (int64_t x = left; x < right; x += kPartColumns) {
        visit(Rows{plane + (top - w.pad_y) * w.width + x - w.pad_x, w.width, 0},
              Part{top, bottom - top, x, Min(kPartColumns, right - x)});
      }
      visit_copies({top, bottom - top, right, w.out_width - right});
      visit_copies({bottom, y_end - bottom, 0, w.out_width});
      return;
    }
  }
  visit_copies({y_begin, y_end - y_begin, 0, w.out_width});
}

// Computes `columns` results in each of R rows. A packet may reach past its row within the first
// `unwritten` elements of `out`: later stores overwrite what it leaves there.
template <int K, int S, int R>
void CorrelateTiles(const Rows& in, const float* weights, float start, bool add, int64_t columns,
                    float* out, int64_t out_pitch, int64_t unwritten) {
  constexpr int kRows = (R - 1) * S + K;
  Lanes weight[K * K];
  TESSERA_UNROLL for (int i = 0; i < K * K; ++i) weight[i] = pk::pset1<Lanes>(weights[i]);
  const float* row[kRows];
  TESSERA_UNROLL for (int i = 0; i < kRows; ++i) row[i] = in.data + i * in.pitch;
  for (int64_t x = 0; x < columns; x += kWidth) {
    Lanes sum[R];
    TESSERA_UNROLL for (int r = 0; r < R; ++r) sum[r] = pk::pset1<Lanes>(start);
    TESSERA_UNROLL for (int i = 0; i < kRows; ++i) {
      TESSERA_UNROLL for (int kx = 0; kx < K; ++kx) {
        const Lanes value = pk::ploadu<Lanes>(row[i] + kx % S * in.half + kx / S + x);
        TESSERA_UNROLL for (int r = 0; r < R; ++r) {
          const int ky = i - r * S;
          if (ky >= 0 && ky < K) sum[r] = pk::pmadd(weight[ky * K + kx], value, sum[r]);
        }
      }
    }
    TESSERA_UNROLL for (int r = 0; r < R; ++r) {
      const int64_t at = r * out_pitch + x;
      if (at + kWidth <= unwritten) {
        pk::pstoreu(out + at, sum[r]);
      } else {
        StoreUpTo(out + at, sum[r], columns - x, add);
      }
    }
  }
}

template <int K, int S>
void CorrelateRows(const DepthwiseWindow& w, const float* plane, const float* weights, float start,
                   bool add, int64_t begin, int64_t end, float* out) {
  ForEachPart<K, S>(w, plane, begin, end, [&](const Rows& in, const Part& part) {
    // Tiles of nearly equal height: a last one of few rows would wait for its own additions.
    const int64_t tiles = (part.rows + kTileRows - 1) / kTileRows;
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t y = t * part.rows / tiles, rows = (t + 1) * part.rows / tiles - y;
      // Rows of less than a packet are stored as whole packets as long as rows follow.
      const bool follows = !add && w.out_width < kWidth;
      const int64_t unwritten = follows ? (end - part.y - y) * w.out_width : 0;
      const auto run = [&](auto tile) {
        tile(Rows{in.data + y * S * in.pitch, in.pitch, in.half}, weights, start, add, part.columns,
             out + (part.y + y) * w.out_width + part.x, w.out_width, unwritten);
      };
      static_assert(kTileRows == 4);
      switch (rows) {
        case 1:
          run(CorrelateTiles<K, S, 1>);
          break;
        case 2:
          run(CorrelateTiles<K, S, 2>);
          break;
        case 3:
          run(CorrelateTiles<K, S, 3>);
          break;
        default:
          run(CorrelateTiles<K, S, 4>);
          break;
      }
    }
  });
}

// The transpose for stride 1 is a convolution by the weights in reverse order.
template <int K>
void SpreadByOne(const DepthwiseWindow& w, const float* out, const float* weights, float start,
                 bool add, int64_t begin, int64_t end, float* plane) {
  float reversed[K * K];
  for (int i = 0; i < K * K; ++i) reversed[i] = weights[K * K - 1 - i];
  const DepthwiseWindow transposed = {.kernel = K,
                                      .stride = 1,
                                      .height = w.out_height,
                                      .width = w.out_width,
                                      .out_height = w.height,
                                      .out_width = w.width,
                                      .pad_y = K - 1 - w.pad_y,
                                      .pad_x = K - 1 - w.pad_x};
  CorrelateRows<K, 1>(transposed, out, reversed, start, add, begin, end, plane);
}

// Computes the elements of a stride-2 transpose on which windows' even and odd taps lie: pairs of
// rows `upper` and `lower`, in each `columns` pairs of elements. Whole packets are written.
//
// Tap k of position o lies on element u = 2 * o + k, counted from the padding's first. Element
// u = 2 * b + e thus receives taps e + 2 * j from positions b - j. The window of (K + 1) / 2
// positions that ends at b, which `in` has, serves both e in both directions.
template <int K>
void SpreadTiles(const Rows& in, const float* weights, float start, int64_t columns, float* upper,
                 float* lower) {
  constexpr int kWindow = (K + 1) / 2;
  Lanes weight[K * K];
  TESSERA_UNROLL for (int i = 0; i < K * K; ++i) weight[i] = pk::pset1<Lanes>(weights[i]);
  for (int64_t x = 0; x < columns; x += kWidth) {
    Lanes sum[2][2];
    TESSERA_UNROLL for (int e = 0; e < 4; ++e) sum[e / 2][e % 2] = pk::pset1<Lanes>(start);
    TESSERA_UNROLL for (int i = 0; i < kWindow; ++i) {
      TESSERA_UNROLL for (int j = 0; j < kWindow; ++j) {
        const Lanes value = pk::ploadu<Lanes>(in.data + i * in.pitch + j + x);
        TESSERA_UNROLL for (int e = 0; e < 4; ++e) {
          const int ky = e / 2 + 2 * (kWindow - 1 - i), kx = e % 2 + 2 * (kWindow - 1 - j);
          if (ky < K && kx < K) {
            sum[e / 2][e % 2] = pk::pmadd(weight[ky * K + kx], value, sum[e / 2][e % 2]);
          }
        }
      }
    }
    const PacketPair above = Interleave(sum[0][0], sum[0][1]);
    pk::pstoreu(upper + 2 * x, above.first);
    pk::pstoreu(upper + 2 * x + kWidth, above.second);
    const PacketPair below = Interleave(sum[1][0], sum[1][1]);
    pk::pstoreu(lower + 2 * x, below.first);
    pk::pstoreu(lower + 2 * x + kWidth, below.second);
  }
}

template <int K>
void SpreadByTwo(const DepthwiseWindow& w, const float* out, const float* weights, float start,
                 bool add, int64_t begin, int64_t end, float* plane) {
  // Pair b of SpreadTiles has elements 2 * b - odd and 2 * b - odd + 1 here, where b counts from
  // the first pair that has an element of the plane.
  constexpr int kWindow = (K + 1) / 2;
  const int64_t odd_y = w.pad_y % 2, odd_x = w.pad_x % 2;
  const DepthwiseWindow pairs = {.kernel = kWindow,
                                 .stride = 1,
                                 .height = w.out_height,
                                 .width = w.out_width,
                                 .out_height = (w.height - 1 + odd_y) / 2 + 1,
                                 .out_width = (w.width - 1 + odd_x) / 2 + 1,
                                 .pad_y = kWindow - 1 - w.pad_y / 2,
                                 .pad_x = kWindow - 1 - w.pad_x / 2};
  alignas(64) float lines[2][2 * kPartColumns];
  ForEachPart<kWindow, 1>(pairs, out, (begin + odd_y) / 2, (end - 1 + odd_y) / 2 + 1,
                          [&](const Rows& in, const Part& part) {
                            const int64_t x = 2 * part.x - odd_x, first = Max(0, x);
                            const int64_t last = Min(w.width, x + 2 * part.columns);
                            for (int64_t y = 0; y < part.rows; ++y) {
                              SpreadTiles<K>(Rows{in.data + y * in.pitch, in.pitch, in.half},
                                             weights, start, part.columns, lines[0], lines[1]);
                              for (int64_t e = 0; e < 2; ++e) {
                                const int64_t row = 2 * (part.y + y) - odd_y + e;
                                if (row < begin || row >= end) continue;
                                const float* const from = lines[e] + first - x;
                                float* const to = plane + row * w.width + first;
                                for (int64_t i = 0; i < last - first; i += kWidth) {
                                  StoreUpTo(to + i, LoadUpTo(from + i, last - first - i),
                                            last - first - i, add);
                                }
                              }
                            }
                          });
}

// Adds the products of `rows` rows of results, a multiple of G, to packets of sums for taps of
// TapRows x K.
template <int K, int S, int TapRows, int G>
void AddProducts(const Rows& in, const float* out, int64_t out_pitch, int64_t rows, int64_t columns,
                 float* sums) {
  Lanes sum[TapRows][K];
  TESSERA_UNROLL for (int i = 0; i < TapRows * K; ++i) {
    sum[i / K][i % K] = pk::ploadu<Lanes>(sums + i * kWidth);
  }
  const float* row = in.data;
  for (int64_t y = 0; y < rows; y += G, row += G * S * in.pitch, out += G * out_pitch) {
    const auto add = [&](int64_t x, const auto& load) {
      Lanes grad[G];
      TESSERA_UNROLL for (int g = 0; g < G; ++g) grad[g] = load(out + g * out_pitch + x);
      TESSERA_UNROLL for (int i = 0; i < (G - 1) * S + TapRows; ++i) {
        TESSERA_UNROLL for (int kx = 0; kx < K; ++kx) {
          const Lanes value = load(row + i * in.pitch + kx % S * in.half + kx / S + x);
          TESSERA_UNROLL for (int g = 0; g < G; ++g) {
            const int ky = i - g * S;
            if (ky >= 0 && ky < TapRows) sum[ky][kx] = pk::pmadd(grad[g], value, sum[ky][kx]);
          }
        }
      }
    };
    int64_t x = 0;
    for (; x + kWidth <= columns; x += kWidth) {
      add(x, [](const float* from) { return pk::ploadu<Lanes>(from); });
    }
    if (x < columns) {
      add(x, [=](const float* from) { return LoadFirst<float>(from, columns - x); });
    }
  }
  TESSERA_UNROLL for (int i = 0; i < TapRows * K; ++i) {
    pk::pstoreu(sums + i * kWidth, sum[i / K][i % K]);
  }
}

// Adds the products of a part for taps from row `tap_row` on. Two rows of results share what they
// load.
template <int K, int S, int TapRows>
void AddTapRows(int tap_row, const Rows& in, const float* out, int64_t out_pitch, const Part& part,
                float* sums) {
  const int64_t paired = part.rows / 2 * 2;
  Rows from = {in.data + tap_row * in.pitch, in.pitch, in.half};
  float* const to = sums + tap_row * K * kWidth;
  AddProducts<K, S, TapRows, 2>(from, out, out_pitch, paired, part.columns, to);
  if (paired == part.rows) return;
  from.data += paired * S * in.pitch;
  AddProducts<K, S, TapRows, 1>(from, out + paired * out_pitch, out_pitch, 1, part.columns, to);
}

template <int K, int S>
void SumTaps(const DepthwiseWindow& w, const float* planes, int64_t plane_stride, const float* outs,
             int64_t out_stride, int64_t begin, int64_t end, double* sums) {
  alignas(64) float lanes[K * K * kWidth];
  for (int64_t i = 0; i < K * K * kWidth; ++i) lanes[i] = 0;
  for (int i = 0; i < K * K; ++i) sums[i] = 0;
  int64_t packets = 0;
  const auto fold = [&] {
    for (int i = 0; i < K * K; ++i) {
      const Lanes sum = pk::ploadu<Lanes>(lanes + i * kWidth);
      sums[i] += static_cast<double>(pk::predux(sum));
      pk::pstoreu(lanes + i * kWidth, pk::pset1<Lanes>(0.0f));
    }
    packets = 0;
  };
  const int64_t rows_in_float =
      Max(1, kPacketsInFloat / Max(1, (w.out_width + kWidth - 1) / kWidth));
  while (begin < end) {
    const int64_t sample = begin / w.out_height, y = begin % w.out_height;
    const int64_t y_end = Min(Min(w.out_height, y + end - begin), y + rows_in_float);
    const float* const out = outs + sample * out_stride;
    ForEachPart<K, S>(w, planes + sample * plane_stride, y, y_end,
                      [&](const Rows& in, const Part& part) {
                        constexpr int kRows = kTapRows<K>, kRest = K % kRows;
                        const float* const from = out + part.y * w.out_width + part.x;
                        for (int t = 0; t + kRows <= K; t += kRows) {
                          AddTapRows<K, S, kRows>(t, in, from, w.out_width, part, lanes);
                        }
                        if constexpr (kRest != 0) {
                          AddTapRows<K, S, kRest>(K - kRest, in, from, w.out_width, part, lanes);
                        }
                        packets += part.rows * ((part.columns + kWidth - 1) / kWidth);
                      });
    if (packets >= kPacketsInFloat) fold();
    begin += y_end - y;
  }
  fold();
}

}  // namespace

// The functions of depthwise.h, for kernels of 3 x 3 and 5 x 5 taps and strides 1 and 2.

void Correlate(const DepthwiseWindow& w, const float* plane, const float* weights, float start,
               bool add, int64_t begin, int64_t end, float* out) {
  const auto function = w.kernel == 3 ? (w.stride == 1 ? CorrelateRows<3, 1> : CorrelateRows<3, 2>)
                                      : (w.stride == 1 ? CorrelateRows<5, 1> : CorrelateRows<5, 2>);
  function(w, plane, weights, start, add, begin, end, out);
}

void Spread(const DepthwiseWindow& w, const float* out, const float* weights, float start, bool add,
            int64_t begin, int64_t end, float* plane) {
  const auto function = w.kernel == 3 ? (w.stride == 1 ? SpreadByOne<3> : SpreadByTwo<3>)
                                      : (w.stride == 1 ? SpreadByOne<5> : SpreadByTwo<5>);
  function(w, out, weights, start, add, begin, end, plane);
}

void WeightGradient(const DepthwiseWindow& w, const float* planes, int64_t plane_stride,
                    const float* outs, int64_t out_stride, int64_t begin, int64_t end,
                    double* sums) {
  const auto function = w.kernel == 3 ? (w.stride == 1 ? SumTaps<3, 1> : SumTaps<3, 2>)
                                      : (w.stride == 1 ? SumTaps<5, 1> : SumTaps<5, 2>);
  function(w, planes, plane_stride, outs, out_stride, begin, end, sums);
}

}  // namespace tessera::tensor_internal::TESSERA_DEPTHWISE_NAMESPACE

#endif  // TESSERA_TENSOR_NN_DEPTHWISE_KERNEL_H_
