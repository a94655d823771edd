// Deconvolution, the transpose of a convolution, over one to three dimensions.
//
//   out[n][f][i] = bias[f] + the sum over the channels c of f's group, positions p and taps t with
//                  p * stride + t * dilate - pad = i of weight[c][f][t] * data[n][c][p]
//
// Along an axis of h elements the output has (h - 1) * stride + dilate * (kernel - 1) + 1 - 2 pad +
// adj elements. A target_shape takes the place of pad and adj: what is too many is left out, the
// larger half in front. Gradients: of data, the convolution of the gradient with weight; of weight,
// the sum of data times gradient over images and positions; of bias, the gradient's sum.
//
// Shapes: data (n, channel, position…); weight (channel, num_filter / num_group, kernel…); bias
// (num_filter), left out by default; out (n, num_filter, position…). Layouts NCW, NCHW, NCDHW. With
// NWC, NHWC and NDHWC, the second axis of all but bias is the last one; they are transposed
// (channels_last.h).
// Types: float32, float64, float16, bfloat16; the last two are computed in float32. Runs on the
// CPU.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/ops/typed_operator.h"
#include "tessera/ops/windows/channels_last.h"
#include "tessera/ops/windows/convolution_loops.h"
#include "tessera/ops/windows/convolution_parameters.h"
#include "tessera/ops/windows/convolution_property.h"
#include "tessera/ops/windows/window_parameters.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: windows and registration

struct DeconvolutionParameters : ConvolutionParameters {
  TShape adj;
  TShape target_shape;

  DeconvolutionParameters() {
    workspace = 512;
    no_bias = true;
  }
  static void Declare(ParameterSchema<DeconvolutionParameters>& schema) {
    using P = DeconvolutionParameters;
    DeclareShared(schema);
    schema.Optional("adj", &P::adj, "elements added at the end of each axis; 0 if left out");
    schema.Optional("target_shape", &P::target_shape,
                    "the output's spatial extents, instead of pad and adj");
  }

  /// Returns whether target_shape is given: zeros mean that it is not.
  bool HasTarget() const {
    for (const index_t extent : target_shape) {
      if (extent != 0) return true;
    }
    return false;
  }
};

/// The window, the output's extents and the padding for given data. Unknown extents stay unknown.
struct DeconvolutionWindow : ConvolutionWindow {
  /// Throws Error(kInvalidArgument) if the output would have no element.
  DeconvolutionWindow(std::string_view op, const DeconvolutionParameters& p, const TShape& data)
      : ConvolutionWindow(op, p) {
    const WindowExtents adj = ReadWindow(op, "adj", p.adj, p.kernel, 0, 0);
    const WindowExtents target = ReadWindow(op, "target_shape", p.target_shape, p.kernel, 0, 0);
    const WindowExtents in = SpatialExtents(data);
    for (size_t i = 0; i < 3; ++i) {
      const bool absent = i < static_cast<size_t>(3 - p.kernel.ndim());
      if (absent) {
        out[i] = 1;
        continue;
      }
      if (in[i] == TShape::kUnknown) {
        out[i] = p.HasTarget() ? target[i] : TShape::kUnknown;
        continue;
      }
      const index_t window = (kernel[i] - 1) * dilate[i] + 1;
      if (in[i] >= (index_t{1} << 62) / stride[i] - window) {
        throw InvalidArgument(op, ": data of shape ", data, " gives an output of 2^62 elements or ",
                              "more along one axis");
      }
      const index_t whole = in[i] == 0 ? 0 : (in[i] - 1) * stride[i] + window;
      if (p.HasTarget()) {
        out[i] = target[i];
        if (out[i] > whole) {
          throw InvalidArgument(op, ": target_shape=", p.target_shape, " is larger than the ",
                                whole, " elements that data of shape ", data, " gives");
        }
        pad[i] = (whole - out[i] + 1) / 2;
      } else {
        out[i] = in[i] == 0 ? 0 : whole - 2 * pad[i] + adj[i];
      }
      if (out[i] < 1 && in[i] > 0) {
        throw InvalidArgument(op, ": data of shape ", data, " with kernel=", p.kernel,
                              " and pad=", p.pad, " gives no output along an axis");
      }
    }
  }

  WindowExtents out{};
};

