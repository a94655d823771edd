#include "tessera/ops/windows/convolution_loops.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/windows/depthwise_loops.h"
#include "tessera/ops/windows/image_product.h"
#include "tessera/ops/windows/result_rows.h"
#include "tessera/ops/windows/unpacked_windows.h"
#include "tessera/ops/windows/workspace_slots.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/linalg/gemm.h"
#include "tessera/tensor/nn/patch_planes.h"

namespace tessera::ops_internal {
namespace {

using base_internal::At;
using tensor_internal::Gemm;
using tensor_internal::kColumnsInOrder;
using tensor_internal::PlaneWindow;

/// The bytes of unpacked windows that a tile aims at, which a core's cache holds, and those that it
/// never exceeds.
constexpr index_t kPreferredTileBytes = index_t{1} << 20;
constexpr index_t kMaxTileBytes = index_t{32} << 20;

/// The fewest positions or rows of a tile, if there are as many: a product of fewer is slow.
constexpr index_t kMinTile = 64;

/// Bytes of all tasks' sums of weight gradients, above which there are fewer tasks.
constexpr index_t kMaxSumBytes = index_t{256} << 20;

/// The division of all positions into tiles of about one size.
struct Tiling {
  Tiling(const WindowExtents& positions, index_t preferred) {
    lines_ = positions[0] * positions[1];
    width_ = positions[2];
    if (preferred >= width_) {
      lines_per_tile_ = Even(lines_, preferred / std::max<index_t>(1, width_));
      parts_ = 1;
      tile_width_ = width_;
    } else {
      lines_per_tile_ = 1;
      tile_width_ = (Even(width_, preferred) + 15) / 16 * 16;
      parts_ = (width_ + tile_width_ - 1) / tile_width_;
    }
    count = (lines_ + lines_per_tile_ - 1) / lines_per_tile_ * parts_;
  }

  PositionTile operator[](index_t i) const {
    const index_t line = i / parts_ * lines_per_tile_, x = i % parts_ * tile_width_;
    return {line, std::min(lines_, line + lines_per_tile_), x, std::min(width_, x + tile_width_)};
  }
  index_t LargestSize() const { return std::min(lines_, lines_per_tile_) * tile_width_; }

  index_t count = 0;

 private:
  /// Returns a part of n of which all parts have about the same size, at most `most`.
  static index_t Even(index_t n, index_t most) {
    const index_t parts = std::max<index_t>(1, (n + most - 1) / most);
    return std::max<index_t>(1, (n + parts - 1) / parts);
  }

  index_t lines_, width_, lines_per_tile_, parts_, tile_width_;
};

/// The products in arithmetic of A: float or double.
template <typename A>
class Products {
 public:
  Products(const ConvolutionGeometry& geometry, DType dtype, ConvolutionMemory* memory)
      : g_(geometry),
        dtype_(dtype),
        direct_(dtype == kDTypeOf<A>),
        memory_(memory),
        windows_(g_),
        image_product_(g_),
        image_size_(Volume(g_.image)),
        positions_(Volume(g_.positions)),
        taps_(Volume(g_.kernel)),
        rows_(g_.channels * taps_) {
    pointwise_ =
        taps_ == 1 && Volume(g_.stride) == 1 && Volume(g_.pad) == 0 && g_.positions == g_.image;
    if (std::is_same_v<A, float> && g_.image[0] == 1 && g_.kernel[0] == 1 && g_.pad[0] == 0 &&
        Volume(g_.stride) == 1 && g_.positions == g_.image) {
      planes_ = {.height = g_.image[1],
                 .width = g_.image[2],
                 .kernel_y = g_.kernel[1],
                 .kernel_x = g_.kernel[2],
                 .dilate_y = g_.dilate[1],
                 .dilate_x = g_.dilate[2],
                 .pad_y = g_.pad[1],
                 .pad_x = g_.pad[2]};
      moves_planes_ = tensor_internal::MovesPlanes(planes_);
    }
    // Lines of fewer elements than a few packets are better moved with their whole plane.
    one_channel_ = g_.groups > 1 && g_.channels == 1 && g_.filters <= 4 &&
                   !(moves_planes_ && g_.image[2] < 32);
  }

  /// Returns how the products of Correlate take packed weights (LeftPacking); 0 if they do not.
  int WeightPacking() const {
    const bool is_empty = g_.batch * g_.groups * g_.filters * positions_ * rows_ == 0;
    if (!std::is_same_v<A, float> || !direct_ || one_channel_ || is_empty) return 0;
    const Tiling tiling = PositionTiling();
    if (PacksFromImages(tiling, RowsOfBlock(tiling.LargestSize()))) {
      return tensor_internal::LeftPacking(g_.filters, image_product_.SharedImages() * positions_,
                                          rows_);
    }
    return pointwise_ ? tensor_internal::LeftPacking(g_.filters, positions_, rows_) : 0;
  }

