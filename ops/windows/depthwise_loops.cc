#include "tessera/ops/windows/depthwise_loops.h"

#include <algorithm>

#include "tessera/ops/operator.h"
#include "tessera/ops/windows/window_parameters.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/nn/depthwise.h"

namespace tessera::ops_internal {
namespace {

/// Calls body(plane, begin, end), in parallel, for rows [begin, end) of planes that together are
/// all rows. A task takes whole planes if there are many of them, and some rows of one if there are
/// few large ones. `work` is that of a row, for StepsPerTask.
template <typename Body>
void ForEachRange(index_t planes, index_t rows, index_t work, const Body& body) {
  // The rows beside a cut are copied for both its sides.
  constexpr index_t kManyPlanes = 32;
  if (rows > 0 && planes >= kManyPlanes) {
    ParallelFor(planes, StepsPerTask(rows * work), [&](index_t begin, index_t end) {
      for (index_t plane = begin; plane < end; ++plane) body(plane, 0, rows);
    });
    return;
  }
  ParallelFor(planes * rows, StepsPerTask(work), [&](index_t begin, index_t end) {
    while (begin < end) {
      const index_t plane = begin / rows, first = begin % rows;
      const index_t last = std::min(rows, first + end - begin);
      body(plane, first, last);
      begin += last - first;
    }
  });
}

/// The most channels and the most filters of a group of several channels.
constexpr index_t kFewChannels = 16;

}  // namespace

bool DepthwiseLoops::Support(const ConvolutionGeometry& g, DType dtype) {
  const index_t kernel = g.kernel[2], stride = g.stride[2];
  const bool few = g.channels > 1 && g.channels <= kFewChannels && g.filters <= kFewChannels;
  return dtype == DType::kFloat32 && g.groups > 1 && (g.channels == 1 || few) && g.image[0] == 1 &&
         g.pad[0] == 0 && (kernel == 3 || kernel == 5) && (stride == 1 || stride == 2) &&
         g.kernel == WindowExtents{1, kernel, kernel} && g.stride[1] == stride &&
         g.dilate[1] == 1 && g.dilate[2] == 1;
}

bool DepthwiseLoops::SupportSpread(const ConvolutionGeometry& g, DType dtype) {
  return Support(g, dtype) && (g.channels == 1 || g.stride[2] == 1);
}

DepthwiseLoops::DepthwiseLoops(const ConvolutionGeometry& geometry)
    : g_(geometry),
      window_{.kernel = g_.kernel[2],
              .stride = g_.stride[2],
              .height = g_.image[1],
              .width = g_.image[2],
              .out_height = g_.positions[1],
              .out_width = g_.positions[2],
              .pad_y = g_.pad[1],
              .pad_x = g_.pad[2]},
      group_{.channels = g_.channels, .filters = g_.filters},
      image_size_(Volume(g_.image)),
      positions_(Volume(g_.positions)),
      taps_(Volume(g_.kernel)),
      filters_(g_.groups * g_.filters),
      weights_(filters_ * g_.channels * taps_) {
  // Few groups are divided into parts, which are enough for sixteen cores. Their number depends on
  // the shapes alone, so that the sums' order does.
  constexpr index_t kTasks = 16, kLeastWork = index_t{1} << 14;
  const index_t rows = g_.batch * g_.positions[1];
  const index_t work = rows * g_.filters * WorkOfRow(g_.positions[2]);
  parts_ = std::max<index_t>(1, std::min({kTasks / g_.groups, work / kLeastWork, rows}));
}

void DepthwiseLoops::Correlate(const float* image, const float* weight, const float* bias, bool add,
                               float* result, const Epilogue* epilogue) const {
  const index_t width = g_.positions[2];
  if (g_.channels > 1) {
    ForEachRange(g_.batch * g_.groups, g_.positions[1], g_.filters * WorkOfRow(width),
                 [&](index_t n_g, index_t begin, index_t end) {
                   const index_t filter = n_g % g_.groups * g_.filters;
                   tensor_internal::GroupCorrelate(
                       window_, group_, image + n_g * g_.channels * image_size_,
                       weight + filter * g_.channels * taps_,
                       bias == nullptr ? nullptr : bias + filter, add, begin, end,
                       result + n_g * g_.filters * positions_);
                   if (epilogue == nullptr) return;
                   epilogue->Run({.first = n_g * g_.filters * positions_ + begin * width,
                                  .run = (end - begin) * width,
                                  .count = g_.filters,
                                  .stride = positions_});
                 });
    return;
  }
  ForEachRange(
      g_.batch * filters_, g_.positions[1], WorkOfRow(g_.positions[2]),
      [&](index_t plane, index_t begin, index_t end) {
        const index_t filter = plane % filters_;
        tensor_internal::DepthwiseCorrelate(
            window_, image + plane / g_.filters * image_size_, weight + filter * taps_,
            bias == nullptr ? 0.0f : bias[filter], add, begin, end, result + plane * positions_);
        if (epilogue == nullptr) return;
        epilogue->Run({.first = plane * positions_ + begin * width, .run = (end - begin) * width});
      });
}

void DepthwiseLoops::Spread(const float* result, const float* weight, const float* bias, bool add,
                            float* transposed, float* image) const {
  if (g_.channels > 1) return SpreadGroups(result, weight, bias, add, transposed, image);
  ForEachRange(g_.batch * g_.groups, g_.image[1], g_.filters * WorkOfRow(g_.image[2]),
               [&](index_t plane, index_t begin, index_t end) {
                 const index_t channel = plane % g_.groups;
                 for (index_t f = 0; f < g_.filters; ++f) {
                   const float start = f > 0 || bias == nullptr ? 0.0f : bias[channel];
                   tensor_internal::DepthwiseSpread(
                       window_, result + (plane * g_.filters + f) * positions_,
                       weight + (channel * g_.filters + f) * taps_, start, add || f > 0, begin, end,
                       image + plane * image_size_);
                 }
               });
}

// The transpose for stride 1 is a convolution whose channels are the filters here, and whose
// filters have these channels' weights with taps in reverse order.
void DepthwiseLoops::SpreadGroups(const float* result, const float* weight, const float* bias,
                                  bool add, float* transposed, float* image) const {
  const index_t terms = g_.filters * taps_;
  ParallelFor(g_.groups * g_.channels, StepsPerTask(terms), [&](index_t begin, index_t end) {
    for (index_t i = begin; i < end; ++i) {
      const index_t group = i / g_.channels, channel = i % g_.channels;
      for (index_t f = 0; f < g_.filters; ++f) {
        const float* const from =
            weight + ((group * g_.filters + f) * g_.channels + channel) * taps_;
        std::reverse_copy(from, from + taps_, transposed + i * terms + f * taps_);
      }
    }
  });
  const tensor_internal::DepthwiseWindow window = {.kernel = window_.kernel,
                                                   .stride = 1,
                                                   .height = window_.out_height,
                                                   .width = window_.out_width,
                                                   .out_height = window_.height,
                                                   .out_width = window_.width,
                                                   .pad_y = window_.kernel - 1 - window_.pad_y,
                                                   .pad_x = window_.kernel - 1 - window_.pad_x};
  ForEachRange(g_.batch * g_.groups, g_.image[1], g_.filters * WorkOfRow(g_.image[2]),
               [&](index_t n_g, index_t begin, index_t end) {
                 const index_t channel = n_g % g_.groups * g_.channels;
                 tensor_internal::GroupCorrelate(
                     window, {.channels = g_.filters, .filters = g_.channels},
                     result + n_g * g_.filters * positions_, transposed + channel * terms,
                     bias == nullptr ? nullptr : bias + channel, add, begin, end,
                     image + n_g * g_.channels * image_size_);
               });
}

void DepthwiseLoops::WeightGradient(const float* image, const float* result, bool add, double* sums,
                                    float* weight_grad) const {
  const index_t rows = g_.batch * g_.positions[1];
  const index_t work = rows / parts_ * g_.filters * WorkOfRow(g_.positions[2]);
  ParallelFor(parts_ * g_.groups, StepsPerTask(work), [&](index_t begin, index_t end) {
    for (index_t task = begin; task < end; ++task) {
      const index_t part = task / g_.groups, group = task % g_.groups;
      const index_t row = part * rows / parts_, last = (part + 1) * rows / parts_;
      const tensor_internal::DepthwiseSamples samples = {
          .planes = image + group * g_.channels * image_size_,
          .plane_stride = g_.groups * g_.channels * image_size_,
          .outs = result + group * g_.filters * positions_,
          .out_stride = filters_ * positions_};
      double* const to = sums + part * weights_ + group * weights_ / g_.groups;
      if (g_.channels > 1) {
        tensor_internal::GroupWeightGradient(window_, group_, samples, row, last, to);
        continue;
      }
      for (index_t f = 0; f < g_.filters; ++f) {
        tensor_internal::DepthwiseSamples of_filter = samples;
        of_filter.outs += f * positions_;
        tensor_internal::DepthwiseWeightGradient(window_, of_filter, row, last, to + f * taps_);
      }
    }
  });
  for (index_t i = 0; i < weights_; ++i) {
    double sum = sums[i];
    for (index_t part = 1; part < parts_; ++part) sum += sums[part * weights_ + i];
    weight_grad[i] = static_cast<float>(add ? static_cast<double>(weight_grad[i]) + sum : sum);
  }
}

}  // namespace tessera::ops_internal
