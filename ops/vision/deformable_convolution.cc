// _contrib_DeformableConvolution: a convolution over images whose taps are moved, each at each
// position, by an offset.
//
//   out[n][f][p] = bias[f] + sum_{c,t} weight[f][c][t] * data[n][c](y, x)
//   (y, x) = p * stride + t * dilate - pad + offset[n][(g, t)][p],  between pixels by linear
//   interpolation, and 0 outside of the pixels' rows and columns
//
// The sum is over the channels of f's group and the kernel's taps. g is the channel's deformable
// group. Behind the last row or column, up to one pixel, a point has its value. Gradients: of data,
// the gradient of a tap times its pixel's weight; of offset, the sum over the channels of g of the
// gradient times the slope between the pixels; of weight and bias, as in Convolution. Shapes: data
// (n, channel, height, width); offset (n, groups * taps * 2, out_height, out_width), for each tap y
// then x; weight (num_filter, channel / num_group, kernel); bias (num_filter); out (n, num_filter,
// out_height, out_width). Types: float32, float64, float16, bfloat16; the last two are computed in
// float32. Runs on the CPU. Dai et al., Deformable Convolutional Networks, 2017, section 2.1.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/ops/elemwise/convert_row.h"
#include "tessera/ops/nn/convolution_loops.h"
#include "tessera/ops/nn/convolution_parameters.h"
#include "tessera/ops/nn/window_parameters.h"
#include "tessera/ops/norm/row_call.h"
#include "tessera/ops/norm/row_loop.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/vision/elements.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/linalg/gemm.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: windows and registration

struct DeformableConvolutionParameters {
  TShape kernel;
  TShape stride;
  TShape dilate;
  TShape pad;
  int64_t num_filter = 0;
  int64_t num_group = 1;
  int64_t num_deformable_group = 1;
  int64_t workspace = 1024;
  bool no_bias = false;
  std::string layout = "None";

  static void Declare(ParameterSchema<DeformableConvolutionParameters>& schema) {
    using P = DeformableConvolutionParameters;
    schema.Required("kernel", &P::kernel, "the window: (y, x)");
    schema.Optional("stride", &P::stride, "distance between windows; 1 if left out");
    schema.Optional("dilate", &P::dilate, "distance between a window's taps; 1 if left out");
    schema.Optional("pad", &P::pad, "zeros added on every side; 0 if left out");
    schema.Required("num_filter", &P::num_filter, "output channels");
    schema.Range(1, 1 << 24);
    schema.Optional("num_group", &P::num_group, "groups of channels that do not mix");
    schema.Range(1, 1 << 24);
    schema.Optional("num_deformable_group", &P::num_deformable_group,
                    "groups of channels with offsets of their own");
    schema.Range(1, 1 << 24);
    schema.Optional("workspace", &P::workspace, "accepted for old graphs; not used");
    schema.Optional("no_bias", &P::no_bias, "leave the bias out");
    schema.Optional("layout", &P::layout, "None or NCHW");
  }
};