  void Correlate(const void* image, const void* weight, const void* bias, bool add, void* result,
                 const void* packed_weight, const Epilogue* epilogue) const {
    if (g_.batch * g_.groups * g_.filters * positions_ == 0) return;
    const PackedWeights packed = {static_cast<const float*>(packed_weight),
                                  packed_weight == nullptr ? 0 : WeightPacking()};
    if (one_channel_) return CorrelateChannels(image, weight, bias, add, result, epilogue);
    const Tiling tiling = PositionTiling();
    const index_t block = RowsOfBlock(tiling.LargestSize());
    if constexpr (std::is_same_v<A, float>) {
      if (PacksFromImages(tiling, block)) {
        return image_product_.Correlate(static_cast<const A*>(image), static_cast<const A*>(weight),
                                        static_cast<const A*>(bias), add, static_cast<A*>(result),
                                        packed, epilogue, memory_);
      }
    }
    // 16-bit images are converted once for all their tiles.
    const index_t parts = direct_ ? tiling.count : 1;
    const index_t tasks = g_.batch * g_.groups * parts;
    Slots slots(tasks, g_.filters * rows_ * positions_ / parts, memory_->threads);
    WorkspaceArrays<A> arrays;
    const index_t weights_at = ReserveConverted(g_.groups * g_.filters * rows_, &arrays);
    const index_t slot_size = arrays.Reserve(0);
    WorkspaceArrays<A> slot;
    const index_t columns_at = slot.Reserve(pointwise_ ? 0 : block * tiling.LargestSize());
    const index_t image_at = ReserveConverted(g_.channels * image_size_, &slot);
    const index_t tile_at = ReserveConverted(g_.filters * tiling.LargestSize(), &slot);
    const index_t scratch = slot.Reserve(0);
    slots.Limit(scratch * static_cast<index_t>(sizeof(A)));
    arrays.Reserve(slots.count * scratch);
    if (!arrays.Allocate(memory_)) return;
    const A* const weights =
        In(weight).Read(0, g_.groups * g_.filters * rows_, arrays.At(weights_at));
    const std::vector<A> biases = Biases(bias, g_.groups * g_.filters);
    slots.Run([&](index_t s, index_t task) {
      A* const space = arrays.At(slot_size + s * scratch);
      const index_t n_g = task / parts, first = task % parts * (tiling.count / parts);
      const index_t group = n_g % g_.groups;
      const A* const planes = In(image).Read(n_g * g_.channels * image_size_,
                                             g_.channels * image_size_, space + image_at);
      const index_t out_at = n_g * g_.filters * positions_;
      for (index_t t = first; t < first + tiling.count / parts; ++t) {
        const PositionTile tile = tiling[t];
        const index_t size = tile.size(), begin = windows_.Begin(tile);
        A* const out = direct_ ? static_cast<A*>(result) + out_at + begin : space + tile_at;
        const index_t out_stride = direct_ ? positions_ : size;
        const ResultRows<A> results = {
            .data = out,
            .stride = out_stride,
            .bias = bias == nullptr ? nullptr : biases.data() + group * g_.filters,
            .first = out_at + begin,
            .epilogue = direct_ ? epilogue : nullptr};
        index_t row = 0;
        do {  // once even if there is no channel
          const index_t end = pointwise_ ? rows_ : std::min(rows_, row + block);
          const A* columns = planes + row * image_size_ + begin;
          if (!pointwise_) {
            Unpack(planes, row, end, tile, space + columns_at);
            columns = space + columns_at;
          }
          const tensor_internal::GemmArguments<A> product = {
              .transpose_a = false,
              .transpose_b = false,
              .m = g_.filters,
              .n = size,
              .k = end - row,
              .alpha = 1,
              .a = weights + group * g_.filters * rows_ + row,
              .lda = std::max<index_t>(1, rows_),
              .b = columns,
              .ldb = pointwise_ ? positions_ : size,
              .beta = static_cast<A>(row > 0 || (direct_ && add) ? 1 : 0),
              .c = out,
              .ldc = out_stride};
          if constexpr (std::is_same_v<A, float>) {
            const tensor_internal::ProductEnd then =
                end == rows_ ? results.End() : tensor_internal::ProductEnd{};
            // The product of a packed group has all rows.
            if (packed.data == nullptr) {
              Gemm(product, then);
            } else {
              GemmPackedLeft(product, OfGroup(packed, g_, group), then);
            }
          } else {
            Gemm(product);
            if (end == rows_) results.Finish(0, g_.filters, 0, size);
          }
          row = end;
        } while (row < rows_);
        if (direct_) continue;
        for (index_t f = 0; f < g_.filters; ++f) {
          const index_t at = out_at + f * positions_ + begin;
          Out(result, add).Write(at, size, out + f * size);
          if (epilogue != nullptr) epilogue->Run({.first = at, .run = size});
        }
      }
    });
  }

