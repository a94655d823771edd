#include "tessera/ops/windows/winograd_loops.h"

#include <algorithm>
#include <atomic>

#include "tessera/ops/windows/window_parameters.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/linalg/gemm.h"
#include "tessera/tensor/nn/winograd.h"

namespace tessera::ops_internal {
namespace {

using tensor_internal::kWinogradColumns;
using tensor_internal::WinogradTerms;

/// Below this number of channels or filters, transforms take longer than the products spare.
constexpr index_t kLeastChannels = 32;

/// The tiles whose products take as long as the transform of the weights, whose terms are written
/// to memory and read again.
constexpr index_t kTilesOfWeights = 48;

/// The bytes of a thread's matrices, which its caches hold, and the most tiles of a group. More
/// tiles would push the matrices of few channels out of the second-level cache. Fewer read the
/// weights more often.
constexpr index_t kThreadBytes = index_t{1} << 20;
constexpr index_t kMostTiles = 48;

/// The most filters of a block, whose products read the group's terms from a near cache, and the
/// fewest that blocks are made for so that each thread has some.
constexpr index_t kMostFilters = 48;
constexpr index_t kLeastFilters = 16;

/// The elements between the matrices of two terms, beyond their size. The terms of a tile would
/// share few sets of a cache if matrices lay a power of two apart.
constexpr index_t kApart = 16;

/// The columns of products are a multiple of this, the packet of AVX2.
constexpr index_t kColumnUnit = 8;

constexpr index_t Over(index_t n, index_t unit) { return (n + unit - 1) / unit; }
constexpr index_t RoundUp(index_t n, index_t unit) { return Over(n, unit) * unit; }

/// Returns the rows of a term's matrices: of all channels, and of a block of filters for each of
/// `threads` threads. kApart is at most a row of each.
index_t RowsOf(const ConvolutionGeometry& g, index_t threads) {
  const index_t blocks = Over(g.filters, kMostFilters);
  return g.channels + 1 + threads * (Over(g.filters, blocks) + 1);
}

/// Returns the number of tiles whose matrices fit the memory of `threads` threads.
index_t TilesWithin(const ConvolutionGeometry& g, index_t tile, index_t threads) {
  const index_t column_bytes =
      WinogradTerms(tile) * RowsOf(g, threads) * static_cast<index_t>(sizeof(float));
  return threads * kThreadBytes / column_bytes;
}

bool FitsMemory(const ConvolutionGeometry& g, index_t tile) {
  return TilesWithin(g, tile, 1) >= kWinogradColumns;
}

index_t TilesOf(const ConvolutionGeometry& g, index_t tile) {
  return g.batch * Over(g.positions[1], tile) * Over(g.positions[2], tile);
}

/// Calls body(slot, i) for each i below n, in parallel. Calls with one slot do not overlap. A
/// thread takes the next i when it has finished one.
template <typename Body>
void RunInSlots(index_t slots, index_t n, const Body& body) {
  // Relaxed: the counter orders nothing but itself. ParallelFor orders what the bodies write.
  std::atomic<index_t> next = 0;
  ParallelFor(slots, 1, [&](index_t begin, index_t end) {
    for (index_t slot = begin; slot < end; ++slot) {
      for (;;) {
        const index_t i = next.fetch_add(1, std::memory_order_relaxed);
        if (i >= n) break;
        body(slot, i);
      }
    }
  });
}

}  // namespace

std::string WinogradLoops::Refusal(const ConvolutionGeometry& g, DType dtype) {
  if (dtype != DType::kFloat32) return "data is not float32";
  if (g.kernel != WindowExtents{1, 3, 3}) return "the kernel is not 3 x 3";
  if (g.image[0] != 1 || g.pad[0] != 0) return "data has a depth";
  if (Volume(g.stride) != 1) return "the stride is not 1";
  if (Volume(g.dilate) != 1) return "the dilation is not 1";
  if (g.groups != 1) return "there are several groups of channels";
  if (g.channels < kLeastChannels) return "data has fewer than 32 channels";
  if (g.filters < kLeastChannels) return "there are fewer than 32 filters";
  if (!FitsMemory(g, 2)) return "data has too many channels for 1 MiB of workspace";
  if (BestTile(g) == 0) {
    return "there are too few positions in all images to pay for the transform of the weights";
  }
  return "";
}

index_t WinogradLoops::BestTile(const ConvolutionGeometry& g) {
  index_t best = 0, least = 9 * g.batch * Volume(g.positions);
  for (const index_t tile : {2, 4}) {
    const index_t work = WinogradTerms(tile) * (TilesOf(g, tile) + kTilesOfWeights);
    if (work >= least || !FitsMemory(g, tile)) continue;
    best = tile;
    least = work;
  }
  return best;
}

WinogradLoops::WinogradLoops(const ConvolutionGeometry& geometry, index_t tile)
    : WinogradLoops(geometry, tile, ParallelWidth()) {}

WinogradLoops::WinogradLoops(const ConvolutionGeometry& geometry, index_t tile, index_t threads)
    : g_(geometry),
      tiles_{.size = tile,
             .height = g_.image[1],
             .width = g_.image[2],
             .out_height = g_.positions[1],
             .out_width = g_.positions[2],
             .pad_y = g_.pad[1],
             .pad_x = g_.pad[2],
             .plane_stride = g_.channels * Volume(g_.image),
             .out_stride = g_.filters * Volume(g_.positions)},
      terms_(WinogradTerms(tile)),
      tile_count_(TilesOf(g_, tile)),
      units_(Over(tile_count_, kWinogradColumns)),
      filter_blocks_(Over(g_.filters, kMostFilters)),
      weight_stride_(RoundUp(g_.filters * g_.channels, kApart) + kApart) {
  const auto units_within = [&](index_t sharing) {
    const index_t tiles = TilesWithin(g_, tile, sharing);
    return std::clamp(tiles, kWinogradColumns, kMostTiles) / kWinogradColumns;
  };
  // Threads that share a group's input have room for more of its tiles.
  const index_t alone = units_within(1), shared = units_within(threads);
  one_by_one_ = threads > 1 && (Over(units_, alone) < 4 * threads || shared >= 2 * alone);
  groups_ = Over(units_, one_by_one_ ? shared : alone);
  pitch_ = Over(units_, std::max<index_t>(1, groups_)) * kWinogradColumns;
  if (one_by_one_) {
    filter_blocks_ =
        std::max(filter_blocks_, std::min<index_t>(2 * threads, g_.filters / kLeastFilters));
    if (filter_blocks_ > threads) filter_blocks_ = RoundUp(filter_blocks_, threads);
  }
  groups_at_once_ = one_by_one_ ? 1 : std::min<index_t>(threads, groups_);
  sums_at_once_ = one_by_one_ ? std::min<index_t>(threads, filter_blocks_) : groups_at_once_;
  input_stride_ = g_.channels * pitch_ + kApart;
  sums_stride_ = Over(g_.filters, filter_blocks_) * pitch_ + kApart;
  input_size_ = terms_ * input_stride_;
  sums_size_ = terms_ * sums_stride_;
}

void WinogradLoops::TransformWeights(const float* weight, float* transformed) const {
  ParallelFor(g_.filters * g_.channels, StepsPerTask(2 * terms_), [&](index_t begin, index_t end) {
    tensor_internal::WinogradWeights(tiles_.size, weight, begin, end, transformed, weight_stride_);
  });
}

void WinogradLoops::Correlate(const float* image, const float* transformed, const float* bias,
                              bool add, float* workspace, float* result,
                              const Epilogue* epilogue) const {
  float* const all_sums = workspace + groups_at_once_ * input_size_;
  if (!one_by_one_) {
    RunInSlots(groups_at_once_, groups_, [&](index_t slot, index_t i) {
      const Group group = GroupAt(i);
      float* const input = workspace + slot * input_size_;
      TransformInput(group, 0, g_.channels, image, input);
      for (index_t block = 0; block < filter_blocks_; ++block) {
        ComputeFilters(group, block, input, transformed, bias, add, all_sums + slot * sums_size_,
                       result, epilogue);
      }
    });
    return;
  }
  for (index_t i = 0; i < groups_; ++i) {
    const Group group = GroupAt(i);
    ParallelFor(
        g_.channels, StepsPerTask(4 * terms_ * (group.end - group.begin)),
        [&](index_t begin, index_t end) { TransformInput(group, begin, end, image, workspace); });
    RunInSlots(sums_at_once_, filter_blocks_, [&](index_t slot, index_t block) {
      ComputeFilters(group, block, workspace, transformed, bias, add, all_sums + slot * sums_size_,
                     result, epilogue);
    });
  }
}

WinogradLoops::Group WinogradLoops::GroupAt(index_t i) const {
  const auto begin = [&](index_t group) {
    return std::min(tile_count_, group * units_ / groups_ * kWinogradColumns);
  };
  return {begin(i), begin(i + 1)};
}

void WinogradLoops::TransformInput(const Group& group, index_t channel_begin, index_t channel_end,
                                   const float* image, float* input) const {
  for (index_t c = channel_begin; c < channel_end; ++c) {
    tensor_internal::WinogradInput(tiles_, image + c * Volume(g_.image), group.begin, group.end,
                                   input + c * pitch_, input_stride_);
  }
}

void WinogradLoops::ComputeFilters(const Group& group, index_t block, const float* input,
                                   const float* transformed, const float* bias, bool add,
                                   float* sums, float* result, const Epilogue* epilogue) const {
  const index_t begin = block * g_.filters / filter_blocks_;
  const index_t end = (block + 1) * g_.filters / filter_blocks_;
  // With fewer columns, the order of sums would depend on the number of them.
  static_assert(kWinogradColumns >= tensor_internal::kColumnsInOrder);
  const index_t columns = std::max(kWinogradColumns, RoundUp(group.end - group.begin, kColumnUnit));
  for (index_t term = 0; term < terms_; ++term) {
    tensor_internal::Gemm({.transpose_a = false,
                           .transpose_b = false,
                           .m = end - begin,
                           .n = columns,
                           .k = g_.channels,
                           .alpha = 1.0f,
                           .a = transformed + term * weight_stride_ + begin * g_.channels,
                           .lda = g_.channels,
                           .b = input + term * input_stride_,
                           .ldb = pitch_,
                           .beta = 0.0f,
                           .c = sums + term * sums_stride_,
                           .ldc = pitch_});
  }
  for (index_t f = begin; f < end; ++f) {
    tensor_internal::WinogradOutput(tiles_, sums + (f - begin) * pitch_, sums_stride_,
                                    bias == nullptr ? 0.0f : bias[f], add, group.begin, group.end,
                                    result + f * Volume(g_.positions));
    if (epilogue != nullptr) Finish(group, f, *epilogue);
  }
}

void WinogradLoops::Finish(const Group& group, index_t filter, const Epilogue& epilogue) const {
  const index_t height = tiles_.out_height, width = tiles_.out_width, size = tiles_.size;
  const index_t rows = Over(height, size), columns = Over(width, size);  // of tiles in an image
  for (index_t tile = group.begin; tile < group.end;) {
    const index_t image = tile / (rows * columns), row = tile / columns % rows;
    const index_t column = tile % columns, count = group.end - tile;
    const index_t plane = image * tiles_.out_stride + filter * height * width;
    const index_t images = row == 0 && column == 0 ? count / (rows * columns) : 0;
    const index_t y = row * size, x = column * size;
    if (images > 0) {
      epilogue.Run(
          {.first = plane, .run = height * width, .count = images, .stride = tiles_.out_stride});
      tile += images * rows * columns;
    } else if (column == 0 && count >= columns) {
      const index_t whole = std::min(count / columns, rows - row);
      const index_t lines = std::min(height, y + whole * size) - y;
      epilogue.Run({.first = plane + y * width, .run = lines * width});
      tile += whole * columns;
    } else {
      const index_t part = std::min(count, columns - column);
      epilogue.Run({.first = plane + y * width + x,
                    .run = std::min(width, x + part * size) - x,
                    .count = std::min(height, y + size) - y,
                    .stride = width});
      tile += part;
    }
  }
}

}  // namespace tessera::ops_internal