class DeformableConvolutionProperty final
    : public ParameterizedProperty<DeformableConvolutionParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    if (param_.no_bias) return {"data", "offset", "weight"};
    return {"data", "offset", "weight", "bias"};
  }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &data = (*in_shape)[0], &offset = (*in_shape)[1], &out = (*out_shape)[0];
    constexpr index_t kUnknown = TShape::kUnknown;
    if (!param_.no_bias) MergeShape(*this, "bias", &(*in_shape)[3], {param_.num_filter});
    MergeShape(*this, "data", &data, TShape::OfRank(4));
    TShape weight = {param_.num_filter, kUnknown, param_.kernel[0], param_.kernel[1]};
    if (data[1] != kUnknown) {
      for (const int64_t groups : {param_.num_group, param_.num_deformable_group}) {
        if (data[1] % groups == 0) continue;
        throw InvalidArgument(TypeString(), ": data of shape ", data, " has ", data[1],
                              " channels, which ", groups, " groups do not divide");
      }
      weight[1] = data[1] / param_.num_group;
    }
    MergeShape(*this, "weight", &(*in_shape)[2], weight);
    const index_t offsets = ProductOfExtents(
        *this, "offset", {2, param_.num_deformable_group, param_.kernel[0], param_.kernel[1]}, 0,
        4);
    MergeShape(*this, "offset", &offset,
               {data[0], offsets, OutExtent(data, 2), OutExtent(data, 3)});
    MergeShape(*this, "output", &out, {offset[0], param_.num_filter, offset[2], offset[3]});
    MergeShape(*this, "offset", &offset, {out[0], offsets, out[2], out[3]});
    data[0] = out[0];
    return data.known() && (*in_shape)[2].known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[0], in_data[1], in_data[2]};
  }

 private:
  void CheckParameters() override {
    RequireKernelRank(TypeString(), param_.kernel);
    if (param_.kernel.ndim() != 2) {
      throw Unimplemented(TypeString(), ": parameter kernel=", param_.kernel, " has ",
                          param_.kernel.ndim(), " dimensions; two are implemented");
    }
    static_cast<void>(ConvolutionWindow(TypeString(), param_));
    if (param_.num_filter % param_.num_group != 0) {
      throw InvalidArgument(TypeString(), ": num_group=", param_.num_group,
                            " does not divide num_filter=", param_.num_filter);
    }
    RequireChannelsFirst(TypeString(), param_.layout, param_.kernel.ndim());
  }

  index_t OutExtent(const TShape& data, int axis) const {
    if (data[axis] == TShape::kUnknown) return TShape::kUnknown;
    const ConvolutionWindow w(TypeString(), param_);
    const size_t i = static_cast<size_t>(axis) - 1;
    const index_t extent =
        WindowPositions(TypeString(), data[axis], w.kernel[i], w.stride[i], w.dilate[i], w.pad[i]);
    if (extent == 0) {
      throw InvalidArgument(TypeString(), ": the kernel ", param_.kernel,
                            " does not fit data of shape ", data, " with pad=", param_.pad,
                            " and dilate=", param_.dilate);
    }
    return extent;
  }
};

/// The pixels around a moved tap: (upper, left), (upper, right), (lower, left), (lower, right).
template <typename T>
struct Point {
  index_t pixel[4];  ///< of the plane; -1 if the tap is outside
  T lower, right;    ///< the weights of the lower row and of the right column

  T Weight(int k) const { return (k < 2 ? 1 - lower : lower) * (k % 2 == 0 ? 1 - right : right); }
};

template <typename T>
Point<T> Locate(T y, T x, index_t height, index_t width) {
  const bool inside =
      y >= 0 && y < static_cast<T>(height) && x >= 0 && x < static_cast<T>(width);  // NaN is not
  if (!inside) return {{-1, -1, -1, -1}, 0, 0};
  const index_t top = static_cast<index_t>(y), left = static_cast<index_t>(x);
  const index_t bottom = std::min(top + 1, height - 1), next = std::min(left + 1, width - 1);
  return {{top * width + left, top * width + next, bottom * width + left, bottom * width + next},
          bottom == top ? T(0) : y - static_cast<T>(top),
          next == left ? T(0) : x - static_cast<T>(left)};
}

/// The extents of a call.
struct Geometry {
  Geometry(const DeformableConvolutionParameters& p, const TShape& data, const TShape& out)
      : window("_contrib_DeformableConvolution", p),
        batch(data[0]),
        channels(data[1]),
        height(data[2]),
        width(data[3]),
        filters(p.num_filter),
        groups(p.num_group),
        offset_groups(p.num_deformable_group),
        taps(Volume(window.kernel)),
        out_width(out[3]),
        positions(out[2] * out[3]) {}

  index_t PlaneSize() const { return height * width; }
  index_t Rows() const { return channels * taps; }           // of the columns
  index_t GroupRows() const { return Rows() / groups; }      // of a filter's weights
  index_t GroupFilters() const { return filters / groups; }  // of a group
  index_t OffsetGroup(index_t channel) const { return channel / (channels / offset_groups); }

  ConvolutionWindow window;
  index_t batch, channels, height, width;
  index_t filters, groups, offset_groups;
  index_t taps, out_width, positions;
};