  void Spread(const void* result, const void* weight, const void* bias, bool add,
              void* image) const {
    if (g_.batch * g_.groups * g_.channels * image_size_ == 0) return;
    // A task takes a block of channels, whose planes no other task writes.
    const index_t per_channel = std::max<index_t>(1, taps_ * positions_);
    const index_t block = std::clamp<index_t>(
        std::max(kPreferredTileBytes / kSize / per_channel, kMinTile / taps_), 1, g_.channels);
    const index_t blocks = (g_.channels + block - 1) / block;
    const index_t parts = direct_ && !one_channel_ ? blocks : 1;
    Slots slots(g_.batch * g_.groups * parts, g_.filters * rows_ * positions_ / parts,
                memory_->threads);
    const Tiling tiling(g_.positions,
                        std::max(kMinTile, 4 * kPreferredTileBytes / kSize / (block * taps_)));
    const index_t unpacked_rows = std::min(block * taps_, RowsOfBlock(tiling.LargestSize()));
    WorkspaceArrays<A> arrays;
    const index_t weights_at = ReserveConverted(g_.groups * g_.filters * rows_, &arrays);
    const index_t slots_at = arrays.Reserve(0);
    WorkspaceArrays<A> slot;
    const index_t columns_at =
        slot.Reserve(pointwise_ || one_channel_ ? 0 : unpacked_rows * tiling.LargestSize());
    const index_t result_at = ReserveConverted(g_.filters * positions_, &slot);
    const index_t planes_at = ReserveConverted(block * image_size_, &slot);
    const index_t scratch = slot.Reserve(0);
    slots.Limit(scratch * static_cast<index_t>(sizeof(A)));
    arrays.Reserve(slots.count * scratch);
    if (!arrays.Allocate(memory_)) return;
    const A* const weights =
        In(weight).Read(0, g_.groups * g_.filters * rows_, arrays.At(weights_at));
    const std::vector<A> biases = Biases(bias, g_.groups * g_.channels);
    slots.Run([&](index_t s, index_t task) {
      A* const space = arrays.At(slots_at + s * scratch);
      const index_t n_g = task / parts, group = n_g % g_.groups;
      const A* const out = In(result).Read(n_g * g_.filters * positions_, g_.filters * positions_,
                                           space + result_at);
      const A* const w = weights + group * g_.filters * rows_;
      const index_t first = task % parts * (blocks / parts);
      for (index_t b = first; b < first + blocks / parts; ++b) {
        const index_t c_begin = b * block, c_end = std::min(g_.channels, c_begin + block);
        const index_t image_at = (n_g * g_.channels + c_begin) * image_size_;
        A* const planes = direct_ ? static_cast<A*>(image) + image_at : space + planes_at;
        const bool overwrite = !direct_ || !add;
        if (one_channel_) {
          if (overwrite) std::fill_n(planes, image_size_, A(0));
          SpreadChannel(out, w, planes);
        } else if (pointwise_) {
          Transposed(w + c_begin, c_end - c_begin, out, positions_, overwrite ? 0 : 1, planes);
        } else {
          SpreadBlock(out, w, c_begin, c_end, tiling, unpacked_rows, overwrite, space + columns_at,
                      planes);
        }
        for (index_t c = c_begin; c < c_end; ++c) {
          A* const plane = planes + (c - c_begin) * image_size_;
          if (bias != nullptr) AddTo(image_size_, biases[At(group * g_.channels + c)], plane);
        }
        if (!direct_) {
          Out(image, add).Write(image_at, (c_end - c_begin) * image_size_, planes);
        }
      }
    });
  }

