// _contrib_BilinearResize2D: images resized by linear interpolation between pixels.
//
//   out[y][x] = the sum over the two nearest rows and columns of data, weighted by their nearness
//   to
//               (source(y), source(x));   d data = the transpose of this sum
//
// With align_corners, source(o) = o (in - 1) / (out - 1), else max(0, (o + 0.5) in / out - 0.5); 0
// for an output of one element. The mode says what the output's height and width are; `like` takes
// them from a second input, which has no gradient. Shapes: data (samples, channels, height, width).
// Types: float32, float64, float16, bfloat16; the last two are computed in float32. Runs on the
// CPU.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration

enum class ResizeMode { kSize, kOddScale, kLike, kToEvenDown, kToEvenUp, kToOddDown, kToOddUp };

struct BilinearResizeParameters {
  int64_t height = 1;
  int64_t width = 1;
  std::optional<float> scale_height;
  std::optional<float> scale_width;
  ResizeMode mode = ResizeMode::kSize;
  bool align_corners = true;

  static void Declare(ParameterSchema<BilinearResizeParameters>& schema) {
    using P = BilinearResizeParameters;
    schema.Optional("height", &P::height, "the output's height, for size without scales");
    schema.Range(1, 1 << 24);
    schema.Optional("width", &P::width, "the output's width, for size without scales");
    schema.Range(1, 1 << 24);
    schema.Optional("scale_height", &P::scale_height, "factor of the height");
    schema.Optional("scale_width", &P::scale_width, "factor of the width");
    schema.Choice("mode", &P::mode,
                  {{"size", ResizeMode::kSize},
                   {"odd_scale", ResizeMode::kOddScale},
                   {"like", ResizeMode::kLike},
                   {"to_even_down", ResizeMode::kToEvenDown},
                   {"to_even_up", ResizeMode::kToEvenUp},
                   {"to_odd_down", ResizeMode::kToOddDown},
                   {"to_odd_up", ResizeMode::kToOddUp}},
                  "the output's height and width: given, scaled, the second input's, or the data's "
                  "made even or odd");
    schema.Optional("align_corners", &P::align_corners,
                    "whether the images' corner pixels have one place");
  }
};

