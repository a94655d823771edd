// UpSampling: images enlarged by repeating their pixels, or by a weight for each channel.
//
//   nearest    out[n][c][y][x] = in[n][c][y / f][x / f]
//              d in = the sums over the f x f pixels of out
//   bilinear   out = the deconvolution of data with weight, channel by channel: kernel 2 scale -
//              scale % 2, stride scale, pad ceil((scale - 1) / 2); gradients as Deconvolution's
//
// The bilinear form interpolates if weight holds the coefficients, as initializers give them.
// Otherwise the output is `scale` times as high and wide as arg0, and each of num_args images is
// enlarged by its own whole factor f to that size. The images are concatenated along the channels
// (multi_input_mode=concat) or added (sum). Shapes: images (samples, channels, height, width),
// weight (channels, 1, kernel, kernel). Types: float32, float64, float16, bfloat16. Runs on the
// CPU.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/windows/convolution_loops.h"
#include "tessera/ops/windows/window_parameters.h"
#include "tessera/tensor/device/parallel.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration

struct UpSamplingParameters {
  int64_t scale = 1;
  int64_t num_filter = 0;
  bool bilinear = false;
  bool sum = false;
  int num_args = 1;
  int64_t workspace = 512;

  static void Declare(ParameterSchema<UpSamplingParameters>& schema) {
    using P = UpSamplingParameters;
    schema.Required("scale", &P::scale, "the factor of height and width");
    schema.Range(1, 1000);
    schema.Optional("num_filter", &P::num_filter, "channels, for bilinear; 0: those of the data");
    schema.Range(0);
    schema.Choice("sample_type", &P::bilinear, {{"bilinear", true}, {"nearest", false}},
                  "repeat pixels, or interpolate", /*required=*/true);
    schema.Choice("multi_input_mode", &P::sum, {{"concat", false}, {"sum", true}},
                  "what becomes of several images");
    schema.Required("num_args", &P::num_args, "the number of images");
    schema.Range(1, 1 << 20);
    schema.Optional("workspace", &P::workspace, "accepted for old graphs; not used");
    schema.Range(0);
  }

  /// The kernel's width and height of the bilinear form.
  index_t Kernel() const { return 2 * scale - scale % 2; }
};