  void WeightGradient(const void* image, const void* result, bool add, void* grad) const {
    if (one_channel_) return WeightGradientOfChannels(image, result, add, grad);
    // Eight images justify a sum of their own, and sixteen sums keep sixteen cores busy. The number
    // depends on the shapes alone, so that the sums' order does.
    const index_t weights = g_.groups * rows_ * g_.filters;
    const index_t chunks =
        std::min(std::clamp<index_t>(g_.batch / 8, 1, 16),
                 std::max<index_t>(1, kMaxSumBytes / kSize / std::max<index_t>(1, weights)));
    const Tiling tiling = PositionTiling();
    const index_t block = RowsOfBlock(tiling.LargestSize());
    WorkspaceArrays<A> arrays;
    const index_t sums_at = arrays.Reserve(chunks * weights);
    const index_t slots_at = arrays.Reserve(0);
    WorkspaceArrays<A> slot;
    const index_t columns_at = slot.Reserve(pointwise_ ? 0 : block * tiling.LargestSize());
    const index_t image_at = ReserveConverted(g_.channels * image_size_, &slot);
    const index_t result_at = ReserveConverted(g_.filters * positions_, &slot);
    const index_t scratch = slot.Reserve(0);
    arrays.Reserve(chunks * scratch);
    if (!arrays.Allocate(memory_)) return;
    A* const sums = arrays.At(sums_at);
    const index_t tiles = positions_ == 0 ? 0 : tiling.count;
    ParallelFor(chunks, 1, [&](index_t chunk_begin, index_t chunk_end) {
      for (index_t chunk = chunk_begin; chunk < chunk_end; ++chunk) {
        A* const space = arrays.At(slots_at + chunk * scratch);
        A* const chunk_sums = sums + chunk * weights;
        const index_t first = chunk * g_.batch / chunks, last = (chunk + 1) * g_.batch / chunks;
        if (first == last || tiles == 0) std::fill_n(chunk_sums, weights, A(0));
        for (index_t n_g = first * g_.groups; n_g < last * g_.groups; ++n_g) {
          const A* const planes = In(image).Read(n_g * g_.channels * image_size_,
                                                 g_.channels * image_size_, space + image_at);
          const A* const out = In(result).Read(n_g * g_.filters * positions_,
                                               g_.filters * positions_, space + result_at);
          A* const sum = chunk_sums + n_g % g_.groups * rows_ * g_.filters;
          for (index_t t = 0; t < tiles; ++t) {
            const PositionTile tile = tiling[t];
            const index_t step = pointwise_ ? rows_ : block;
            for (index_t row = 0; row < rows_; row += step) {
              const index_t end = std::min(rows_, row + step);
              const A* columns = planes + row * image_size_ + windows_.Begin(tile);
              if (!pointwise_) {
                Unpack(planes, row, end, tile, space + columns_at);
                columns = space + columns_at;
              }
              // The sums are transposed, so that the product reads the large columns in their
              // storage order.
              Gemm({.transpose_a = false,
                    .transpose_b = true,
                    .m = end - row,
                    .n = g_.filters,
                    .k = tile.size(),
                    .alpha = 1,
                    .a = columns,
                    .lda = pointwise_ ? positions_ : tile.size(),
                    .b = out + windows_.Begin(tile),
                    .ldb = positions_,
                    .beta = static_cast<A>(n_g >= (first + 1) * g_.groups || t > 0 ? 1 : 0),
                    .c = sum + row * g_.filters,
                    .ldc = g_.filters});
            }
          }
        }
      }
    });
    StoreSums(sums, chunks, add, grad);
  }

  void UnpackImages(const void* image, bool add, void* columns) const {
    const index_t rows = g_.batch * g_.groups * rows_;
    const RowReader<A> in = In(image);
    const RowWriter<A> to = Out(columns, add);
    ParallelFor(rows, StepsPerTask(positions_), [&](index_t begin, index_t end) {
      std::vector<A> converted(At(direct_ ? 0 : image_size_)),
          line(At(to.is_direct() ? 0 : positions_));
      const A* plane = nullptr;
      for (index_t row = begin; row < end; ++row) {
        const index_t tap = row % taps_;
        if (row == begin || tap == 0) {
          plane = in.Read(row / taps_ * image_size_, image_size_, converted.data());
        }
        A* const out = to.Out(row * positions_, line.data());
        windows_.UnpackRow(plane, windows_.TapOffset(tap), windows_.AllPositions(), out);
        to.Write(row * positions_, positions_, out);
      }
    });
  }

  void PackImages(const void* columns, bool add, void* image) const {
    const index_t planes = g_.batch * g_.groups * g_.channels;
    ParallelFor(planes, StepsPerTask(taps_ * positions_), [&](index_t begin, index_t end) {
      std::vector<A> converted(At(direct_ ? 0 : positions_)), plane(At(image_size_));
      for (index_t p = begin; p < end; ++p) {
        std::fill(plane.begin(), plane.end(), A(0));
        for (index_t tap = 0; tap < taps_; ++tap) {
          const A* const row =
              In(columns).Read((p * taps_ + tap) * positions_, positions_, converted.data());
          windows_.PackRow(row, windows_.TapOffset(tap), windows_.AllPositions(), plane.data());
        }
        Out(image, add).Write(p * image_size_, image_size_, plane.data());
      }
    });
  }

 private:
  static constexpr index_t kSize = sizeof(A);
  RowReader<A> In(const void* data) const { return {data, dtype_}; }
  RowWriter<A> Out(void* data, bool add) const { return {data, dtype_, add ? kAddTo : kWriteTo}; }
  /// Reserves memory for what must be converted.
  index_t ReserveConverted(index_t size, WorkspaceArrays<A>* arrays) const {
    return arrays->Reserve(direct_ ? 0 : size);
  }
  std::vector<A> Biases(const void* bias, index_t n) const {
    std::vector<A> values(bias == nullptr ? 0 : At(n));
    if (bias != nullptr) In(bias).Copy(0, n, values.data());
    return values;
  }

