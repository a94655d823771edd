// Convolution over one to three dimensions, NCW, NCHW or NCDHW.
//
//   out[n][f][o] = bias[f] + sum_{c,t} weight[f][c][t] * data[n][c][o * stride + t * dilate - pad]
//
// The sum is over the channels of f's group and the kernel's taps (convolution_loops.h: products of
// matrices over unpacked patches). Gradients: of data, the transpose of this sum; of weight, the
// sum of gradient times data over images and positions; of bias, the gradient's sum.
//
// "winograd" is another implementation of the sum, for float32 on the CPU (winograd_loops.h). The
// setting TESSERA_CONVOLUTION=exact leaves it out.
//
// Shapes: data (n, channel, position…); weight (num_filter, channel / num_group, kernel…); bias
// (num_filter); out (n, num_filter, position…). With the layouts NWC, NHWC and NDHWC, the second
// axis of all but bias is the last one; they are transposed (channels_last.h).
// Types: float32, float64, float16, bfloat16; the last two are computed in float32. A GPU has one
// and two dimensions, and channels first.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/quote.h"
#include "tessera/ops/register_operator.h"
#include "tessera/ops/windows/channels_last.h"
#include "tessera/ops/windows/convolution_parameters.h"
#include "tessera/ops/windows/convolution_property.h"
#include "tessera/ops/windows/window_parameters.h"
#if defined(TESSERA_XPU_GPU)
#include "tessera/ops/nn/convolution_gpu.h"
#else
#include "tessera/base/environment.h"
#include "tessera/base/error.h"
#include "tessera/ops/registry.h"
#include "tessera/ops/windows/convolution_loops.h"
#include "tessera/ops/windows/winograd_loops.h"
#endif

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: windows and parameters

class ConvolutionProperty final : public ConvolutionPropertyOf<ConvolutionParameters> {
 private:
  bool InferChannelsFirst(std::vector<TShape>* in_shape,
                          std::vector<TShape>* out_shape) const override {
    const int rank = param_.kernel.ndim() + 2;
    TShape& data = (*in_shape)[0];
    if (!param_.no_bias) MergeShape(*this, "bias", &(*in_shape)[2], {param_.num_filter});
    MergeDataRank(TypeString(), param_.kernel, &data);
    TShape weight = TShape::OfRank(rank);
    weight[0] = param_.num_filter;
    for (int i = 2; i < rank; ++i) weight[i] = param_.kernel[i - 2];
    RequireGroups(data);
    if (data[1] != TShape::kUnknown) weight[1] = data[1] / param_.num_group;
    MergeShape(*this, "weight", &(*in_shape)[1], weight);
    TShape out = TShape::OfRank(rank);
    out[0] = data[0];
    out[1] = param_.num_filter;
    const ConvolutionWindow w(TypeString(), param_);
    for (int i = 2; i < rank; ++i) {
      if (data[i] == TShape::kUnknown) continue;
      const size_t axis = static_cast<size_t>(3 - rank + i);
      out[i] = WindowPositions(TypeString(), data[i], w.kernel[axis], w.stride[axis],
                               w.dilate[axis], w.pad[axis]);
      if (out[i] == 0) {
        throw InvalidArgument(TypeString(), ": the kernel ", param_.kernel,
                              " does not fit data of shape ", data, " with pad=", param_.pad,
                              " and dilate=", param_.dilate);
      }
    }
    MergeShape(*this, "output", &(*out_shape)[0], out);
    data[0] = (*out_shape)[0][0];
    for (int i = 2; i < rank; ++i) {
      if (data[i] == TShape::kUnknown) data[i] = ExtentOf(w, i, (*out_shape)[0]);
    }
    return data.known();
  }

  /// Returns the extent of data's axis `i`, which the number of positions tells if the stride is 1.
  index_t ExtentOf(const ConvolutionWindow& w, int i, const TShape& out) const {
    const size_t axis = static_cast<size_t>(3 - out.ndim() + i);
    if (out[i] == TShape::kUnknown || w.stride[axis] != 1) return TShape::kUnknown;
    const index_t extent = out[i] + (w.kernel[axis] - 1) * w.dilate[axis] - 2 * w.pad[axis];
    if (extent < 0) {
      throw InvalidArgument(TypeString(), ": no data gives an output of shape ", out,
                            " with kernel=", param_.kernel, ", pad=", param_.pad,
                            " and dilate=", param_.dilate);
    }
    return extent;
  }

  void CheckParameters() override {
    ConvolutionPropertyOf::CheckParameters();
    static_cast<void>(ConvolutionWindow(TypeString(), param_));
  }
};

