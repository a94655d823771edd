// Pooling over one or two spatial dimensions, NCW or NCHW.
//
//   max  out = the window's maximum;   gradient: to the first maximum in row order
//   sum  out = the window's sum;       gradient: to every element
//   avg  out = sum / size;             gradient / size to every element
//
// If count_include_pad, the size of a window over the edge includes the padding.
// Positions along an axis of extent h: valid floor((h + 2 pad - kernel) / stride) + 1, full
// ceil((h + 2 pad - kernel) / stride) + 1. Shapes: data (n, c, [h,] w), out (n, c, positions…);
// global_pool gives one position. Types: float32, float64, float16, bfloat16; the last two
// accumulate in float32.
#include <optional>

#include "tessera/base/quote.h"
#include "tessera/ops/kernel.h"
#include "tessera/ops/nn/window_parameters.h"

namespace tessera {
namespace {

using ops_internal::ImageShape;
using ops_internal::ReadWindow;
using ops_internal::WindowExtents;

enum class PoolType { kMax, kAvg, kSum };
enum class Convention { kValid, kFull };

struct PoolingParameters {
  TShape kernel;
  PoolType pool_type = PoolType::kMax;
  bool global_pool = false;
  bool cudnn_off = false;
  Convention pooling_convention = Convention::kValid;
  TShape stride;
  TShape pad;
  std::optional<int> p_value;
  std::optional<bool> count_include_pad;
  std::string layout = "None";

  static void Declare(ParameterSchema<PoolingParameters>& schema) {
    using P = PoolingParameters;
    schema.Optional("kernel", &P::kernel, "the window: (x) or (y, x); not needed by global_pool");
    schema.Choice("pool_type", &P::pool_type,
                  {{"max", PoolType::kMax}, {"avg", PoolType::kAvg}, {"sum", PoolType::kSum}},
                  "what is taken of a window");
    schema.Optional("global_pool", &P::global_pool, "one window over the whole image");
    schema.Optional("cudnn_off", &P::cudnn_off, "accepted for old graphs; not used");
    schema.Choice("pooling_convention", &P::pooling_convention,
                  {{"valid", Convention::kValid}, {"full", Convention::kFull}},
                  "whether a last, partial window counts");
    schema.Optional("stride", &P::stride, "distance between windows; 1 if left out");
    schema.Optional("pad", &P::pad, "padding on every side; 0 if left out");
    schema.Optional("p_value", &P::p_value, "accepted for old graphs; not used");
    schema.Optional("count_include_pad", &P::count_include_pad,
                    "whether an average divides by padding too; True if None");
    schema.Optional("layout", &P::layout, "None, NCW or NCHW");
  }

  /// The windows over an image of (n, c, height, width), and their number.
  struct Windows {
    PoolGeometry geometry;
    index_t out_y;
    index_t out_x;
  };
  Windows Resolve(std::string_view op, const Shape<4>& image) const {
    if (global_pool) {
      return {{.kernel_y = image[2], .kernel_x = image[3]}, 1, 1};
    }
    const WindowExtents k = ReadWindow(op, "kernel", kernel, kernel, 1, 1);
    const WindowExtents s = ReadWindow(op, "stride", stride, kernel, 1, 1);
    const WindowExtents p = ReadWindow(op, "pad", pad, kernel, 0, 0);
    return {{.kernel_y = k.y,
             .kernel_x = k.x,
             .stride_y = s.y,
             .stride_x = s.x,
             .pad_y = p.y,
             .pad_x = p.x},
            Positions(image[2], k.y, s.y, p.y),
            Positions(image[3], k.x, s.x, p.x)};
  }

  /// Returns the number of positions, or 0 if the window does not fit.
  index_t Positions(index_t extent, index_t window, index_t step, index_t padding) const {
    const index_t slack = extent + 2 * padding - window;
    if (slack < 0) return 0;
    return (pooling_convention == Convention::kFull ? (slack + step - 1) / step : slack / step) + 1;
  }