  Tiling PositionTiling() const {
    if (pointwise_ || positions_ == 0) {
      return Tiling(g_.positions, std::max<index_t>(1, positions_));
    }
    const index_t row_bytes = std::max<index_t>(1, rows_) * kSize;
    // Small planes that are moved whole are one tile.
    if (moves_planes_ && positions_ * row_bytes <= kMaxTileBytes) {
      return Tiling(g_.positions, positions_);
    }
    return Tiling(g_.positions, std::max(kMinTile, kPreferredTileBytes / row_bytes));
  }
  /// Returns the number of unpacked rows that a tile of `size` positions may have.
  index_t RowsOfBlock(index_t size) const {
    return std::clamp<index_t>(kMaxTileBytes / kSize / std::max<index_t>(1, size), 1,
                               std::max<index_t>(1, rows_));
  }
  /// Writes rows [begin, end) of the unpacked image, each a channel's tap, at a tile's positions.
  void Unpack(const A* planes, index_t begin, index_t end, const PositionTile& tile,
              A* columns) const {
    const index_t size = tile.size();
    ParallelFor(end - begin, StepsPerTask(size), [&](index_t first, index_t last) {
      if constexpr (std::is_same_v<A, float>) {
        if (moves_planes_ && begin == 0 && size == positions_) {
          tensor_internal::UnpackPlanes(planes_, planes, first, last, columns, size);
          return;
        }
      }
      for (index_t i = first; i < last; ++i) {
        const index_t row = begin + i;
        windows_.UnpackRow(planes + row / taps_ * image_size_, windows_.TapOffset(row % taps_),
                           tile, columns + i * size);
      }
    });
  }

  /// Computes rows of W^T out: c = beta * c + the product.
  void Transposed(const A* w, index_t rows, const A* out, index_t n, A beta, A* c) const {
    Gemm({.transpose_a = true,
          .transpose_b = false,
          .m = rows,
          .n = n,
          .k = g_.filters,
          .alpha = 1,
          .a = w,
          .lda = std::max<index_t>(1, rows_),
          .b = out,
          .ldb = positions_,
          .beta = beta,
          .c = c,
          .ldc = n});
  }

  /// Computes or adds to the planes of channels [c_begin, c_end).
  void SpreadBlock(const A* out, const A* w, index_t c_begin, index_t c_end, const Tiling& tiling,
                   index_t block, bool overwrite, A* columns, A* planes) const {
    const index_t begin = c_begin * taps_, end = c_end * taps_;
    if constexpr (std::is_same_v<A, float>) {
      if (moves_planes_ && overwrite && tiling.count == 1 && block >= end - begin) {
        Transposed(w + begin, end - begin, out, positions_, 0, columns);
        ParallelFor(
            c_end - c_begin, StepsPerTask(taps_ * positions_), [&](index_t first, index_t last) {
              tensor_internal::PackPlanes(planes_, columns, positions_, first, last, planes);
            });
        return;
      }
    }
    if (overwrite) std::fill_n(planes, (c_end - c_begin) * image_size_, A(0));
    if (positions_ == 0) return;
    for (index_t t = 0; t < tiling.count; ++t) {
      const PositionTile tile = tiling[t];
      const index_t size = tile.size();
      for (index_t row = begin; row < end; row += block) {
        const index_t row_end = std::min(end, row + block);
        Transposed(w + row, row_end - row, out + windows_.Begin(tile), size, 0, columns);
        // A channel's rows are added in their order by one thread.
        const index_t first_channel = row / taps_, last_channel = (row_end - 1) / taps_ + 1;
        ParallelFor(last_channel - first_channel, StepsPerTask(taps_ * size),
                    [&](index_t first, index_t last) {
                      const index_t from = std::max(row, (first_channel + first) * taps_);
                      const index_t to = std::min(row_end, (first_channel + last) * taps_);
                      for (index_t r = from; r < to; ++r) {
                        windows_.PackRow(columns + (r - row) * size, windows_.TapOffset(r % taps_),
                                         tile, planes + (r / taps_ - c_begin) * image_size_);
                      }
                    });
      }
    }
  }

  /// Returns whether Correlate needs no memory for columns, or has images share a product. Its
  /// products then sum in the same order as those of the tiles, which have all rows and enough
  /// columns.
  bool PacksFromImages(const Tiling& tiling, index_t block) const {
    return direct_ && (pointwise_ ? image_product_.SharedImages() > 1 : rows_ <= block) &&
           tiling[tiling.count - 1].size() >= kColumnsInOrder;
  }