#if !defined(TESSERA_XPU_GPU)

/// Returns the extents of a convolution of data of that shape.
ConvolutionGeometry GeometryOf(const ConvolutionParameters& param, const TShape& data) {
  const ConvolutionWindow w("Convolution", param);
  ConvolutionGeometry g = {.batch = data[0],
                           .groups = param.num_group,
                           .channels = data[1] / param.num_group,
                           .filters = param.num_filter / param.num_group,
                           .image = SpatialExtents(data),
                           .kernel = w.kernel,
                           .stride = w.stride,
                           .dilate = w.dilate,
                           .pad = w.pad};
  for (size_t i = 0; i < g.positions.size(); ++i) {
    g.positions[i] =
        WindowPositions("Convolution", g.image[i], g.kernel[i], g.stride[i], g.dilate[i], g.pad[i]);
  }
  return g;
}

class ConvolutionOnCpu : public Operator {
 public:
  explicit ConvolutionOnCpu(const ConvolutionParameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    ConvolutionLoops loops(GeometryOf(param_, in_data[0].shape_), out_data[0].type_flag_);
    const void* const packed = context.prepared_input(1);
    loops.Run(context.requested[0],
              [&] { Compute(in_data, packed, req, out_data, context.epilogue, &loops); });
  }
  bool RunsEpilogue() const override { return true; }
  std::optional<int64_t> ForwardWorkspaceBytes(int threads, std::span<const TBlob> in_data,
                                               std::span<const OpReqType> req,
                                               std::span<const TBlob> out_data) const override {
    ConvolutionLoops loops(GeometryOf(param_, in_data[0].shape_), out_data[0].type_flag_);
    return loops.WorkspaceBytes(threads,
                                [&] { Compute(in_data, nullptr, req, out_data, nullptr, &loops); });
  }

  PreparedForm InputForm(int input, Device, std::span<const TShape> in_shape,
                         std::span<const DType> in_type) const override {
    if (input != 1) return {};
    return ConvolutionLoops(GeometryOf(param_, in_shape[0]), in_type[0]).WeightForm();
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    ConvolutionLoops loops(GeometryOf(param_, in_data[0].shape_), out_grad[0].type_flag_);
    loops.Run(context.requested[0],
              [&] { ComputeGradients(out_grad, in_data, req, in_grad, &loops); });
    if (!param_.no_bias) SumByChannel(out_grad[0], req[2], in_grad[2]);
  }
  std::optional<int64_t> BackwardWorkspaceBytes(int threads, std::span<const TBlob> out_grad,
                                                std::span<const TBlob> in_data,
                                                std::span<const TBlob>,
                                                std::span<const OpReqType> req,
                                                std::span<const TBlob> in_grad) const override {
    ConvolutionLoops loops(GeometryOf(param_, in_data[0].shape_), out_grad[0].type_flag_);
    return loops.WorkspaceBytes(threads,
                                [&] { ComputeGradients(out_grad, in_data, req, in_grad, &loops); });
  }

 protected:
  const ConvolutionParameters param_;

 private:
  void Compute(std::span<const TBlob> in_data, const void* packed, std::span<const OpReqType> req,
               std::span<const TBlob> out_data, const Epilogue* epilogue,
               ConvolutionLoops* loops) const {
    loops->Correlate(in_data[0].dptr_, in_data[1].dptr_,
                     param_.no_bias ? nullptr : in_data[2].dptr_, req[0], out_data[0].dptr_, packed,
                     epilogue);
  }
  static void ComputeGradients(std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                               std::span<const OpReqType> req, std::span<const TBlob> in_grad,
                               ConvolutionLoops* loops) {
    loops->WeightGradient(in_data[0].dptr_, out_grad[0].dptr_, req[1], in_grad[1].dptr_);
    loops->Spread(out_grad[0].dptr_, in_data[1].dptr_, nullptr, req[0], in_grad[0].dptr_);
  }
};

/// One class serves all element types.
template <typename, typename>
class ConvolutionOp final : public ConvolutionOnCpu {
 public:
  using ConvolutionOnCpu::ConvolutionOnCpu;

  static std::unique_ptr<Operator> Make(const ConvolutionProperty& property,
                                        std::span<const TShape> in_shape,
                                        std::span<const DType> in_type) {
    if (IsChannelsLast(property.param().layout)) {
      return MakeChannelsLast(property, 2, in_shape, in_type);
    }
    return std::make_unique<ConvolutionOp>(property.param());
  }
};

