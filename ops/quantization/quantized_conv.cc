// _contrib_quantized_conv: Convolution of codes (codes.h) over one to three dimensions, NCW, NCHW
// or NCDHW.
//
//   out[n][f][o] = bias[f] + sum_{c,t} weight[f][c][t] * data[n][c][o * stride + t * dilate - pad]
//
// An output is an int32 code worth Rd / 127 * Rw / 127, where Rd and Rw are the ranges' magnitudes,
// for data of uint8 too: min_output and max_output are the numbers of -2^31 and 2^31 - 1. The bias
// is converted to such codes if data are int8. For uint8 its codes are added unchanged, as MXNet's
// package for CPUs does. Sums of products wrap around; the bias is added with saturation. Shapes:
// those of Convolution; ranges (1,). Types: data int8 or uint8; weight and bias int8; out int32;
// ranges float32. Gradient 0. Runs on the CPU.
#include <algorithm>
#include <vector>

#include "tessera/ops/quantization/codes.h"
#include "tessera/ops/quantization/quantized_property.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/windows/convolution_parameters.h"
#include "tessera/ops/windows/window_parameters.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: windows, codes and registration

class QuantizedConvProperty final : public QuantizedProductProperty<ConvolutionParameters> {
  std::unique_ptr<OperatorProperty> CreateBase() const override {
    return OperatorRegistry::Get().Create("Convolution", GetParams());
  }
  void CheckParameters() override {
    QuantizedProductProperty::CheckParameters();
    RequireChannelsFirst(TypeString(), param_.layout, param_.kernel.ndim());
  }
};

/// One axis of a window: output o reads data's element o * stride + first.
struct Axis {
  index_t stride, first;
  index_t begin, end;  ///< the outputs that read an element of the image
};

/// The sums of one call.
class Correlation {
 public:
  Correlation(const ConvolutionParameters& param, const TShape& data, const TShape& out)
      : window_("_contrib_quantized_conv", param),
        image_(SpatialExtents(data)),
        positions_(SpatialExtents(out)),
        channels_(data[1] / param.num_group),
        filters_(param.num_filter / param.num_group) {}

  /// Adds the sum of filter f, of all filters, over one image's channels to `sums`.
  template <typename T>
  void AddFilter(const T* image, const int8_t* weights, index_t f, int32_t* sums) const {
    const index_t taps = Volume(window_.kernel), first = f / filters_ * channels_;
    for (index_t c = 0; c < channels_; ++c) {
      const T* const channel = image + (first + c) * Volume(image_);
      const int8_t* const kernel = weights + (f * channels_ + c) * taps;
      for (index_t tap = 0; tap < taps; ++tap) AddTap(channel, kernel[tap], tap, sums);
    }
  }

 private:
  /// Adds weight * the elements that a tap of the kernel reads.
  template <typename T>
  void AddTap(const T* channel, int32_t weight, index_t tap, int32_t* sums) const {
    const Axis z = AxisOf(0, tap / (window_.kernel[1] * window_.kernel[2]));
    const Axis y = AxisOf(1, tap / window_.kernel[2] % window_.kernel[1]);
    const Axis x = AxisOf(2, tap % window_.kernel[2]);
    for (index_t i = z.begin; i < z.end; ++i) {
      for (index_t j = y.begin; j < y.end; ++j) {
        const T* const row =
            channel + ((i * z.stride + z.first) * image_[1] + j * y.stride + y.first) * image_[2];
        int32_t* const to = sums + (i * positions_[1] + j) * positions_[2];
        for (index_t k = x.begin; k < x.end; ++k) to[k] += weight * row[k * x.stride + x.first];
      }
    }
  }

  /// Returns the outputs along an axis that a tap of the kernel serves.
  Axis AxisOf(size_t axis, index_t tap) const {
    const index_t stride = window_.stride[axis];
    const index_t first = tap * window_.dilate[axis] - window_.pad[axis];
    const auto outputs_below = [&](index_t element) {
      const index_t distance = element - first;
      return distance <= 0 ? 0 : std::min((distance - 1) / stride + 1, positions_[axis]);
    };
    return {stride, first, outputs_below(0), outputs_below(image_[axis])};
  }

  const ConvolutionWindow window_;
  const WindowExtents image_, positions_;
  const index_t channels_, filters_;  // of a group
};

class QuantizedConvOperator final : public Operator {
 public:
  explicit QuantizedConvOperator(const ConvolutionParameters& param) : param_(param) {}
  bool AcceptsAddTo() const override { return false; }

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    const ProductInputs in(in_data, param_.no_bias);
    if (req[0] != kNullOp) Convolve(in, out_data[0]);
    StoreRangeOfInt32(in.DataRange() / 127 * (in.WeightRange() / 127), req, out_data);
  }

 private:
  void Convolve(const ProductInputs& in, const TBlob& out) const {
    const Correlation correlation(param_, in.data.shape_, out.shape_);
    const auto* const weights = static_cast<const int8_t*>(in.weight.dptr_);
    auto* const sums = static_cast<int32_t*>(out.dptr_);
    const std::vector<int32_t> bias = Bias(in);
    const index_t batch = in.data.shape_[0], filters = param_.num_filter;
    if (out.shape_.Size() == 0) return;
    const index_t plane = out.shape_.Size() / (batch * filters);
    const index_t image = in.data.shape_.Size() / batch;
    VisitCodes(in.data.type_flag_, [&](auto code) {
      const auto* const data = static_cast<const decltype(code)*>(in.data.dptr_);
      const index_t work = plane * (in.weight.shape_.Size() / filters);
      ParallelFor(batch * filters, StepsPerTask(work), [&](index_t begin, index_t end) {
        for (index_t i = begin; i < end; ++i) {
          int32_t* const to = sums + i * plane;
          std::fill_n(to, plane, 0);
          correlation.AddFilter(data + i / filters * image, weights, i % filters, to);
          if (bias.empty()) continue;
          const int32_t b = bias[static_cast<size_t>(i % filters)];
          for (index_t k = 0; k < plane; ++k) to[k] = SaturatedSum(to[k], b);
        }
      });
    });
  }

  std::vector<int32_t> Bias(const ProductInputs& in) const {
    if (in.bias == nullptr) return {};
    return in.data.type_flag_ == DType::kUint8 ? ScaledCodes(*in.bias, 1) : in.Bias();
  }

  const ConvolutionParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<QuantizedConvProperty, QuantizedConvOperator>(
        TESSERA_TABLE_PLACE, "_contrib_quantized_conv", "Convolution of integers of 8 bits.",
        TakenTypes::kAny);

}  // namespace
}  // namespace tessera