  PoolKind Kind() const {
    switch (pool_type) {
      case PoolType::kMax:
        return PoolKind::kMax;
      case PoolType::kSum:
        return PoolKind::kSum;
      case PoolType::kAvg:
        break;
    }
    return count_include_pad.value_or(true) ? PoolKind::kAverage : PoolKind::kAverageWithoutPad;
  }
};

class PoolingProperty final : public ParameterizedProperty<PoolingParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    if (!param_.global_pool) ops_internal::MergeDataRank(TypeString(), param_.kernel, &data);
    if (!data.rank_known()) return false;
    if (data.ndim() != 3 && data.ndim() != 4) {
      throw InvalidArgument(TypeString(), ": data has shape ", data,
                            ", expected three or four dimensions");
    }
    // Batch and channels are the output's. Its positions follow when the whole image is known.
    TShape out = TShape::OfRank(data.ndim());
    out[0] = data[0];
    out[1] = data[1];
    MergeShape(*this, "output", &(*out_shape)[0], out);
    data[0] = (*out_shape)[0][0];
    data[1] = (*out_shape)[0][1];
    if (!data.known()) return false;
    const auto windows = param_.Resolve(TypeString(), ImageShape(data));
    if (windows.out_y <= 0 || windows.out_x <= 0) {
      throw InvalidArgument(TypeString(), ": the kernel ", param_.kernel,
                            " does not fit data of shape ", data, " with pad=", param_.pad);
    }
    const PoolGeometry& g = windows.geometry;
    const Shape<4> image = ImageShape(data);
    if (!LastWindowCounts(image[2], windows.out_y, g.stride_y, g.pad_y) ||
        !LastWindowCounts(image[3], windows.out_x, g.stride_x, g.pad_x)) {
      throw InvalidArgument(TypeString(), ": pooling_convention=full with stride=", param_.stride,
                            " and pad=", param_.pad, " puts a window beyond data of shape ", data);
    }
    out = data;
    out[data.ndim() - 1] = windows.out_x;
    if (data.ndim() == 4) out[2] = windows.out_y;
    MergeShape(*this, "output", &(*out_shape)[0], out);
    return true;
  }

 private:
  /// Returns whether the last window along an axis contains the elements that its kind needs. A
  /// maximum, and an average of image elements only, need an image element; other kinds need at
  /// least padding.
  bool LastWindowCounts(index_t extent, index_t positions, index_t step, index_t padding) const {
    const PoolKind kind = param_.Kind();
    const bool needs_element = kind == PoolKind::kMax || kind == PoolKind::kAverageWithoutPad;
    return (positions - 1) * step - padding < extent + (needs_element ? 0 : padding);
  }

  void CheckParameters() override {
    if (!param_.global_pool) {
      if (param_.kernel.ndim() <= 0) {
        throw InvalidArgument(TypeString(), ": required parameter \"kernel\" (shape) is missing");
      }
      ops_internal::RequireKernelRank(TypeString(), param_.kernel);
      const auto k = ReadWindow(TypeString(), "kernel", param_.kernel, param_.kernel, 1, 1);
      const auto p = ReadWindow(TypeString(), "pad", param_.pad, param_.kernel, 0, 0);
      static_cast<void>(ReadWindow(TypeString(), "stride", param_.stride, param_.kernel, 1, 1));
      // Otherwise a window could contain only padding and have no maximum.
      if (p.y >= k.y || p.x >= k.x) {
        throw InvalidArgument(TypeString(), ": parameter pad=", param_.pad,
                              " must be smaller than kernel=", param_.kernel);
      }
    }
    const bool known_layout =
        param_.layout == "None" || param_.layout == "NCW" || param_.layout == "NCHW";
    if (!known_layout) {
      throw Unimplemented(TypeString(), ": layout=", Excerpt(param_.layout),
                          " is not implemented; expected NCW or NCHW");
    }
  }
};

template <typename Device, typename T>
class PoolingOp final : public Operator {
 public:
  explicit PoolingOp(const PoolingParameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    auto* stream = context.get_stream<Device>();
    const auto data = Image(in_data[0], stream);
    const auto out = Image(out_data[0], stream);
    const auto windows = param_.Resolve("Pooling", data.shape_);
    WithKind([&](auto kind) {
      AssignTo(out, req[0], pool<kind()>(data, windows.out_y, windows.out_x, windows.geometry));
    });
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob> out_data,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    auto* stream = context.get_stream<Device>();
    const auto data = Image(in_data[0], stream);
    const auto out = Image(out_data[0], stream);
    const auto grad = Image(out_grad[0], stream);
    const auto windows = param_.Resolve("Pooling", data.shape_);
    WithKind([&](auto kind) {
      AssignTo(Image(in_grad[0], stream), req[0],
               unpool<kind()>(data, out, grad, windows.geometry));
    });
  }

 private:
  static Tensor<Device, 4, T> Image(const TBlob& blob, Stream<Device>* stream) {
    return blob.get_with_shape<Device, 4, T>(ImageShape(blob.shape_), stream);
  }

  template <typename Body>
  void WithKind(const Body& body) const {
    switch (param_.Kind()) {
      case PoolKind::kMax:
        return body(Kind<PoolKind::kMax>());
      case PoolKind::kSum:
        return body(Kind<PoolKind::kSum>());
      case PoolKind::kAverage:
        return body(Kind<PoolKind::kAverage>());
      case PoolKind::kAverageWithoutPad:
        return body(Kind<PoolKind::kAverageWithoutPad>());
    }
  }
  template <PoolKind kKind>
  using Kind = std::integral_constant<PoolKind, kKind>;

  const PoolingParameters param_;
};

TESSERA_REGISTER_OPERATOR(Pooling, PoolingProperty, PoolingOp)
    .Describe("The maximum, average or sum of a moving window.");

}  // namespace
}  // namespace tessera