/// Forward by Winograd's convolutions, with the weights' terms as their prepared form. Backward is
/// that of "native".
class WinogradConvolution final : public ConvolutionOnCpu {
 public:
  using ConvolutionOnCpu::ConvolutionOnCpu;

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    const ConvolutionGeometry geometry = GeometryOf(param_, in_data[0].shape_);
    const WinogradLoops loops(geometry, WinogradLoops::BestTile(geometry));
    auto* transformed = static_cast<const float*>(context.prepared_input(1));
    const index_t own = transformed == nullptr ? loops.TransformedSize() : 0;
    const index_t size = own + loops.WorkspaceSize();
    float* const space = static_cast<float*>(
        context.requested[0]->GetSpaceBytes(size * static_cast<index_t>(sizeof(float))));
    if (transformed == nullptr) {
      loops.TransformWeights(static_cast<const float*>(in_data[1].dptr_), space);
      transformed = space;
    }
    loops.Correlate(static_cast<const float*>(in_data[0].dptr_), transformed,
                    param_.no_bias ? nullptr : static_cast<const float*>(in_data[2].dptr_),
                    req[0] == kAddTo, space + own, static_cast<float*>(out_data[0].dptr_),
                    context.epilogue);
  }

  std::optional<int64_t> ForwardWorkspaceBytes(int threads, std::span<const TBlob> in_data,
                                               std::span<const OpReqType>,
                                               std::span<const TBlob>) const override {
    const ConvolutionGeometry geometry = GeometryOf(param_, in_data[0].shape_);
    const index_t tile = WinogradLoops::BestTile(geometry);
    // Of fewer threads, each may have matrices of its own.
    index_t most = 0;
    for (int i = 1; i <= threads; ++i) {
      most = std::max(most, WinogradLoops(geometry, tile, i).WorkspaceSize());
    }
    most += WinogradLoops(geometry, tile).TransformedSize();
    return most * static_cast<int64_t>(sizeof(float));
  }

  PreparedForm InputForm(int input, Device, std::span<const TShape> in_shape,
                         std::span<const DType>) const override {
    if (input != 1) return {};
    const ConvolutionGeometry geometry = GeometryOf(param_, in_shape[0]);
    const index_t tile = WinogradLoops::BestTile(geometry);
    return {
        .name = "Winograd's terms for tiles of " + std::to_string(tile),
        .size_bytes =
            WinogradLoops(geometry, tile).TransformedSize() * static_cast<index_t>(sizeof(float)),
        .make = [geometry, tile](const OpContext&, const TBlob& weight, void* to) {
          WinogradLoops(geometry, tile)
              .TransformWeights(static_cast<const float*>(weight.dptr_), static_cast<float*>(to));
        }};
  }
};

/// Returns whether the setting leaves Winograd's convolutions out. It is read once.
bool ExactConvolution() {
  static const bool exact = [] {
    const std::string text = EnvironmentString("TESSERA_CONVOLUTION", "fast");
    if (text != "fast" && text != "exact") {
      throw InvalidArgument("environment variable TESSERA_CONVOLUTION=\"", Excerpt(text),
                            "\": expected fast or exact");
    }
    return text == "exact";
  }();
  return exact;
}

std::string RefusalOfWinograd(const OperatorProperty& property, std::span<const TShape> in_shape,
                              std::span<const DType> in_type) {
  if (ExactConvolution()) return "the setting TESSERA_CONVOLUTION is exact";
  const auto& param = static_cast<const ConvolutionProperty&>(property).param();
  if (IsChannelsLast(param.layout)) return "layout is " + param.layout;
  return WinogradLoops::Refusal(GeometryOf(param, in_shape[0]), in_type[0]);
}

[[maybe_unused]] const bool kWinograd = OperatorRegistry::Get().AddImplementation(
    "Convolution",
    {.device = DeviceType::kCpu,
     .name = "winograd",
     .rank = 1,
     .refusal = RefusalOfWinograd,
     .create = [](const OperatorProperty& property, std::span<const TShape>,
                  std::span<const DType>) -> std::unique_ptr<Operator> {
       return std::make_unique<WinogradConvolution>(
           static_cast<const ConvolutionProperty&>(property).param());
     }},
    __FILE__, __LINE__);

#endif  // !TESSERA_XPU_GPU

TESSERA_REGISTER_OPERATOR(Convolution, ConvolutionProperty, ConvolutionOp)
    .Alias("Convolution_v1")
    .Describe("Convolution over one to three dimensions.");

}  // namespace
}  // namespace tessera
