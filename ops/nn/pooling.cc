// Pooling over one to three dimensions, NCW, NCHW or NCDHW, and Pooling_v1.
//
//   max  out = the window's maximum;     gradient: to the first maximum in row order
//   sum  out = the window's sum;         gradient: to every element
//   avg  out = sum / size;               gradient / size to every element
//   lp   out = (sum of x^p)^(1/p);       gradient: g x^(p-1) / out^(p-1), 0 where out is 0
//
// If count_include_pad, the size of a window over the edge includes the padding. A window without
// an element has the type's lowest number as its maximum, else 0. Positions along an axis of extent
// h: valid floor((h + 2 pad - kernel) / stride) + 1, full ceil((h + 2 pad - kernel) / stride) + 1,
// same ceil(h / stride) without padding. Shapes: data (n, c, position…), out likewise; global_pool
// gives one position. With the layouts NWC, NHWC and NDHWC, channels are the last axis of both;
// they are transposed (channels_last.h).
//
// Pooling_v1 pools two dimensions by other rules: padding is zeros, also for a maximum, whose
// gradient goes to all equal elements, and an average divides by the kernel's size.
//
// Types: float32, float64, float16, bfloat16; the last two are computed in float32. A GPU has one
// and two dimensions, channels first, not lp, and not Pooling_v1.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tessera/base/quote.h"
#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/kernel.h"
#include "tessera/ops/windows/channels_last.h"
#include "tessera/ops/windows/pooling_parameters.h"
#include "tessera/ops/windows/window_parameters.h"
#if defined(TESSERA_XPU_GPU)
#include "tessera/ops/nn/pooling_gpu.h"
#else
#include "tessera/ops/nn/pooling_loops.h"
#include "tessera/ops/typed_operator.h"
#endif

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: windows and parameters

/// Infers each known axis of the output from the data, whose rank is known, with window_of(the
/// image's extents). Throws Error(kInvalidArgument) if the kernel does not fit.
template <typename WindowOf>
bool InferPooling(const OperatorProperty& property, const TShape& kernel, const TShape& pad,
                  const WindowOf& window_of, TShape* data, TShape* out) {
  const PoolingWindow window = window_of(SpatialExtents(*data));
  TShape known = *data;
  for (int i = 2; i < known.ndim(); ++i) {
    const size_t axis = static_cast<size_t>(5 - known.ndim() + (i - 2));
    // The window of global_pool covers an unknown extent too, at one position.
    if (known[i] == TShape::kUnknown && window.kernel[axis] != TShape::kUnknown) continue;
    known[i] = window.positions[axis];
    if (known[i] == 0) {
      throw InvalidArgument(property.TypeString(), ": the kernel ", kernel,
                            " does not fit data of shape ", *data, " with pad=", pad);
    }
  }
  MergeShape(property, "output", out, known);
  (*data)[0] = (*out)[0];
  (*data)[1] = (*out)[1];
  return data->known();
}

/// Returns whether sums are taken, so that the gradient does not depend on the output.
bool IsLinear(PoolType type) { return type == PoolType::kAvg || type == PoolType::kSum; }