class UpSamplingProperty final : public ParameterizedProperty<UpSamplingParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    if (param_.bilinear) return {"data", "weight"};
    std::vector<std::string> names;
    for (int i = 0; i < param_.num_args; ++i) names.push_back("arg" + std::to_string(i));
    return names;
  }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    if (param_.bilinear) return InferBilinear(in_shape, out_shape);
    TShape& out = (*out_shape)[0];
    for (size_t i = 0; i < in_shape->size(); ++i) {
      MergeShape(*this, "arg" + std::to_string(i), &(*in_shape)[i], TShape::OfRank(4));
    }
    TShape& first = (*in_shape)[0];
    MergeShape(*this, "output", &out, TShape::OfRank(4));
    for (const int d : {2, 3}) {
      if (out[d] != TShape::kUnknown && out[d] % param_.scale == 0) {
        TShape known = TShape::OfRank(4);
        known[d] = out[d] / param_.scale;
        MergeShape(*this, "arg0", &first, known);
      }
      if (first[d] == TShape::kUnknown) continue;
      TShape known = TShape::OfRank(4);
      known[d] = ProductOfExtents(*this, "output", {first[d], param_.scale}, 0, 2);
      MergeShape(*this, "output", &out, known);
    }
    // All have as many samples, and with `sum` as many channels.
    TShape common = {out[0], param_.sum ? out[1] : TShape::kUnknown, TShape::kUnknown,
                     TShape::kUnknown};
    for (size_t i = 0; i < in_shape->size(); ++i) {
      const TShape& in = (*in_shape)[i];
      const TShape known = {in[0], param_.sum ? in[1] : TShape::kUnknown, TShape::kUnknown,
                            TShape::kUnknown};
      MergeShape(*this, "arg" + std::to_string(i), &common, known);
    }
    index_t channels = 0;
    bool all_known = true;
    for (size_t i = 0; i < in_shape->size(); ++i) {
      TShape& in = (*in_shape)[i];
      MergeShape(*this, "arg" + std::to_string(i), &in, common);
      CheckFactor(static_cast<int>(i), in, out);
      channels = channels < 0 || in[1] < 0 ? TShape::kUnknown : channels + in[1];
    }
    if (!param_.sum) {
      TShape known = TShape::OfRank(4);
      known[1] = channels;
      MergeShape(*this, "output", &out, known);
      CompleteChannels(in_shape, out[1]);
    }
    MergeShape(*this, "output", &out, common);
    for (const TShape& in : *in_shape) all_known = all_known && in.known();
    return all_known && out.known();
  }

  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    if (param_.bilinear) return {out_grad[0], in_data[0], in_data[1]};
    return {out_grad[0]};
  }
  std::vector<ResourceRequest> ForwardResource(std::span<const TShape>) const override {
    if (!param_.bilinear) return {};
    return {{ResourceRequest::Type::kTempSpace}};
  }
  std::vector<ResourceRequest> BackwardResource(std::span<const TShape> in_shape) const override {
    return ForwardResource(in_shape);
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    if (param_.bilinear) return BuildBilinearGradient(*this, GetParams(), builder);
    return BuildLinearGradient(*this, builder);
  }

 private:
  bool InferBilinear(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const {
    TShape &data = (*in_shape)[0], &weight = (*in_shape)[1], &out = (*out_shape)[0];
    MergeShape(*this, "data", &data, TShape::OfRank(4));
    MergeShape(*this, "output", &out, TShape::OfRank(4));
    for (const int d : {2, 3}) {
      if (out[d] != TShape::kUnknown && out[d] % param_.scale == 0) {
        TShape known = TShape::OfRank(4);
        known[d] = out[d] / param_.scale;
        MergeShape(*this, "data", &data, known);
      }
      if (data[d] == TShape::kUnknown) continue;
      TShape known = TShape::OfRank(4);
      known[d] = ProductOfExtents(*this, "output", {data[d], param_.scale}, 0, 2);
      MergeShape(*this, "output", &out, known);
    }
    const index_t channels = param_.num_filter > 0 ? param_.num_filter : TShape::kUnknown;
    const index_t kernel = param_.Kernel();
    MergeShape(*this, "data", &data, {out[0], channels, TShape::kUnknown, TShape::kUnknown});
    MergeShape(*this, "data", &data, {out[0], out[1], TShape::kUnknown, TShape::kUnknown});
    MergeShape(*this, "weight", &weight, {data[1], 1, kernel, kernel});
    MergeShape(*this, "data", &data, {out[0], weight[0], TShape::kUnknown, TShape::kUnknown});
    MergeShape(*this, "output", &out, {data[0], data[1], TShape::kUnknown, TShape::kUnknown});
    return data.known() && out.known();
  }

  /// Throws Error(kInvalidArgument) unless the image can be enlarged to the output by one factor.
  void CheckFactor(int i, const TShape& in, const TShape& out) const {
    index_t factor = TShape::kUnknown;
    for (const int d : {2, 3}) {
      if (in[d] < 0 || out[d] < 0) continue;
      const bool fits = in[d] == 0 ? out[d] == 0 : out[d] % in[d] == 0;
      const index_t of_axis = in[d] == 0 ? TShape::kUnknown : out[d] / in[d];
      if (!fits || (factor >= 0 && of_axis >= 0 && of_axis != factor)) {
        throw InvalidArgument(TypeString(), ": arg", i, " has shape ", in,
                              ", which no whole factor enlarges to the output, ", out);
      }
      if (of_axis >= 0) factor = of_axis;
    }
  }

  /// Completes the channels of the only image that lacks them.
  void CompleteChannels(std::vector<TShape>* in_shape, index_t channels) const {
    if (channels == TShape::kUnknown) return;
    TShape* lacking = nullptr;
    for (TShape& in : *in_shape) {
      if (in[1] != TShape::kUnknown) {
        channels -= in[1];
      } else if (lacking != nullptr) {
        return;
      } else {
        lacking = &in;
      }
    }
    if (lacking == nullptr) return;
    if (channels < 0) {
      throw InvalidArgument(TypeString(), ": the output has ", -channels,
                            " channels fewer than its images");
    }
    (*lacking)[1] = channels;
  }
};