/// The moved taps of one image, and its columns: the values at them, (channel, tap) x position.
template <typename T>
class MovedTaps {
 public:
  explicit MovedTaps(const Geometry& geometry)
      : g_(geometry), points_(static_cast<size_t>(g_.offset_groups * g_.taps * g_.positions)) {}

  /// Locates the taps of an image with these offsets.
  void Move(const T* offset) {
    ParallelFor(g_.offset_groups * g_.taps, StepsPerTask(g_.positions, kCost),
                [&](index_t begin, index_t end) {
                  for (index_t row = begin; row < end; ++row) MoveTap(offset, row);
                });
  }
  /// Returns the points of a channel's tap.
  const Point<T>* Points(index_t channel, index_t tap) const {
    return points_.data() + (g_.OffsetGroup(channel) * g_.taps + tap) * g_.positions;
  }

  void Unpack(const T* image, T* columns) const {
    ParallelFor(g_.Rows(), StepsPerTask(g_.positions, kCost), [&](index_t begin, index_t end) {
      for (index_t row = begin; row < end; ++row) {
        const T* const plane = image + row / g_.taps * g_.PlaneSize();
        const Point<T>* const points = Points(row / g_.taps, row % g_.taps);
        T* const to = columns + row * g_.positions;
        for (index_t p = 0; p < g_.positions; ++p) {
          to[p] = 0;
          if (points[p].pixel[0] < 0) continue;
          for (int k = 0; k < 4; ++k) to[p] += points[p].Weight(k) * plane[points[p].pixel[k]];
        }
      }
    });
  }

  /// Computes the image's gradient from that of the columns.
  void ImageGradient(const T* columns, index_t sample, OpReqType req, const TBlob& grad) const {
    if (req == kNullOp) return;
    ParallelFor(g_.channels, StepsPerTask(g_.taps * g_.positions, kCost),
                [&](index_t begin, index_t end) {
                  std::vector<T> plane(static_cast<size_t>(g_.PlaneSize()));
                  for (index_t c = begin; c < end; ++c) {
                    std::fill(plane.begin(), plane.end(), T(0));
                    AddChannel(columns, c, plane.data());
                    StoreRow(plane.data(), g_.PlaneSize(), req == kAddTo, grad.type_flag_,
                             ElementAt(grad, (sample * g_.channels + c) * g_.PlaneSize()));
                  }
                });
  }

  /// Computes the offsets' gradient from the image and the columns' gradient.
  void OffsetGradient(const T* image, const T* columns, index_t sample, OpReqType req,
                      const TBlob& grad) const {
    if (req == kNullOp) return;
    const index_t rows = g_.offset_groups * g_.taps;
    ParallelFor(rows, StepsPerTask(g_.channels / g_.offset_groups * g_.positions, kCost),
                [&](index_t begin, index_t end) {
                  std::vector<T> sums(static_cast<size_t>(2 * g_.positions));
                  for (index_t row = begin; row < end; ++row) {
                    std::fill(sums.begin(), sums.end(), T(0));
                    AddSlopes(image, columns, row, sums.data());
                    StoreRow(sums.data(), 2 * g_.positions, req == kAddTo, grad.type_flag_,
                             ElementAt(grad, (sample * rows + row) * 2 * g_.positions));
                  }
                });
  }

 private:
  static constexpr index_t kCost = 8;

  void MoveTap(const T* offset, index_t row) {
    const ConvolutionWindow& w = g_.window;
    const index_t tap = row % g_.taps;
    const index_t tap_y = tap / w.kernel[2] * w.dilate[1] - w.pad[1];
    const index_t tap_x = tap % w.kernel[2] * w.dilate[2] - w.pad[2];
    const T* const of_y = offset + 2 * row * g_.positions;
    const T* const of_x = of_y + g_.positions;
    Point<T>* const points = points_.data() + row * g_.positions;
    for (index_t p = 0; p < g_.positions; ++p) {
      const T y = static_cast<T>(p / g_.out_width * w.stride[1] + tap_y) + of_y[p];
      const T x = static_cast<T>(p % g_.out_width * w.stride[2] + tap_x) + of_x[p];
      points[p] = Locate(y, x, g_.height, g_.width);
    }
  }