class PoolingProperty : public ParameterizedProperty<PoolingParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    if (!IsChannelsLast(param_.layout)) return InferChannelsFirst(in_shape, out_shape);
    return InferChannelsLast(1, in_shape, out_shape,
                             [this](auto* in, auto* out) { return InferChannelsFirst(in, out); });
  }
  std::vector<ResourceRequest> ForwardResource(std::span<const TShape>) const override {
    return Workspace();
  }
  std::vector<ResourceRequest> BackwardResource(std::span<const TShape>) const override {
    return Workspace();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int> out_data) const override {
    if (IsLinear(param_.pool_type)) return {out_grad[0], in_data[0]};
    return {out_grad[0], in_data[0], out_data[0]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    if (IsLinear(param_.pool_type)) return BuildLinearGradient(*this, builder);
    if (param_.pool_type != PoolType::kMax) return false;
    const Term x(builder, builder->Input(0));
    SetInGrad(builder, 0,
              ApplyAdjoint({.op = "_pick_maxima",
                            .parameters = GetParams(),
                            .out_grads = {Term(builder, builder->OutGrad(0))},
                            .inputs = {x, x}})
                  .front());
    return true;
  }

 protected:
  void CheckParameters() override {
    if (!param_.global_pool) {
      if (param_.kernel.ndim() <= 0) {
        throw InvalidArgument(TypeString(), ": required parameter \"kernel\" (shape) is missing");
      }
      RequireKernelRank(TypeString(), param_.kernel);
      const auto w = PoolingWindow::Of(TypeString(), param_, {1, 1, 1});
      for (size_t i = 0; i < 3; ++i) {
        // Otherwise a window could contain only padding and have no maximum.
        if (w.pad[i] >= w.kernel[i]) {
          throw InvalidArgument(TypeString(), ": parameter pad=", param_.pad,
                                " must be smaller than kernel=", param_.kernel);
        }
        if (w.pad[i] > 0 && param_.pooling_convention == PoolConvention::kSame) {
          throw InvalidArgument(TypeString(), ": parameter pad=", param_.pad,
                                " must be 0 with pooling_convention=same");
        }
      }
    }
    const int power = param_.p_value.value_or(0);
    if (param_.pool_type == PoolType::kLp && (power < 1 || power > 3)) {
      throw InvalidArgument(TypeString(),
                            ": pool_type=lp needs parameter p_value of 1, 2 or 3, not ",
                            param_.p_value ? std::to_string(power) : "None");
    }
    const bool known_layout = param_.layout == "None" || param_.layout == "NCW" ||
                              param_.layout == "NCHW" || param_.layout == "NCDHW" ||
                              IsChannelsLast(param_.layout);
    if (!known_layout) {
      throw Unimplemented(TypeString(), ": layout=", Excerpt(param_.layout),
                          " is not implemented; expected NCW, NCHW, NCDHW, NWC, NHWC or NDHWC");
    }
  }

 private:
  bool InferChannelsFirst(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const {
    TShape& data = (*in_shape)[0];
    if (!param_.global_pool) MergeDataRank(TypeString(), param_.kernel, &data);
    if (!data.rank_known()) return false;
    if (data.ndim() < 3 || data.ndim() > 5) {
      throw InvalidArgument(TypeString(), ": data has shape ", data,
                            ", expected three to five dimensions");
    }
    RequireLayout(TypeString(), param_.layout, data.ndim() - 2);
    const auto window = [this](const WindowExtents& image) {
      return PoolingWindow::Of(TypeString(), param_, image);
    };
    return InferPooling(*this, param_.kernel, param_.pad, window, &data, &(*out_shape)[0]);
  }
  /// Transposed images need workspace.
  std::vector<ResourceRequest> Workspace() const {
    if (!IsChannelsLast(param_.layout)) return {};
    return {{ResourceRequest::Type::kTempSpace}};
  }
};

#if !defined(TESSERA_XPU_GPU)

/// The calls that tensor expressions compute: float32 over one or two dimensions, each window with
/// an element, no lp. One window over the whole image is a reduction, which is faster in other
/// loops.
class PoolingExpression {
 public:
  PoolingExpression(const PoolingParameters& param, const TBlob& data) {
    const WindowExtents image = SpatialExtents(data.shape_);
    const PoolingWindow w = PoolingWindow::Of("Pooling", param, image);
    applies_ = data.type_flag_ == DType::kFloat32 && data.shape_.ndim() < 5 && data.Size() > 0 &&
               param.pool_type != PoolType::kLp && !w.IsWhole(image);
    for (const size_t i : {1, 2}) {
      applies_ = applies_ && (w.positions[i] - 1) * w.stride[i] - w.pad[i] < image[i];
    }
    few_windows_ = w.positions[2] < 16;
    geometry_ = {.kernel_y = w.kernel[1],
                 .kernel_x = w.kernel[2],
                 .stride_y = w.stride[1],
                 .stride_x = w.stride[2],
                 .pad_y = w.pad[1],
                 .pad_x = w.pad[2]};
    kind_ = param.pool_type == PoolType::kMax        ? PoolKind::kMax
            : param.pool_type == PoolType::kSum      ? PoolKind::kSum
            : param.count_include_pad.value_or(true) ? PoolKind::kAverage
                                                     : PoolKind::kAverageWithoutPad;
  }

  /// Computes the output and returns true, or returns false.
  bool Forward(const TBlob& data, OpReqType req, const TBlob& out) const {
    if (!applies_) return false;
    const auto to = Image(out);
    WithKind([&](auto kind) {
      AssignTo(to, req, pool<kind()>(Image(data), to.shape_[2], to.shape_[3], geometry_));
    });
    return true;
  }
  /// Computes the gradient and returns true, or returns false. Lines of many windows are faster in
  /// other loops.
  bool Backward(const TBlob& out_grad, const TBlob& data, const TBlob& out, OpReqType req,
                const TBlob& grad) const {
    if (!applies_ || !few_windows_) return false;
    WithKind([&](auto kind) {
      AssignTo(Image(grad), req,
               unpool<kind()>(Image(data), Image(out), Image(out_grad), geometry_));
    });
    return true;
  }

 private:
  static Tensor<cpu, 4, float> Image(const TBlob& blob) {
    return blob.get_with_shape<cpu, 4, float>(ImageShape(blob.shape_), nullptr);
  }
  template <typename Body>
  void WithKind(const Body& body) const {
    switch (kind_) {
      case PoolKind::kMax:
        return body(std::integral_constant<PoolKind, PoolKind::kMax>());
      case PoolKind::kSum:
        return body(std::integral_constant<PoolKind, PoolKind::kSum>());
      case PoolKind::kAverage:
        return body(std::integral_constant<PoolKind, PoolKind::kAverage>());
      case PoolKind::kAverageWithoutPad:
        return body(std::integral_constant<PoolKind, PoolKind::kAverageWithoutPad>());
    }
  }

  bool applies_ = false;
  bool few_windows_ = false;
  PoolGeometry geometry_;
  PoolKind kind_ = PoolKind::kMax;
};

class PoolingOnCpu : public Operator {
 public:
  explicit PoolingOnCpu(const PoolingParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (PoolingExpression(param_, in_data[0]).Forward(in_data[0], req[0], out_data[0])) return;
    PoolForward(Rule(), Window(in_data[0].shape_), in_data[0], req[0], out_data[0]);
  }
  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob> out_data, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    // Sums only need the output's shape.
    const TBlob& out = IsLinear(param_.pool_type) ? out_grad[0] : out_data[0];
    if (PoolingExpression(param_, in_data[0])
            .Backward(out_grad[0], in_data[0], out, req[0], in_grad[0])) {
      return;
    }
    PoolBackward(Rule(), Window(in_data[0].shape_), out_grad[0], in_data[0], out, req[0],
                 in_grad[0]);
  }

 private:
  PoolRule Rule() const {
    return {.type = param_.pool_type,
            .power = param_.p_value.value_or(1),
            .divisor = param_.count_include_pad.value_or(true) ? PoolDivisor::kWithPadding
                                                               : PoolDivisor::kElements};
  }
  PoolingWindow Window(const TShape& data) const {
    return PoolingWindow::Of("Pooling", param_, SpatialExtents(data));
  }

  const PoolingParameters param_;
};