/// One image and where it lies in the output.
struct Placement {
  TShape in;
  index_t out_channels;
  index_t first_channel;
  index_t out_height, out_width;

  /// Returns the number of the image's rows, or 0 if they have no elements.
  index_t num_rows() const { return in[3] > 0 ? in[0] * in[1] * in[2] : 0; }
  index_t factor() const { return in[3] > 0 ? out_width / in[3] : 1; }
  /// Returns the first of the output's elements that row `row` of the image becomes.
  index_t OutOffset(index_t row) const {
    const index_t y = row % in[2];
    const index_t plane = row / in[2];
    const index_t n = plane / in[1], c = plane % in[1];
    return ((n * out_channels + first_channel + c) * out_height + y * factor()) * out_width;
  }
};

class UpSamplingOperator final : public Operator {
 public:
  UpSamplingOperator(const UpSamplingParameters& param, std::span<const TShape> in_shape)
      : param_(param) {
    for (const TShape& shape : in_shape) channels_.push_back(shape[1]);
  }

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    if (param_.bilinear) {
      ConvolutionLoops loops = Loops(in_data[0], out_data[0].shape_);
      loops.Run(context.requested[0], [&] { Enlarge(in_data, req, out_data, &loops); });
      return;
    }
    index_t channel = 0;
    for (size_t i = 0; i < in_data.size(); ++i) {
      const Placement placement = Place(in_data[i].shape_, out_data[0].shape_, channel);
      const OpReqType each = param_.sum && i > 0 ? kAddTo : req[0];
      VisitComputedIn(ComputedInReal(in_data[i].type_flag_), [&](auto one) {
        Enlarge<decltype(one)>(placement, in_data[i], each, out_data[0]);
      });
      if (!param_.sum) channel += channels_[i];
    }
  }

  void Backward(const OpContext& context, std::span<const TBlob> out_grad,
                std::span<const TBlob> in_data, std::span<const TBlob>,
                std::span<const OpReqType> req, std::span<const TBlob> in_grad) override {
    const TBlob& g = out_grad[0];
    if (param_.bilinear) {
      ConvolutionLoops loops = Loops(in_data[0], g.shape_);
      loops.Run(context.requested[0], [&] { Shrink(g, in_data, req, in_grad, &loops); });
      return;
    }
    index_t channel = 0;
    for (size_t i = 0; i < in_grad.size(); ++i) {
      const index_t first_channel = channel;
      if (!param_.sum) channel += channels_[i];
      if (req[i] == kNullOp) continue;
      const Placement placement = Place(in_grad[i].shape_, g.shape_, first_channel);
      VisitComputedIn(ComputedInReal(g.type_flag_),
                      [&](auto one) { Shrink<decltype(one)>(placement, g, req[i], in_grad[i]); });
    }
  }

  std::optional<int64_t> ForwardWorkspaceBytes(int threads, std::span<const TBlob> in_data,
                                               std::span<const OpReqType> req,
                                               std::span<const TBlob> out_data) const override {
    if (!param_.bilinear || req[0] == kNullOp) return 0;
    ConvolutionLoops loops = Loops(in_data[0], out_data[0].shape_);
    return loops.WorkspaceBytes(threads, [&] { Enlarge(in_data, req, out_data, &loops); });
  }
  std::optional<int64_t> BackwardWorkspaceBytes(int threads, std::span<const TBlob> out_grad,
                                                std::span<const TBlob> in_data,
                                                std::span<const TBlob>,
                                                std::span<const OpReqType> req,
                                                std::span<const TBlob> in_grad) const override {
    if (!param_.bilinear) return 0;
    ConvolutionLoops loops = Loops(in_data[0], out_grad[0].shape_);
    return loops.WorkspaceBytes(threads,
                                [&] { Shrink(out_grad[0], in_data, req, in_grad, &loops); });
  }

 private:
  static void Enlarge(std::span<const TBlob> in_data, std::span<const OpReqType> req,
                      std::span<const TBlob> out_data, ConvolutionLoops* loops) {
    loops->Spread(in_data[0].dptr_, in_data[1].dptr_, nullptr, req[0], out_data[0].dptr_);
  }
  static void Shrink(const TBlob& g, std::span<const TBlob> in_data, std::span<const OpReqType> req,
                     std::span<const TBlob> in_grad, ConvolutionLoops* loops) {
    loops->Correlate(g.dptr_, in_data[1].dptr_, nullptr, req[0], in_grad[0].dptr_);
    loops->WeightGradient(g.dptr_, in_data[0].dptr_, req[1], in_grad[1].dptr_);
  }

  /// The convolution from the output, its image, to the data, its result.
  ConvolutionLoops Loops(const TBlob& data, const TShape& out) const {
    const index_t kernel = param_.Kernel(), scale = param_.scale, pad = scale / 2;
    return {{.batch = data.shape_[0],
             .groups = data.shape_[1],
             .channels = 1,
             .filters = 1,
             .image = SpatialExtents(out),
             .positions = SpatialExtents(data.shape_),
             .kernel = {1, kernel, kernel},
             .stride = {1, scale, scale},
             .dilate = {1, 1, 1},
             .pad = {0, pad, pad}},
            data.type_flag_};
  }

  Placement Place(const TShape& in, const TShape& out, index_t channel) const {
    return {.in = in,
            .out_channels = out[1],
            .first_channel = channel,
            .out_height = out[2],
            .out_width = out[3]};
  }

  template <typename T>
  static void Enlarge(const Placement& p, const TBlob& in, OpReqType req, const TBlob& out) {
    const index_t f = p.factor(), width = p.in[3];
    ParallelFor(p.num_rows(), StepsPerTask(width * f * f), [&](index_t begin, index_t end) {
      std::vector<T> narrow(static_cast<size_t>(width)), wide(static_cast<size_t>(width * f));
      for (index_t row = begin; row < end; ++row) {
        RowReader<T>(in).Copy(row * width, width, narrow.data());
        for (index_t x = 0; x < width; ++x) {
          std::fill_n(wide.data() + x * f, f, narrow[static_cast<size_t>(x)]);
        }
        for (index_t i = 0; i < f; ++i) {
          RowWriter<T>(out, req).Write(p.OutOffset(row) + i * width * f, width * f, wide.data());
        }
      }
    });
  }

  template <typename T>
  static void Shrink(const Placement& p, const TBlob& g, OpReqType req, const TBlob& grad) {
    const index_t f = p.factor(), width = p.in[3];
    ParallelFor(p.num_rows(), StepsPerTask(width * f * f), [&](index_t begin, index_t end) {
      std::vector<T> sums(static_cast<size_t>(width)), wide(static_cast<size_t>(width * f));
      for (index_t row = begin; row < end; ++row) {
        std::fill(sums.begin(), sums.end(), T(0));
        for (index_t i = 0; i < f; ++i) {
          const T* element =
              RowReader<T>(g).Read(p.OutOffset(row) + i * width * f, width * f, wide.data());
          for (T& sum : sums) {
            for (index_t k = 0; k < f; ++k) sum += *element++;
          }
        }
        RowWriter<T>(grad, req).Write(row * width, width, sums.data());
      }
    });
  }

  const UpSamplingParameters param_;
  std::vector<index_t> channels_;  // of each image; an unwanted gradient has no blob that tells
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<UpSamplingProperty, UpSamplingOperator>(
        TESSERA_TABLE_PLACE, "UpSampling", "Images enlarged by repeating or interpolating.");

}  // namespace
}  // namespace tessera