  void AddChannel(const T* columns, index_t c, T* plane) const {
    for (index_t tap = 0; tap < g_.taps; ++tap) {
      const Point<T>* const points = Points(c, tap);
      const T* const from = columns + (c * g_.taps + tap) * g_.positions;
      for (index_t p = 0; p < g_.positions; ++p) {
        if (points[p].pixel[0] < 0) continue;
        for (int k = 0; k < 4; ++k) plane[points[p].pixel[k]] += points[p].Weight(k) * from[p];
      }
    }
  }

  /// Adds the gradients of the offsets of tap `row`, all y and then all x.
  void AddSlopes(const T* image, const T* columns, index_t row, T* sums) const {
    const index_t channels = g_.channels / g_.offset_groups, group = row / g_.taps;
    const Point<T>* const points = points_.data() + row * g_.positions;
    for (index_t c = group * channels; c < (group + 1) * channels; ++c) {
      const T* const plane = image + c * g_.PlaneSize();
      const T* const from = columns + (c * g_.taps + row % g_.taps) * g_.positions;
      for (index_t p = 0; p < g_.positions; ++p) {
        const Point<T>& point = points[p];
        if (point.pixel[0] < 0) continue;
        const T upper_left = plane[point.pixel[0]], upper_right = plane[point.pixel[1]];
        const T lower_left = plane[point.pixel[2]], lower_right = plane[point.pixel[3]];
        sums[p] += from[p] * ((1 - point.right) * (lower_left - upper_left) +
                              point.right * (lower_right - upper_right));
        sums[g_.positions + p] += from[p] * ((1 - point.lower) * (upper_right - upper_left) +
                                             point.lower * (lower_right - lower_left));
      }
    }
  }

  const Geometry& g_;
  std::vector<Point<T>> points_;
};