class DeconvolutionProperty final : public ConvolutionPropertyOf<DeconvolutionParameters> {
 private:
  bool InferChannelsFirst(std::vector<TShape>* in_shape,
                          std::vector<TShape>* out_shape) const override {
    const int rank = param_.kernel.ndim() + 2;
    TShape& data = (*in_shape)[0];
    if (!param_.no_bias) MergeShape(*this, "bias", &(*in_shape)[2], {param_.num_filter});
    MergeDataRank(TypeString(), param_.kernel, &data);
    TShape weight = TShape::OfRank(rank);
    weight[0] = data[1];
    weight[1] = param_.num_filter / param_.num_group;
    for (int i = 2; i < rank; ++i) weight[i] = param_.kernel[i - 2];
    MergeShape(*this, "weight", &(*in_shape)[1], weight);
    data[1] = (*in_shape)[1][0];
    RequireGroups(data);
    const DeconvolutionWindow w(TypeString(), param_, data);
    TShape out = TShape::OfRank(rank);
    out[0] = data[0];
    out[1] = param_.num_filter;
    for (int i = 2; i < rank; ++i) out[i] = w.out[static_cast<size_t>(3 - rank + i)];
    MergeShape(*this, "output", &(*out_shape)[0], out);
    data[0] = (*out_shape)[0][0];
    return data.known();
  }

  void CheckParameters() override {
    ConvolutionPropertyOf::CheckParameters();
    const DeconvolutionWindow w(TypeString(), param_, TShape::OfRank(param_.kernel.ndim() + 2));
    for (int i = 0; i < param_.adj.ndim() && !param_.HasTarget(); ++i) {
      const index_t stride = w.stride[static_cast<size_t>(3 - param_.kernel.ndim() + i)];
      if (param_.adj[i] >= stride) {
        throw InvalidArgument(TypeString(), ": parameter adj=", param_.adj,
                              " must be smaller than stride=", param_.stride);
      }
    }
  }
};

class DeconvolutionOperator final : public Operator {
 public:
  explicit DeconvolutionOperator(const DeconvolutionParameters& param) : param_(param) {}

  static std::unique_ptr<Operator> Make(const DeconvolutionProperty& property,
                                        std::span<const TShape> in_shape,
                                        std::span<const DType> in_type) {
    if (IsChannelsLast(property.param().layout)) {
      return MakeChannelsLast(property, 2, in_shape, in_type);
    }
    return std::make_unique<DeconvolutionOperator>(property.param());
  }

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    ConvolutionLoops loops = Loops(in_data[0], out_data[0].shape_);
    loops.Run(context.requested[0], [&] { Compute(in_data, req, out_data, &loops); });
  }
  std::optional<int64_t> ForwardWorkspaceBytes(int threads, std::span<const TBlob> in_data,
                                               std::span<const OpReqType> req,
                                               std::span<const TBlob> out_data) const override {
    ConvolutionLoops loops = Loops(in_data[0], out_data[0].shape_);
    return loops.WorkspaceBytes(threads, [&] { Compute(in_data, req, out_data, &loops); });
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    ConvolutionLoops loops = Loops(in_data[0], out_grad[0].shape_);
    loops.Run(context.requested[0],
              [&] { ComputeGradients(out_grad, in_data, req, in_grad, &loops); });
    if (!param_.no_bias) SumByChannel(out_grad[0], req[2], in_grad[2]);
  }
  std::optional<int64_t> BackwardWorkspaceBytes(int threads, std::span<const TBlob> out_grad,
                                                std::span<const TBlob> in_data,
                                                std::span<const TBlob>,
                                                std::span<const OpReqType> req,
                                                std::span<const TBlob> in_grad) const override {
    ConvolutionLoops loops = Loops(in_data[0], out_grad[0].shape_);
    return loops.WorkspaceBytes(threads,
                                [&] { ComputeGradients(out_grad, in_data, req, in_grad, &loops); });
  }

 private:
  void Compute(std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data, ConvolutionLoops* loops) const {
    loops->Spread(in_data[0].dptr_, in_data[1].dptr_, param_.no_bias ? nullptr : in_data[2].dptr_,
                  req[0], out_data[0].dptr_);
  }
  static void ComputeGradients(std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                               std::span<const OpReqType> req, std::span<const TBlob> in_grad,
                               ConvolutionLoops* loops) {
    loops->Correlate(out_grad[0].dptr_, in_data[1].dptr_, nullptr, req[0], in_grad[0].dptr_);
    loops->WeightGradient(out_grad[0].dptr_, in_data[0].dptr_, req[1], in_grad[1].dptr_);
  }

  /// The convolution from the output, its image, to the data, its result.
  ConvolutionLoops Loops(const TBlob& data, const TShape& out) const {
    const DeconvolutionWindow w("Deconvolution", param_, data.shape_);
    return {{.batch = data.shape_[0],
             .groups = param_.num_group,
             .channels = param_.num_filter / param_.num_group,
             .filters = data.shape_[1] / param_.num_group,
             .image = SpatialExtents(out),
             .positions = SpatialExtents(data.shape_),
             .kernel = w.kernel,
             .stride = w.stride,
             .dilate = w.dilate,
             .pad = w.pad},
            data.type_flag_};
  }

  const DeconvolutionParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<DeconvolutionProperty, DeconvolutionOperator>(
        TESSERA_TABLE_PLACE, "Deconvolution",
        "The transpose of a convolution over one to three dimensions.");

}  // namespace
}  // namespace tessera