class BilinearResizeProperty final : public ParameterizedProperty<BilinearResizeParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    if (param_.mode == ResizeMode::kLike) return {"data", "like"};
    return {"data"};
  }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &data = (*in_shape)[0], &out = (*out_shape)[0];
    MergeShape(*this, "data", &data, TShape::OfRank(4));
    MergeShape(*this, "output", &out, TShape::OfRank(4));
    if (param_.mode == ResizeMode::kLike) {
      TShape& like = (*in_shape)[1];
      MergeShape(*this, "like", &like, TShape::OfRank(4));
      MergeShape(*this, "like", &like, {TShape::kUnknown, TShape::kUnknown, out[2], out[3]});
    }
    MergeShape(*this, "data", &data, {out[0], out[1], TShape::kUnknown, TShape::kUnknown});
    TShape known = {data[0], data[1], TShape::kUnknown, TShape::kUnknown};
    for (const int d : {2, 3}) known[d] = OutputExtent(*in_shape, d);
    MergeShape(*this, "output", &out, known);
    bool all_known = out.known();
    for (const TShape& shape : *in_shape) all_known = all_known && shape.known();
    for (const int d : {2, 3}) {
      if (all_known && data[d] == 0 && out[d] > 0 && data[0] * data[1] > 0) {
        throw InvalidArgument(TypeString(), ": data of shape ", data,
                              " has no pixels to interpolate");
      }
    }
    return all_known;
  }

  bool ArgumentHasGradient(int argument) const override { return argument == 0; }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int>) const override {
    return {out_grad[0]};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    return BuildLinearGradient(*this, builder);
  }

 private:
  void CheckParameters() override {
    const bool height = param_.scale_height.has_value(), width = param_.scale_width.has_value();
    const bool scales =
        param_.mode == ResizeMode::kOddScale || (param_.mode == ResizeMode::kSize && height);
    if (scales && !(height && width)) {
      throw InvalidArgument(TypeString(), ": parameter ", height ? "scale_width" : "scale_height",
                            " is missing");
    }
    for (const std::optional<float>& scale : {param_.scale_height, param_.scale_width}) {
      if (scale && !(*scale > 0 && *scale < 1e6f)) {
        throw InvalidArgument(TypeString(), ": parameters scale_height and scale_width must be ",
                              "above 0 and below 1e6, not ", *scale);
      }
    }
  }

  /// Returns the output's extent along dimension d, if it is known.
  index_t OutputExtent(const std::vector<TShape>& in_shape, int d) const {
    const index_t in = in_shape[0][d];
    const float scale = (d == 2 ? param_.scale_height : param_.scale_width).value_or(1);
    if (param_.mode == ResizeMode::kLike) return in_shape[1][d];
    // A scale for the width alone is not used.
    if (param_.mode == ResizeMode::kSize && !param_.scale_height) {
      return d == 2 ? param_.height : param_.width;
    }
    if (in == TShape::kUnknown) return TShape::kUnknown;
    const bool odd = in % 2 == 1;
    const index_t limit = index_t{1} << 40;
    if (in > limit) {
      throw InvalidArgument(TypeString(), ": data of shape ", in_shape[0], " is too large");
    }
    index_t out = in;
    switch (param_.mode) {
      case ResizeMode::kSize:
        out = static_cast<index_t>(scale * static_cast<float>(in));
        break;
      case ResizeMode::kOddScale:
        out = odd ? static_cast<index_t>(static_cast<float>(in - 1) * scale) + 1
                  : static_cast<index_t>(static_cast<float>(in) * scale);
        break;
      case ResizeMode::kToEvenDown:
        out = odd ? in - 1 : in;
        break;
      case ResizeMode::kToEvenUp:
        out = odd ? in + 1 : in;
        break;
      case ResizeMode::kToOddDown:
        out = odd ? in : in - 1;
        break;
      case ResizeMode::kToOddUp:
        out = odd ? in : in + 1;
        break;
      case ResizeMode::kLike:
        break;
    }
    if (out < 1) {
      throw InvalidArgument(TypeString(), ": data of shape ", in_shape[0],
                            " would be resized to no pixels");
    }
    return out;
  }
};

/// The two elements between which one of the output lies along an axis, and the second's weight.
template <typename T>
struct Between {
  index_t first, second;
  T weight;
};

template <typename T>
std::vector<Between<T>> Sources(index_t in, index_t out, bool align_corners) {
  std::vector<Between<T>> sources;
  for (index_t o = 0; o < out; ++o) {
    double source = 0;
    if (out > 1 && align_corners) {
      source = static_cast<double>(o) * static_cast<double>(in - 1) / static_cast<double>(out - 1);
    } else if (out > 1) {
      source =
          (static_cast<double>(o) + 0.5) * static_cast<double>(in) / static_cast<double>(out) - 0.5;
    }
    const index_t first = std::clamp<index_t>(static_cast<index_t>(source), 0, in - 1);
    const double rest = std::clamp(source - static_cast<double>(first), 0.0, 1.0);
    sources.push_back({first, std::min(first + 1, in - 1), static_cast<T>(rest)});
  }
  return sources;
}