/// One class serves all element types.
template <typename, typename>
class PoolingOp final : public PoolingOnCpu {
 public:
  using PoolingOnCpu::PoolingOnCpu;

  static std::unique_ptr<Operator> Make(const PoolingProperty& property,
                                        std::span<const TShape> in_shape,
                                        std::span<const DType> in_type) {
    if (IsChannelsLast(property.param().layout)) {
      return MakeChannelsLast(property, 1, in_shape, in_type);
    }
    return std::make_unique<PoolingOp>(property.param());
  }
};

// _pick_maxima: the elements of an array at the places of the first maxima of data's windows, by
// which maxima have gradients of gradients: that of Pooling is the adjoint of this linear function.

class PickMaximaProperty final : public PoolingProperty {
 public:
  std::vector<std::string> ListArguments() const override { return {"values", "data"}; }
  bool ArgumentHasGradient(int argument) const override { return argument == 0; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    std::vector<TShape> data = {(*in_shape)[1]};
    MergeEqualShapes(*this, {{"values", &(*in_shape)[0]}, {"data", &data[0]}});
    const bool known = PoolingProperty::InferShape(&data, out_shape);
    (*in_shape)[0] = (*in_shape)[1] = data[0];
    return known;
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[1]};
  }
  std::vector<ResourceRequest> BackwardResource(std::span<const TShape>) const override {
    return {{ResourceRequest::Type::kTempSpace}};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return BuildLinearGradient(*this, builder);
  }

 protected:
  void CheckParameters() override {
    PoolingProperty::CheckParameters();
    if (param_.pool_type != PoolType::kMax) {
      throw InvalidArgument(TypeString(), ": parameter pool_type: expected max");
    }
  }
};

class PickMaximaOperator final : public Operator {
 public:
  explicit PickMaximaOperator(const PoolingParameters& param) : param_(param) {}