  /// Correlate for groups of one channel: each tap adds the shifted image times its weight.
  void CorrelateChannels(const void* image, const void* weight, const void* bias, bool add,
                         void* result, const Epilogue* epilogue) const {
    Slots slots(g_.batch * g_.groups, 8 * g_.filters * taps_ * positions_, memory_->threads);
    WorkspaceArrays<A> arrays;
    const index_t weights = g_.groups * g_.filters * taps_;
    const index_t weights_at = ReserveConverted(weights, &arrays);
    const index_t slots_at = arrays.Reserve(0);
    WorkspaceArrays<A> slot;
    const index_t image_at = ReserveConverted(image_size_, &slot);
    const index_t result_at = ReserveConverted(g_.filters * positions_, &slot);
    const index_t scratch = slot.Reserve(0);
    slots.Limit(scratch * static_cast<index_t>(sizeof(A)));
    arrays.Reserve(slots.count * scratch);
    if (!arrays.Allocate(memory_)) return;
    const A* const w = In(weight).Read(0, weights, arrays.At(weights_at));
    const std::vector<A> biases = Biases(bias, g_.groups * g_.filters);
    slots.Run([&](index_t s, index_t n_g) {
      A* const space = arrays.At(slots_at + s * scratch);
      const index_t group = n_g % g_.groups, first = n_g * g_.filters * positions_;
      const A* const plane = In(image).Read(n_g * image_size_, image_size_, space + image_at);
      A* const out = direct_ ? static_cast<A*>(result) + first : space + result_at;
      for (index_t f = 0; f < g_.filters; ++f) {
        const A start = bias == nullptr ? A(0) : biases[At(group * g_.filters + f)];
        if (!direct_ || !add) {
          std::fill_n(out + f * positions_, positions_, start);
        } else if (bias != nullptr) {
          AddTo(positions_, start, out + f * positions_);
        }
        CorrelateChannel(plane, w + (group * g_.filters + f) * taps_, out + f * positions_);
        if (direct_ && epilogue != nullptr) {
          epilogue->Run({.first = first + f * positions_, .run = positions_});
        }
      }
      if (!direct_) {
        Out(result, add).Write(first, g_.filters * positions_, out);
        if (epilogue != nullptr) epilogue->Run({.first = first, .run = g_.filters * positions_});
      }
    });
  }

  void CorrelateChannel(const A* plane, const A* weights, A* out) const {
    RunLoop([=, this]() TESSERA_LOOP_BODY {
      const index_t stride = g_.stride[2];
      for (index_t tap = 0; tap < taps_; ++tap) {
        const A w = weights[tap];
        windows_.ForEachRun(windows_.TapOffset(tap), windows_.AllPositions(),
                            [=](index_t i, index_t o, index_t n) TESSERA_LOOP_BODY {
                              const A* const from = plane + i;
                              A* const to = out + o;
                              if (stride == 1) {
#pragma GCC ivdep
                                for (index_t k = 0; k < n; ++k) to[k] += w * from[k];
                              } else {
                                for (index_t k = 0; k < n; ++k) to[k] += w * from[k * stride];
                              }
                            });
      }
    });
  }

  void SpreadChannel(const A* out, const A* weights, A* plane) const {
    RunLoop([=, this]() TESSERA_LOOP_BODY {
      const index_t stride = g_.stride[2];
      for (index_t f_tap = 0; f_tap < g_.filters * taps_; ++f_tap) {
        const A w = weights[f_tap];
        const A* const of_filter = out + f_tap / taps_ * positions_;
        windows_.ForEachRun(windows_.TapOffset(f_tap % taps_), windows_.AllPositions(),
                            [=](index_t i, index_t o, index_t n) TESSERA_LOOP_BODY {
                              const A* const from = of_filter + o;
                              A* const to = plane + i;
                              if (stride == 1) {
#pragma GCC ivdep
                                for (index_t k = 0; k < n; ++k) to[k] += w * from[k];
                              } else {
                                for (index_t k = 0; k < n; ++k) to[k * stride] += w * from[k];
                              }
                            });
      }
    });
  }

  /// WeightGradient for groups of one channel: a task takes a group of all images.
  void WeightGradientOfChannels(const void* image, const void* result, bool add, void* grad) const {
    Slots slots(g_.groups, 8 * g_.batch * g_.filters * taps_ * positions_, memory_->threads);
    WorkspaceArrays<A> slot;
    const index_t image_at = ReserveConverted(image_size_, &slot);
    const index_t result_at = ReserveConverted(g_.filters * positions_, &slot);
    const index_t sums_at = slot.Reserve(g_.filters * taps_);
    const index_t scratch = slot.Reserve(0);
    WorkspaceArrays<A> arrays;
    slots.Limit(scratch * static_cast<index_t>(sizeof(A)));
    arrays.Reserve(slots.count * scratch);
    if (!arrays.Allocate(memory_)) return;
    slots.Run([&](index_t s, index_t group) {
      A* const space = arrays.At(s * scratch);
      A* const sums = space + sums_at;
      std::fill_n(sums, g_.filters * taps_, A(0));
      for (index_t n = 0; n < g_.batch; ++n) {
        const index_t n_g = n * g_.groups + group;
        const A* const plane = In(image).Read(n_g * image_size_, image_size_, space + image_at);
        const A* const out = In(result).Read(n_g * g_.filters * positions_, g_.filters * positions_,
                                             space + result_at);
        AddTapSums(plane, out, sums);
      }
      Out(grad, add).Write(group * g_.filters * taps_, g_.filters * taps_, sums);
    });
  }

