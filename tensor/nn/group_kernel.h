// Convolutions of groups of several channels, for depthwise.cc; depthwise_rows.h says how this
// header is compiled.
//
// An element serves several filters, so a tile is several filters by several packets. Its sums stay
// in registers while the taps of all channels run. Rows are always copied, and packets run on from
// row to row.
#ifndef TESSERA_TENSOR_NN_GROUP_KERNEL_H_
#define TESSERA_TENSOR_NN_GROUP_KERNEL_H_

#include <Eigen/Core>
#include <cstdint>

#include "tessera/tensor/nn/depthwise_rows.h"
#include "tessera/tensor/nn/depthwise_window.h"
#include "tessera/tensor/packet/partial_packet.h"

namespace tessera::tensor_internal::TESSERA_DEPTHWISE_NAMESPACE {
namespace {

// The most filters of a tile.
constexpr int kTileFilters = 4;
// The rows of a band below which it has fewer columns instead.
constexpr int64_t kFewRows = 4;
// The most channels of a group, and their taps.
constexpr int64_t kMostChannels = 16;
constexpr int64_t kMostTerms = kMostChannels * 25;
// The columns of a band, and a filter's results in one. Those of a tile's filters and the copy fit
// a first-level cache of 32 KiB.
constexpr int64_t kBandColumns = 64;
constexpr int64_t kBandSize = 512;

// The rows of all channels of a group under the windows of a part, with zeros around. A term is a
// tap of a channel, counted as the weights of a filter are. The element under term t of the window
// at row y, column x of the part is data[offsets[t] + y * pitch + x]. That the rows of all terms
// have one pitch lets packets of results run on from row to row: the windows between two rows are
// computed too, and their results thrown away.
struct Band {
  const float* data;
  const int32_t* offsets;
  int64_t pitch;
};

// Calls visit(band, part) for parts that together are rows [y_begin, y_end) of the results. Whole
// packets of all terms may be read.
template <int S, typename Visit>
void ForEachBand(const DepthwiseWindow& w, int64_t channels, const float* planes, int64_t y_begin,
                 int64_t y_end, const Visit& visit) {
  alignas(64) float copy[kCopySize];
  int32_t offsets[kMostTerms];
  // A channel has S * S blocks: the rows of one remainder modulo S, of which one has the columns of
  // one remainder. A packet follows each block.
  const int64_t reach = (w.kernel - 1) / S;
  const auto most_rows = [&](int64_t columns) {
    const int64_t pitch = columns + reach, block = kCopySize / (channels * S * S) - kWidth;
    return Min(block / pitch - reach, kBandSize / pitch);
  };
  static_assert((kCopySize / (kMostChannels * 4) - kWidth) / (kWidth + 2) - 2 >= 1);
  int64_t columns = Min(w.out_width, kBandColumns);
  while (columns > kWidth && most_rows(columns) < kFewRows) {
    columns = RoundUp((columns + 1) / 2, kWidth);
  }
  for (int64_t x = 0; x < w.out_width; x += columns) {
    const int64_t part_columns = Min(columns, w.out_width - x), pitch = part_columns + reach;
    const int64_t all = y_end - y_begin, most = most_rows(part_columns);
    const int64_t bands = (all + most - 1) / most;
    for (int64_t b = 0; b < bands; ++b) {
      const int64_t y = y_begin + b * all / bands, rows = y_begin + (b + 1) * all / bands - y;
      const int64_t block = (rows + reach) * pitch + kWidth;
      int32_t* offset = offsets;
      for (int64_t c = 0; c < channels; ++c) {
        float* const to = copy + c * S * S * block;
        // A row's last packets reach into the next row of their block, which is copied later.
        for (int64_t i = 1; i <= S * S; ++i) Clear(0, kWidth, to + i * block - kWidth);
        for (int64_t i = 0; i < (rows + reach) * S; ++i) {
          const int64_t row = y * S - w.pad_y + i;
          const bool inside = row >= 0 && row < w.height;
          CopyRow<S>(inside ? planes + (c * w.height + row) * w.width : nullptr, w.width,
                     x * S - w.pad_x, pitch, block, to + i % S * S * block + i / S * pitch);
        }
        for (int64_t ky = 0; ky < w.kernel; ++ky) {
          for (int64_t kx = 0; kx < w.kernel; ++kx) {
            *offset++ = static_cast<int32_t>((c * S * S + ky % S * S + kx % S) * block +
                                             ky / S * pitch + kx / S);
          }
        }
      }
      visit(Band{copy, offsets, pitch}, Part{y, rows, x, part_columns});
    }
  }
}

// Computes P packets of each of F filters' results: the sums of `terms` products. The filters' rows
// of results are kBandSize elements apart.
template <int F, int P>
void SumTerms(const float* data, const int32_t* offsets, int64_t terms, const float* weights,
              const float* starts, float* results) {
  Lanes sum[F][P];
  TESSERA_UNROLL for (int i = 0; i < F * P; ++i) {
    sum[i / P][i % P] = pk::pset1<Lanes>(starts[i / P]);
  }
  for (int64_t t = 0; t < terms; ++t) {
    const float* const from = data + offsets[t];
    Lanes value[P];
    TESSERA_UNROLL for (int p = 0; p < P; ++p) value[p] = pk::ploadu<Lanes>(from + p * kWidth);
    TESSERA_UNROLL for (int f = 0; f < F; ++f) {
      const Lanes weight = pk::pset1<Lanes>(weights[f * terms + t]);
      TESSERA_UNROLL for (int p = 0; p < P; ++p) sum[f][p] = pk::pmadd(weight, value[p], sum[f][p]);
    }
  }
  TESSERA_UNROLL for (int i = 0; i < F * P; ++i) {
    pk::pstore(results + i / P * kBandSize + i % P * kWidth, sum[i / P][i % P]);
  }
}

// Computes `positions` results of each of F filters, in whole packets.
template <int F>
void SumBand(const Band& in, int64_t terms, const float* weights, const float* starts,
             int64_t positions, float* results) {
  for (int64_t p = 0; p < positions;) {
    const int64_t packets = (positions - p + kWidth - 1) / kWidth;
    const auto run = [&](auto sum_terms, int64_t count) {
      sum_terms(in.data + p, in.offsets, terms, weights, starts, results + p);
      p += count * kWidth;
    };
    // The sums of four filters in three packets, three packets of elements and a weight fit 16
    // registers. Four packets are two and two: a tile of one would wait for its own additions.
    if (packets == 3 || packets > 4) {
      run(SumTerms<F, 3>, 3);
    } else if (packets > 1) {
      run(SumTerms<F, 2>, 2);
    } else {
      run(SumTerms<F, 1>, 1);
    }
  }
}

// Calls visit.operator()<F>(f) for tiles of filters [f, f + F) of nearly equal size.
template <typename Visit>
void ForEachFilterTile(int64_t filters, const Visit& visit) {
  static_assert(kTileFilters == 4);
  const int64_t tiles = (filters + kTileFilters - 1) / kTileFilters;
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t f = t * filters / tiles;
    switch ((t + 1) * filters / tiles - f) {
      case 1:
        visit.template operator()<1>(f);
        break;
      case 2:
        visit.template operator()<2>(f);
        break;
      case 3:
        visit.template operator()<3>(f);
        break;
      default:
        visit.template operator()<4>(f);
        break;
    }
  }
}

template <int S>
void CorrelateBands(const DepthwiseWindow& w, const GroupExtents& group, const float* planes,
                    const float* weights, const float* biases, bool add, int64_t begin, int64_t end,
                    float* outs) {
  // The last row of a band may be read up to a packet past its end.
  alignas(64) float results[kTileFilters * kBandSize + kWidth];
  const int64_t terms = group.channels * w.kernel * w.kernel;
  ForEachBand<S>(w, group.channels, planes, begin, end, [&](const Band& in, const Part& part) {
    ForEachFilterTile(group.filters, [&]<int F>(int64_t first) {
      float starts[F] = {};
      for (int f = 0; biases != nullptr && f < F; ++f) starts[f] = biases[first + f];
      SumBand<F>(in, terms, weights + first * terms, starts,
                 (part.rows - 1) * in.pitch + part.columns, results);
      for (int f = 0; f < F; ++f) {
        const float* from = results + f * kBandSize;
        float* to = outs + ((first + f) * w.out_height + part.y) * w.out_width + part.x;
        for (int64_t y = 0; y < part.rows; ++y, from += in.pitch, to += w.out_width) {
          for (int64_t x = 0; x < part.columns; x += kWidth) {
            StoreUpTo(to + x, pk::ploadu<Lanes>(from + x), part.columns - x, add);
          }
        }
      }
    });
  });
}

// Adds the products of F filters' results with the elements under T terms to sums. The filters'
// results and sums are `out_stride` and `terms` apart.
template <int F, int T>
void AddTerms(const Band& in, const int32_t* offsets, const Part& part, const float* out,
              int64_t out_stride, int64_t out_pitch, int64_t terms, double* sums) {
  Lanes sum[F][T];
  TESSERA_UNROLL for (int i = 0; i < F * T; ++i) sum[i / T][i % T] = pk::pset1<Lanes>(0.0f);
  const float* row[T];
  TESSERA_UNROLL for (int t = 0; t < T; ++t) row[t] = in.data + offsets[t];
  for (int64_t y = 0; y < part.rows; ++y, out += out_pitch) {
    const auto add = [&](int64_t x, const auto& load) {
      Lanes grad[F];
      TESSERA_UNROLL for (int f = 0; f < F; ++f) grad[f] = load(out + f * out_stride + x);
      TESSERA_UNROLL for (int t = 0; t < T; ++t) {
        const Lanes value = load(row[t] + y * in.pitch + x);
        TESSERA_UNROLL for (int f = 0; f < F; ++f) {
          sum[f][t] = pk::pmadd(grad[f], value, sum[f][t]);
        }
      }
    };
    int64_t x = 0;
    for (; x + kWidth <= part.columns; x += kWidth) {
      add(x, [](const float* from) { return pk::ploadu<Lanes>(from); });
    }
    if (x < part.columns) {
      add(x, [=](const float* from) { return LoadFirst<float>(from, part.columns - x); });
    }
  }
  TESSERA_UNROLL for (int i = 0; i < F * T; ++i) {
    sums[i / T * terms + i % T] += static_cast<double>(pk::predux(sum[i / T][i % T]));
  }
}

// AddTerms for all terms. Pairs of terms and their filters fit 16 registers.
template <int F>
void AddAllTerms(const Band& in, const Part& part, const float* out, int64_t out_stride,
                 int64_t out_pitch, int64_t terms, double* sums) {
  int64_t t = 0;
  for (; t + 2 <= terms; t += 2) {
    AddTerms<F, 2>(in, in.offsets + t, part, out, out_stride, out_pitch, terms, sums + t);
  }
  if (t < terms) {
    AddTerms<F, 1>(in, in.offsets + t, part, out, out_stride, out_pitch, terms, sums + t);
  }
}

template <int S>
void SumBands(const DepthwiseWindow& w, const GroupExtents& group, const float* planes,
              int64_t plane_stride, const float* outs, int64_t out_stride, int64_t begin,
              int64_t end, double* sums) {
  const int64_t terms = group.channels * w.kernel * w.kernel, size = w.out_height * w.out_width;
  for (int64_t i = 0; i < group.filters * terms; ++i) sums[i] = 0;
  while (begin < end) {
    const int64_t sample = begin / w.out_height, y = begin % w.out_height;
    const int64_t y_end = Min(w.out_height, y + end - begin);
    ForEachBand<S>(w, group.channels, planes + sample * plane_stride, y, y_end,
                   [&](const Band& in, const Part& part) {
                     const float* const out =
                         outs + sample * out_stride + part.y * w.out_width + part.x;
                     ForEachFilterTile(group.filters, [&]<int F>(int64_t first) {
                       AddAllTerms<F>(in, part, out + first * size, size, w.out_width, terms,
                                      sums + first * terms);
                     });
                   });
    begin += y_end - y;
  }
}

}  // namespace

// The functions of depthwise.h, for kernels of 3 x 3 and 5 x 5 taps and strides 1 and 2.

void GroupCorrelate(const DepthwiseWindow& w, const GroupExtents& group, const float* planes,
                    const float* weights, const float* biases, bool add, int64_t begin, int64_t end,
                    float* outs) {
  const auto function = w.stride == 1 ? CorrelateBands<1> : CorrelateBands<2>;
  function(w, group, planes, weights, biases, add, begin, end, outs);
}

void GroupWeightGradient(const DepthwiseWindow& w, const GroupExtents& group, const float* planes,
                         int64_t plane_stride, const float* outs, int64_t out_stride, int64_t begin,
                         int64_t end, double* sums) {
  const auto function = w.stride == 1 ? SumBands<1> : SumBands<2>;
  function(w, group, planes, plane_stride, outs, out_stride, begin, end, sums);
}

}  // namespace tessera::tensor_internal::TESSERA_DEPTHWISE_NAMESPACE

#endif  // TESSERA_TENSOR_NN_GROUP_KERNEL_H_
