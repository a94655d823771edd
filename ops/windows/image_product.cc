#include "tessera/ops/windows/image_product.h"

#include <algorithm>

#include "tessera/ops/windows/result_rows.h"
#include "tessera/ops/windows/window_parameters.h"
#include "tessera/ops/windows/workspace_slots.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera::ops_internal {
namespace {

/// Images of fewer positions share a product of about that many columns, whose results take no more
/// than that many elements.
constexpr index_t kFewPositions = 128;
constexpr index_t kSharedColumns = 256;
constexpr index_t kSharedResults = index_t{1} << 17;

}  // namespace

PackedWeights OfGroup(const PackedWeights& packed, const ConvolutionGeometry& geometry,
                      index_t group) {
  const index_t size = geometry.filters * geometry.channels * Volume(geometry.kernel);
  return {packed.data + group * size, packed.vectors};
}

/// The unpacked images of a group, side by side.
struct ImageProduct::ImageColumns {
  const ImageProduct* product;
  const float* image;  ///< the group's planes of the first image

  /// Writes some rows and columns, for products that pack them.
  static void Write(const void* context, index_t row, index_t rows, index_t column, index_t columns,
                    float* to, index_t stride) {
    const ImageColumns& all = *static_cast<const ImageColumns*>(context);
    const ImageProduct& p = *all.product;
    const index_t image_stride = p.g_.groups * p.g_.channels * p.image_size_;
    const WindowExtents& kernel = p.g_.kernel;
    const index_t end = column + columns;
    const float* plane = all.image + row / p.taps_ * p.image_size_;
    WindowExtents tap = p.windows_.TapAt(row % p.taps_);
    for (index_t i = 0; i < rows; ++i) {
      for (index_t at = column; at < end;) {
        const index_t n = at / p.positions_, first = at - n * p.positions_;
        const index_t last = std::min(p.positions_, first + end - at);
        p.windows_.UnpackRange(plane + n * image_stride, p.windows_.OffsetOf(tap), first, last,
                               to + i * stride + at - column);
        at += last - first;
      }
      if (++tap[2] < kernel[2]) continue;
      tap[2] = 0;
      if (++tap[1] < kernel[1]) continue;
      tap[1] = 0;
      if (++tap[0] < kernel[0]) continue;
      tap[0] = 0;
      plane += p.image_size_;
    }
  }
};

ImageProduct::ImageProduct(const ConvolutionGeometry& geometry)
    : g_(geometry),
      windows_(geometry),
      image_size_(Volume(g_.image)),
      positions_(Volume(g_.positions)),
      taps_(Volume(g_.kernel)),
      rows_(g_.channels * taps_) {}

index_t ImageProduct::SharedImages() const {
  if (positions_ >= kFewPositions) return 1;
  const index_t most = std::min((kSharedColumns + positions_ - 1) / positions_,
                                kSharedResults / (g_.filters * positions_));
  return std::clamp<index_t>(most, 1, g_.batch);
}

void ImageProduct::Correlate(const float* image, const float* weight, const float* bias, bool add,
                             float* result, const PackedWeights& packed, const Epilogue* epilogue,
                             ConvolutionMemory* memory) const {
  const index_t shared = SharedImages();
  const index_t chunks = (g_.batch + shared - 1) / shared, tasks = chunks * g_.groups;
  Slots slots(tasks, g_.filters * rows_ * shared * positions_, memory->threads);
  // Large products use all threads themselves, one after the other.
  if (tensor_internal::ProductsPerTask(g_.filters, shared * positions_, rows_, tasks) >= tasks) {
    slots.count = 1;
  }
  WorkspaceArrays<float> slot;
  slot.Reserve(shared > 1 ? g_.filters * shared * positions_ : 0);
  const index_t scratch = slot.Reserve(0);
  WorkspaceArrays<float> arrays;
  arrays.Reserve(slots.count * scratch);
  if (!arrays.Allocate(memory)) return;
  slots.Run([&](index_t s, index_t task) {
    const index_t chunk = task / g_.groups, group = task % g_.groups;
    const index_t first = chunk * g_.batch / chunks, last = (chunk + 1) * g_.batch / chunks;
    const index_t first_plane = first * g_.groups + group, images = last - first;
    const ImageColumns columns = {this, image + first_plane * g_.channels * image_size_};
    // The results of several images are computed side by side, and moved then.
    const index_t out_at = first_plane * g_.filters * positions_;
    const index_t out_stride = g_.groups * g_.filters * positions_;  // from image to image
    float* const out = result + out_at;
    float* const shared_out = images > 1 ? arrays.At(s * scratch) : out;
    const float* const biases = bias == nullptr ? nullptr : bias + group * g_.filters;
    const auto for_each_filter = [&](const auto& body) {
      ParallelFor(g_.filters, StepsPerTask(images * positions_), [&](index_t begin, index_t end) {
        for (index_t f = begin; f < end; ++f) {
          body(f, out + f * positions_, shared_out + f * images * positions_);
        }
      });
    };
    if (images > 1 && add) {
      for_each_filter([&](index_t, const float* from, float* to) {
        for (index_t n = 0; n < images; ++n) {
          std::copy_n(from + n * out_stride, positions_, to + n * positions_);
        }
      });
    }
    const tensor_internal::GemmArguments<float> product = {.transpose_a = false,
                                                           .transpose_b = false,
                                                           .m = g_.filters,
                                                           .n = images * positions_,
                                                           .k = rows_,
                                                           .alpha = 1,
                                                           .a = weight + group * g_.filters * rows_,
                                                           .lda = std::max<index_t>(1, rows_),
                                                           .b = nullptr,
                                                           .ldb = 0,
                                                           .beta = static_cast<float>(add ? 1 : 0),
                                                           .c = shared_out,
                                                           .ldc = images * positions_};
    const ResultRows<float> rows = {
        .data = out, .stride = positions_, .bias = biases, .first = out_at, .epilogue = epilogue};
    const tensor_internal::ProductEnd end =
        images == 1 ? rows.End() : tensor_internal::ProductEnd{};
    if (packed.data == nullptr) {
      Gemm(product, {ImageColumns::Write, &columns}, end);
    } else {
      GemmPackedLeft(product, OfGroup(packed, g_, group), {ImageColumns::Write, &columns}, end);
    }
    if (images == 1) return;
    for_each_filter([&](index_t f, float* to, const float* from) {
      for (index_t n = 0; n < images; ++n) {
        float* const plane = to + n * out_stride;
        std::copy_n(from + n * positions_, positions_, plane);
        if (biases != nullptr) AddTo(positions_, biases[f], plane);
      }
      if (epilogue == nullptr) return;
      epilogue->Run({.first = out_at + f * positions_,
                     .run = positions_,
                     .count = images,
                     .stride = out_stride});
    });
  });
}

}  // namespace tessera::ops_internal