  void AddTapSums(const A* plane, const A* out, A* sums) const {
    RunLoop([=, this]() TESSERA_LOOP_BODY {
      constexpr index_t kLanes = 16;
      const index_t stride = g_.stride[2];
      for (index_t f_tap = 0; f_tap < g_.filters * taps_; ++f_tap) {
        const A* const of_filter = out + f_tap / taps_ * positions_;
        A lanes[kLanes] = {};
        windows_.ForEachRun(windows_.TapOffset(f_tap % taps_), windows_.AllPositions(),
                            [&](index_t i, index_t o, index_t n) TESSERA_LOOP_BODY {
                              const A* const a = plane + i;
                              const A* const b = of_filter + o;
                              index_t k = 0;
                              if (stride == 1) {
                                for (; k + kLanes <= n; k += kLanes) {
                                  for (index_t j = 0; j < kLanes; ++j)
                                    lanes[j] += a[k + j] * b[k + j];
                                }
                              }
                              for (index_t j = 0; k < n; ++k, ++j) {
                                lanes[j % kLanes] += a[k * stride] * b[k];
                              }
                            });
        for (index_t half = kLanes / 2; half > 0; half /= 2) {
          for (index_t j = 0; j < half; ++j) lanes[j] += lanes[j + half];
        }
        sums[f_tap] += lanes[0];
      }
    });
  }

  /// Adds up the chunks' sums of (group, row, filter) and stores them as (group, filter, row).
  void StoreSums(const A* sums, index_t chunks, bool add, void* grad) const {
    const index_t filters = g_.filters, weights = g_.groups * rows_ * filters;
    if (weights == 0) return;
    constexpr index_t kBlock = 16;  // filters whose sums fill a cache line
    const index_t blocks = (filters + kBlock - 1) / kBlock;
    ParallelFor(g_.groups * blocks, StepsPerTask(kBlock * rows_ * chunks),
                [&](index_t begin, index_t end) {
                  std::vector<A> transposed(At(kBlock * rows_));
                  for (index_t b = begin; b < end; ++b) {
                    const index_t group = b / blocks, f_begin = b % blocks * kBlock;
                    const index_t count = std::min(kBlock, filters - f_begin);
                    for (index_t row = 0; row < rows_; ++row) {
                      A totals[kBlock] = {};
                      const A* from = sums + (group * rows_ + row) * filters + f_begin;
                      for (index_t chunk = 0; chunk < chunks; ++chunk, from += weights) {
                        for (index_t f = 0; f < count; ++f) totals[f] += from[f];
                      }
                      for (index_t f = 0; f < count; ++f)
                        transposed[At(f * rows_ + row)] = totals[f];
                    }
                    Out(grad, add).Write((group * filters + f_begin) * rows_, count * rows_,
                                         transposed.data());
                  }
                });
  }