  static std::unique_ptr<Operator> Make(const PickMaximaProperty& property,
                                        std::span<const TShape> in_shape,
                                        std::span<const DType> in_type) {
    if (IsChannelsLast(property.param().layout)) {
      return MakeChannelsLast(property, 2, in_shape, in_type);
    }
    return std::make_unique<PickMaximaOperator>(property.param());
  }

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    PickMaxima(Window(in_data[1].shape_), in_data[0], in_data[1], req[0], out_data[0]);
  }
  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp) return;
    const TBlob& g = out_grad[0];
    const TBlob pooled = WorkspaceArray<xpu>(context, 0, g.shape_, g.type_flag_, g.device_);
    const PoolingWindow window = Window(in_data[1].shape_);
    PoolForward({}, window, in_data[1], kWriteTo, pooled);
    PoolBackward({}, window, g, in_data[1], pooled, req[0], in_grad[0]);
  }
  std::optional<int64_t> BackwardWorkspaceBytes(int, std::span<const TBlob> out_grad,
                                                std::span<const TBlob>, std::span<const TBlob>,
                                                std::span<const OpReqType>,
                                                std::span<const TBlob>) const override {
    return out_grad[0].shape_.Size() * DTypeSizeBytes(out_grad[0].type_flag_);
  }

 private:
  PoolingWindow Window(const TShape& data) const {
    return PoolingWindow::Of("_pick_maxima", param_, SpatialExtents(data));
  }

  const PoolingParameters param_;
};

[[maybe_unused]] const bool kPickMaxima =
    RegisterTypedOperator<PickMaximaProperty, PickMaximaOperator>(
        TESSERA_TABLE_PLACE, "_pick_maxima",
        "The elements of an array at the places of the first maxima of a moving window.");

// Pooling_v1.

struct PoolingV1Parameters {
  TShape kernel;
  PoolType pool_type = PoolType::kMax;
  bool global_pool = false;
  PoolConvention pooling_convention = PoolConvention::kValid;
  TShape stride;
  TShape pad;

  static void Declare(ParameterSchema<PoolingV1Parameters>& schema) {
    using P = PoolingV1Parameters;
    schema.Optional("kernel", &P::kernel, "the window: (y, x); not needed by global_pool");
    schema.Choice("pool_type", &P::pool_type,
                  {{"max", PoolType::kMax}, {"avg", PoolType::kAvg}, {"sum", PoolType::kSum}},
                  "what is taken of a window");
    schema.Optional("global_pool", &P::global_pool, "one window over the whole image");
    schema.Choice("pooling_convention", &P::pooling_convention,
                  {{"valid", PoolConvention::kValid}, {"full", PoolConvention::kFull}},
                  "whether a last, partial window counts");
    schema.Optional("stride", &P::stride, "distance between windows; 1 if left out");
    schema.Optional("pad", &P::pad, "zeros added on every side; 0 if left out");
  }

  PoolingWindow Window(const WindowExtents& image) const {
    return PoolingWindow::Of("Pooling_v1",
                             {.kernel = kernel,
                              .global_pool = global_pool,
                              .pooling_convention = pooling_convention,
                              .stride = stride,
                              .pad = pad},
                             image);
  }
};

class PoolingV1Property final : public ParameterizedProperty<PoolingV1Parameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    MergeShape(*this, "data", &data, TShape::OfRank(4));
    const auto window = [this](const WindowExtents& image) { return param_.Window(image); };
    return InferPooling(*this, param_.kernel, param_.pad, window, &data, &(*out_shape)[0]);
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int> out_data) const override {
    if (IsLinear(param_.pool_type)) return {out_grad[0], in_data[0]};
    return {out_grad[0], in_data[0], out_data[0]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return IsLinear(param_.pool_type) && BuildLinearGradient(*this, builder);
  }

 private:
  void CheckParameters() override {
    if (param_.global_pool) return;
    if (param_.kernel.ndim() != 2) {
      throw InvalidArgument(TypeString(), ": parameter kernel=", param_.kernel, " has ",
                            std::max(0, param_.kernel.ndim()), " dimensions, expected two");
    }
    static_cast<void>(param_.Window({1, 1, 1}));
  }
};

class PoolingV1Operator final : public Operator {
 public:
  explicit PoolingV1Operator(const PoolingV1Parameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    PoolForward(Rule(), param_.Window(SpatialExtents(in_data[0].shape_)), in_data[0], req[0],
                out_data[0]);
  }
  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob> out_data, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    PoolBackward(Rule(), param_.Window(SpatialExtents(in_data[0].shape_)), out_grad[0], in_data[0],
                 out_data[0], req[0], in_grad[0]);
  }

 private:
  PoolRule Rule() const {
    return {.type = param_.pool_type, .divisor = PoolDivisor::kKernel, .zero_padding = true};
  }

  const PoolingV1Parameters param_;
};

[[maybe_unused]] const bool kPoolingV1 =
    RegisterTypedOperator<PoolingV1Property, PoolingV1Operator>(
        TESSERA_TABLE_PLACE, "Pooling_v1",
        "Pooling of images with zeros as padding, by the rules of old graphs.");

#endif  // !TESSERA_XPU_GPU

TESSERA_REGISTER_OPERATOR(Pooling, PoolingProperty, PoolingOp)
    .Describe("The maximum, average, sum or norm of a moving window.");

}  // namespace
}  // namespace tessera