class DeformableConvolutionOperator final : public Operator {
 public:
  explicit DeformableConvolutionOperator(const DeformableConvolutionParameters& param)
      : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp || out_data[0].shape_.Size() == 0) return;
    VisitComputedIn(ComputedInReal(out_data[0].type_flag_),
                    [&](auto one) { Convolve<decltype(one)>(in_data, req[0], out_data[0]); });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (!param_.no_bias) SumByChannel(out_grad[0], req[3], in_grad[3]);
    if (in_data[0].shape_.Size() == 0 || in_data[1].shape_.Size() == 0) {
      for (size_t i = 0; i < 3; ++i) StoreZeros(req[i], in_grad[i]);
      return;
    }
    VisitComputedIn(ComputedInReal(out_grad[0].type_flag_), [&](auto one) {
      Gradients<decltype(one)>(out_grad[0], in_data, req, in_grad);
    });
  }

 private:
  static size_t At(index_t i) { return static_cast<size_t>(i); }

  template <typename T>
  void Convolve(std::span<const TBlob> in_data, OpReqType req, const TBlob& out) const {
    const TShape& shape = in_data[0].shape_;
    const Geometry g(param_, shape, out.shape_);
    const Elements<T> data(in_data[0]), offset(in_data[1]), weight(in_data[2]);
    std::vector<T> biases(At(g.filters), T(0));
    if (!param_.no_bias) {
      LoadRow(in_data[3].dptr_, in_data[3].type_flag_, 1, g.filters, biases.data());
    }
    const bool empty = shape.Size() == 0;
    MovedTaps<T> taps(g);
    std::vector<T> columns(At(empty ? 0 : g.Rows() * g.positions)),
        sums(At(g.filters * g.positions));
    for (index_t n = 0; n < g.batch; ++n) {
      for (index_t f = 0; f < g.filters; ++f) {
        std::fill_n(sums.data() + f * g.positions, g.positions, biases[At(f)]);
      }
      if (!empty) {
        taps.Move(offset.data() + n * 2 * g.offset_groups * g.taps * g.positions);
        taps.Unpack(data.data() + n * g.channels * g.PlaneSize(), columns.data());
        for (index_t group = 0; group < g.groups; ++group) {
          tensor_internal::Gemm({.transpose_a = false,
                                 .transpose_b = false,
                                 .m = g.GroupFilters(),
                                 .n = g.positions,
                                 .k = g.GroupRows(),
                                 .alpha = 1,
                                 .a = weight.data() + group * g.GroupFilters() * g.GroupRows(),
                                 .lda = g.GroupRows(),
                                 .b = columns.data() + group * g.GroupRows() * g.positions,
                                 .ldb = g.positions,
                                 .beta = 1,
                                 .c = sums.data() + group * g.GroupFilters() * g.positions,
                                 .ldc = g.positions});
        }
      }
      StoreRow(sums.data(), g.filters * g.positions, req == kAddTo, out.type_flag_,
               ElementAt(out, n * g.filters * g.positions));
    }
  }

  template <typename T>
  void Gradients(const TBlob& out_grad, std::span<const TBlob> in_data,
                 std::span<const OpReqType> req, std::span<const TBlob> in_grad) const {
    const Geometry g(param_, in_data[0].shape_, out_grad.shape_);
    const Elements<T> data(in_data[0]), offset(in_data[1]), weight(in_data[2]), head(out_grad);
    MovedTaps<T> taps(g);
    std::vector<T> columns(At(g.Rows() * g.positions));
    std::vector<T> of_weight(At(g.filters * g.GroupRows()), T(0));
    for (index_t n = 0; n < g.batch; ++n) {
      const T* const image = data.data() + n * g.channels * g.PlaneSize();
      const T* const of_out = head.data() + n * g.filters * g.positions;
      taps.Move(offset.data() + n * 2 * g.offset_groups * g.taps * g.positions);
      if (req[2] != kNullOp) {
        taps.Unpack(image, columns.data());
        AddWeightGradient(g, of_out, columns.data(), of_weight.data());
      }
      if (req[0] == kNullOp && req[1] == kNullOp) continue;
      ColumnGradient(g, weight.data(), of_out, columns.data());
      taps.ImageGradient(columns.data(), n, req[0], in_grad[0]);
      taps.OffsetGradient(image, columns.data(), n, req[1], in_grad[1]);
    }
    if (req[2] == kNullOp) return;
    StoreRow(of_weight.data(), g.filters * g.GroupRows(), req[2] == kAddTo, in_grad[2].type_flag_,
             in_grad[2].dptr_);
  }

  template <typename T>
  static void AddWeightGradient(const Geometry& g, const T* of_out, const T* columns, T* sums) {
    for (index_t group = 0; group < g.groups; ++group) {
      tensor_internal::Gemm({.transpose_a = false,
                             .transpose_b = true,
                             .m = g.GroupFilters(),
                             .n = g.GroupRows(),
                             .k = g.positions,
                             .alpha = 1,
                             .a = of_out + group * g.GroupFilters() * g.positions,
                             .lda = g.positions,
                             .b = columns + group * g.GroupRows() * g.positions,
                             .ldb = g.positions,
                             .beta = 1,
                             .c = sums + group * g.GroupFilters() * g.GroupRows(),
                             .ldc = g.GroupRows()});
    }
  }

  template <typename T>
  static void ColumnGradient(const Geometry& g, const T* weight, const T* of_out, T* columns) {
    for (index_t group = 0; group < g.groups; ++group) {
      tensor_internal::Gemm({.transpose_a = true,
                             .transpose_b = false,
                             .m = g.GroupRows(),
                             .n = g.positions,
                             .k = g.GroupFilters(),
                             .alpha = 1,
                             .a = weight + group * g.GroupFilters() * g.GroupRows(),
                             .lda = g.GroupRows(),
                             .b = of_out + group * g.GroupFilters() * g.positions,
                             .ldb = g.positions,
                             .beta = 0,
                             .c = columns + group * g.GroupRows() * g.positions,
                             .ldc = g.positions});
    }
  }

  const DeformableConvolutionParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<DeformableConvolutionProperty, DeformableConvolutionOperator>(
        TESSERA_TABLE_PLACE, "_contrib_DeformableConvolution",
        "A convolution whose taps are moved by offsets.");

}  // namespace
}  // namespace tessera