  const ConvolutionGeometry& g_;
  const DType dtype_;
  const bool direct_;  ///< whether arrays hold elements of A
  ConvolutionMemory* const memory_;
  const UnpackedWindows<A> windows_;
  const ImageProduct image_product_;
  const index_t image_size_, positions_, taps_, rows_;
  bool pointwise_ = false;     ///< whether the unpacked image is the image itself
  bool one_channel_ = false;   ///< whether groups are so small that no product is worth unpacking
  bool moves_planes_ = false;  ///< whether the window moves over `planes_`
  PlaneWindow planes_{};
};

/// Returns a geometry with an empty batch if neither images nor results have elements, since there
/// may be many of them.
ConvolutionGeometry WithoutEmptyImages(ConvolutionGeometry geometry) {
  if (Volume(geometry.image) == 0 && Volume(geometry.positions) == 0) geometry.batch = 0;
  return geometry;
}

template <typename Body>
void WithProducts(const ConvolutionGeometry& geometry, DType dtype, ConvolutionMemory* memory,
                  const Body& body) {
  if (dtype == DType::kFloat64) {
    body(Products<double>(geometry, dtype, memory));
  } else {
    body(Products<float>(geometry, dtype, memory));
  }
}

}  // namespace

ConvolutionLoops::ConvolutionLoops(const ConvolutionGeometry& geometry, DType dtype)
    : geometry_(WithoutEmptyImages(geometry)), dtype_(dtype) {}

int64_t ConvolutionLoops::WorkspaceBytes(int threads, const std::function<void()>& products) {
  memory_ = {.measures = true, .threads = threads};
  products();
  return memory_.size_bytes;
}

void ConvolutionLoops::Run(Resource* workspace, const std::function<void()>& products) {
  const int64_t size_bytes = WorkspaceBytes(ParallelWidth(), products);
  memory_.measures = false;
  memory_.data = workspace->GetSpaceBytes(size_bytes);
  products();
}

void ConvolutionLoops::Correlate(const void* image, const void* weight, const void* bias,
                                 OpReqType req, void* result, const void* packed,
                                 const Epilogue* epilogue) {
  if (req == kNullOp) return;
  if (DepthwiseLoops::Support(geometry_, dtype_)) {
    if (memory_.measures) return;
    DepthwiseLoops(geometry_).Correlate(
        static_cast<const float*>(image), static_cast<const float*>(weight),
        static_cast<const float*>(bias), req == kAddTo, static_cast<float*>(result), epilogue);
    return;
  }
  WithProducts(geometry_, dtype_, &memory_, [&](const auto& products) {
    products.Correlate(image, weight, bias, req == kAddTo, result, packed, epilogue);
  });
}

PreparedForm ConvolutionLoops::WeightForm() const {
  if (dtype_ != DType::kFloat32 || DepthwiseLoops::Support(geometry_, dtype_)) return {};
  ConvolutionMemory memory;
  const int packing = Products<float>(geometry_, dtype_, &memory).WeightPacking();
  if (packing == 0) return {};
  const index_t groups = geometry_.groups, m = geometry_.filters;
  const index_t k = geometry_.channels * Volume(geometry_.kernel);
  const auto pack = [=](const OpContext&, const TBlob& weight, void* to) {
    for (index_t group = 0; group < groups; ++group) {
      const index_t at = group * m * k;
      tensor_internal::PackLeft(m, k, static_cast<const float*>(weight.dptr_) + at, k, packing,
                                static_cast<float*>(to) + at);
    }
  };
  return {.name = "left operands of " + std::to_string(groups) + " groups, packed for " +
                  std::to_string(packing),
          .size_bytes = groups * m * k * static_cast<index_t>(sizeof(float)),
          .make = pack};
}

void ConvolutionLoops::Spread(const void* result, const void* weight, const void* bias,
                              OpReqType req, void* image) {
  if (req == kNullOp) return;
  if (DepthwiseLoops::SupportSpread(geometry_, dtype_)) {
    const DepthwiseLoops loops(geometry_);
    WorkspaceArrays<float> arrays;
    const index_t transposed_at = arrays.Reserve(loops.TransposedWeights());
    if (!arrays.Allocate(&memory_)) return;
    loops.Spread(static_cast<const float*>(result), static_cast<const float*>(weight),
                 static_cast<const float*>(bias), req == kAddTo, arrays.At(transposed_at),
                 static_cast<float*>(image));
    return;
  }
  WithProducts(geometry_, dtype_, &memory_, [&](const auto& products) {
    products.Spread(result, weight, bias, req == kAddTo, image);
  });
}

void ConvolutionLoops::WeightGradient(const void* image, const void* result, OpReqType req,
                                      void* weight_grad) {
  if (req == kNullOp) return;
  if (DepthwiseLoops::Support(geometry_, dtype_)) {
    const DepthwiseLoops loops(geometry_);
    WorkspaceArrays<double> arrays;
    const index_t sums_at = arrays.Reserve(loops.SumsOfWeightGradient());
    if (!arrays.Allocate(&memory_)) return;
    loops.WeightGradient(static_cast<const float*>(image), static_cast<const float*>(result),
                         req == kAddTo, arrays.At(sums_at), static_cast<float*>(weight_grad));
    return;
  }
  WithProducts(geometry_, dtype_, &memory_, [&](const auto& products) {
    products.WeightGradient(image, result, req == kAddTo, weight_grad);
  });
}

void ConvolutionLoops::Unpack(const void* image, OpReqType req, void* columns) {
  if (req == kNullOp) return;
  WithProducts(geometry_, dtype_, &memory_,
               [&](const auto& products) { products.UnpackImages(image, req == kAddTo, columns); });
}

void ConvolutionLoops::Pack(const void* columns, OpReqType req, void* image) {
  if (req == kNullOp) return;
  WithProducts(geometry_, dtype_, &memory_,
               [&](const auto& products) { products.PackImages(columns, req == kAddTo, image); });
}

void SumByChannel(const TBlob& data, OpReqType req, const TBlob& sums) {
  if (req == kNullOp) return;
  const index_t channels = data.shape_[1];
  const index_t positions = data.shape_.ProdShape(2, data.shape_.ndim());
  const index_t batch = positions > 0 ? data.shape_[0] : 0;
  const DType dtype = data.type_flag_;
  ParallelFor(channels, StepsPerTask(batch * positions), [&](index_t begin, index_t end) {
    constexpr index_t kBlock = 1024;
    float block[kBlock];
    for (index_t c = begin; c < end; ++c) {
      double sum = 0;
      for (index_t n = 0; n < batch; ++n) {
        const index_t plane = (n * channels + c) * positions;
        if (dtype == DType::kFloat64) {
          const double* const x = static_cast<const double*>(data.dptr_) + plane;
          sum += SumOf<double>(positions, [=](index_t i) TESSERA_LOOP_BODY { return x[i]; });
        } else if (dtype == DType::kFloat32) {
          const float* const x = static_cast<const float*>(data.dptr_) + plane;
          sum += SumOf<float>(positions, [=](index_t i) TESSERA_LOOP_BODY { return x[i]; });
        } else {
          for (index_t first = 0; first < positions; first += kBlock) {
            const index_t count = std::min(kBlock, positions - first);
            const float* const x = RowReader<float>(data).Read(plane + first, count, block);
            sum += SumOf<float>(count, [=](index_t i) TESSERA_LOOP_BODY { return x[i]; });
          }
        }
      }
      RowWriter<double>(sums, req).Write(c, sum);
    }
  });
}

}  // namespace tessera::ops_internal