class BilinearResizeOperator final : public Operator {
 public:
  explicit BilinearResizeOperator(const BilinearResizeParameters& param)
      : align_corners_(param.align_corners) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    VisitComputedIn(ComputedInReal(out_data[0].type_flag_),
                    [&](auto one) { Interpolate<decltype(one)>(in_data[0], req[0], out_data[0]); });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp) return;
    VisitComputedIn(ComputedInReal(out_grad[0].type_flag_),
                    [&](auto one) { Spread<decltype(one)>(out_grad[0], req[0], in_grad[0]); });
  }

 private:
  static constexpr index_t kCost = 4;

  template <typename T>
  void Interpolate(const TBlob& data, OpReqType req, const TBlob& out) const {
    const index_t height = data.shape_[2], width = data.shape_[3];
    const index_t out_height = out.shape_[2], out_width = out.shape_[3];
    const index_t rows = out.shape_[0] * out.shape_[1] * out_height;
    if (out.shape_.Size() == 0) return;
    const auto ys = Sources<T>(height, out_height, align_corners_);
    const auto xs = Sources<T>(width, out_width, align_corners_);
    ParallelFor(rows, StepsPerTask(width + out_width, kCost), [&](index_t begin, index_t end) {
      std::vector<T> scratch(static_cast<size_t>(2 * width + out_width));
      T* const upper = scratch.data();
      T* const lower = upper + width;
      T* const line = lower + width;
      for (index_t row = begin; row < end; ++row) {
        const index_t plane = row / out_height;
        const Between<T> y = ys[static_cast<size_t>(row % out_height)];
        const RowReader<T> reader(data);
        reader.Copy((plane * height + y.first) * width, width, upper);
        reader.Copy((plane * height + y.second) * width, width, lower);
        const T weight = y.weight;
        ForEach(width, [=](index_t i) TESSERA_LOOP_BODY {
          upper[i] = (1 - weight) * upper[i] + weight * lower[i];
        });
        for (index_t i = 0; i < out_width; ++i) {
          const Between<T>& x = xs[static_cast<size_t>(i)];
          line[i] = (1 - x.weight) * upper[x.first] + x.weight * upper[x.second];
        }
        RowWriter<T>(out, req).Write(row * out_width, out_width, line);
      }
    });
  }

  template <typename T>
  void Spread(const TBlob& g, OpReqType req, const TBlob& grad) const {
    const index_t height = grad.shape_[2], width = grad.shape_[3];
    const index_t out_height = g.shape_[2], out_width = g.shape_[3];
    if (grad.shape_.Size() == 0) return;
    const auto ys = Sources<T>(height, out_height, align_corners_);
    const auto xs = Sources<T>(width, out_width, align_corners_);
    ParallelFor(
        grad.shape_[0] * grad.shape_[1],
        StepsPerTask(height * width + out_height * out_width, kCost),
        [&](index_t begin, index_t end) {
          std::vector<T> image(static_cast<size_t>(height * width)),
              row(static_cast<size_t>(width));
          std::vector<T> line(static_cast<size_t>(out_width));
          for (index_t plane = begin; plane < end; ++plane) {
            std::fill(image.begin(), image.end(), T(0));
            for (index_t i = 0; i < out_height; ++i) {
              RowReader<T>(g).Copy((plane * out_height + i) * out_width, out_width, line.data());
              std::fill(row.begin(), row.end(), T(0));
              for (index_t k = 0; k < out_width; ++k) {
                const Between<T>& x = xs[static_cast<size_t>(k)];
                row[static_cast<size_t>(x.first)] += (1 - x.weight) * line[static_cast<size_t>(k)];
                row[static_cast<size_t>(x.second)] += x.weight * line[static_cast<size_t>(k)];
              }
              const Between<T>& y = ys[static_cast<size_t>(i)];
              const T weight = y.weight;
              const T* const from = row.data();
              T* const upper = image.data() + y.first * width;
              T* const lower = image.data() + y.second * width;
              ForEach(width,
                      [=](index_t k) TESSERA_LOOP_BODY { upper[k] += (1 - weight) * from[k]; });
              ForEach(width, [=](index_t k) TESSERA_LOOP_BODY { lower[k] += weight * from[k]; });
            }
            RowWriter<T>(grad, req).Write(plane * height * width, height * width, image.data());
          }
        });
  }

  const bool align_corners_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<BilinearResizeProperty, BilinearResizeOperator>(
        TESSERA_TABLE_PLACE, "_contrib_BilinearResize2D",
        "Images resized by linear interpolation.");

}  // namespace
}  // namespace tessera
