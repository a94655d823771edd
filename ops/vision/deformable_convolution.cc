// _contrib_DeformableConvolution and _contrib_ModulatedDeformableConvolution: convolutions over
// images whose taps are moved, each at each position, by an offset. The second one also multiplies
// each by a factor, the mask.
//
//   out[n][f][p] = bias[f] + sum_{c,t} weight[f][c][t] * mask[n][(g, t)][p] * data[n][c](y, x)
//   (y, x) = p * stride + t * dilate - pad + offset[n][(g, t)][p],  between pixels by linear
//   interpolation, and 0 outside of the pixels' rows and columns
//
// The sum is over the channels of f's group and the kernel's taps. g is the channel's deformable
// group. A point less than a pixel outside is, without mask, 0 before the first row or column and
// the edge's value behind the last one; with mask, the image continues there to 0. Gradients: of
// data, the gradient of a tap times its pixel's weight; of offset, the sum over the channels of g
// of the gradient times the slope between the pixels; of mask, that of the gradient times the
// value; of weight and bias, as in Convolution. Shapes: data (n, channel, height, width); offset
// (n, groups * taps * 2, out_height, out_width), for each tap y then x; mask (n, groups * taps,
// out_height, out_width); weight (num_filter, channel / num_group, kernel); bias (num_filter); out
// (n, num_filter, out_height, out_width). Types: float32, float64, float16, bfloat16; the last two
// are computed in float32. Run on the CPU. Dai et al., Deformable Convolutional Networks, 2017,
// section 2.1; Zhu et al., Deformable ConvNets v2, 2019, section 3.2.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/at.h"
#include "tessera/ops/loops/elements.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/typed_operator.h"
#include "tessera/ops/vision/moved_taps.h"
#include "tessera/ops/windows/convolution_loops.h"
#include "tessera/ops/windows/convolution_parameters.h"
#include "tessera/ops/windows/window_parameters.h"
#include "tessera/tensor/linalg/gemm.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: windows and registration
using base_internal::At;

struct DeformableConvolutionParameters {
  static constexpr bool kHasMask = false;

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

  /// Declares the fields above for the schema of this struct or of one derived from it.
  template <typename Schema>
  static void DeclareShared(Schema& schema) {
    using P = DeformableConvolutionParameters;
    schema.template Required<TShape>("kernel", &P::kernel, "the window: (y, x)");
    schema.template Optional<TShape>("stride", &P::stride,
                                     "distance between windows; 1 if left out");
    schema.template Optional<TShape>("dilate", &P::dilate,
                                     "distance between a window's taps; 1 if left out");
    schema.template Optional<TShape>("pad", &P::pad, "zeros added on every side; 0 if left out");
    schema.template Required<int64_t>("num_filter", &P::num_filter, "output channels");
    schema.Range(1, 1 << 24);
    schema.template Optional<int64_t>("num_group", &P::num_group,
                                      "groups of channels that do not mix");
    schema.Range(1, 1 << 24);
    schema.template Optional<int64_t>("num_deformable_group", &P::num_deformable_group,
                                      "groups of channels with offsets of their own");
    schema.Range(1, 1 << 24);
    schema.template Optional<int64_t>("workspace", &P::workspace,
                                      "accepted for old graphs; not used");
    schema.template Optional<bool>("no_bias", &P::no_bias, "leave the bias out");
    schema.template Optional<std::string>("layout", &P::layout, "None or NCHW");
  }
  static void Declare(ParameterSchema<DeformableConvolutionParameters>& schema) {
    DeclareShared(schema);
  }
};

struct ModulatedDeformableConvolutionParameters : DeformableConvolutionParameters {
  static constexpr bool kHasMask = true;

  int64_t im2col_step = 64;

  static void Declare(ParameterSchema<ModulatedDeformableConvolutionParameters>& schema) {
    using P = ModulatedDeformableConvolutionParameters;
    DeclareShared(schema);
    schema.Optional("im2col_step", &P::im2col_step, "accepted for old graphs; not used");
    schema.Range(1, int64_t{1} << 32);
  }
};

/// The positions of the operator's arguments.
template <typename Parameters>
struct ArgumentsOf {
  static constexpr size_t kData = 0, kOffset = 1, kMask = 2;
  static constexpr size_t kWeight = Parameters::kHasMask ? 3 : 2, kBias = kWeight + 1;
};

template <typename Parameters>
class DeformableConvolutionProperty final : public ParameterizedProperty<Parameters> {
 public:
  using OperatorProperty::TypeString;

  std::vector<std::string> ListArguments() const override {
    std::vector<std::string> names = {"data", "offset"};
    if (Parameters::kHasMask) names.push_back("mask");
    names.push_back("weight");
    if (!param_.no_bias) names.push_back("bias");
    return names;
  }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[Arg::kData];
    constexpr index_t kUnknown = TShape::kUnknown;
    if (!param_.no_bias) {
      MergeShape(*this, "bias", &(*in_shape)[Arg::kBias], {param_.num_filter});
    }
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
    MergeShape(*this, "weight", &(*in_shape)[Arg::kWeight], weight);
    MergePositions(in_shape, &(*out_shape)[0]);
    return data.known() && (*in_shape)[Arg::kWeight].known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    std::vector<int> ids(in_data.begin(), in_data.begin() + Arg::kBias);
    ids.insert(ids.begin(), out_grad[0]);
    return ids;
  }

 private:
  using Arg = ArgumentsOf<Parameters>;
  using ParameterizedProperty<Parameters>::param_;

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

  /// Completes the samples and positions that data, offset, mask and output share.
  void MergePositions(std::vector<TShape>* in_shape, TShape* out) const {
    TShape& data = (*in_shape)[Arg::kData];
    TShape common = {data[0], OutExtent(data, 2), OutExtent(data, 3)};
    const auto merge = [&](std::string_view what, TShape* shape, index_t channels) {
      MergeShape(*this, what, shape, {common[0], channels, common[1], common[2]});
      common = {(*shape)[0], (*shape)[2], (*shape)[3]};
    };
    const TShape factors = {param_.num_deformable_group, param_.kernel[0], param_.kernel[1], 2};
    const index_t offsets = ProductOfExtents(*this, "offset", factors, 0, 4);
    for (int pass = 0; pass < 2; ++pass) {
      merge("offset", &(*in_shape)[Arg::kOffset], offsets);
      if (Parameters::kHasMask) merge("mask", &(*in_shape)[Arg::kMask], offsets / 2);
      merge("output", out, param_.num_filter);
    }
    data[0] = common[0];
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

template <typename Parameters>
class DeformableConvolutionOperator final : public Operator {
 public:
  explicit DeformableConvolutionOperator(const Parameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp || out_data[0].shape_.Size() == 0) return;
    VisitComputedIn(ComputedInReal(out_data[0].type_flag_),
                    [&](auto one) { Convolve<decltype(one)>(in_data, req[0], out_data[0]); });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (!param_.no_bias) SumByChannel(out_grad[0], req[Arg::kBias], in_grad[Arg::kBias]);
    if (in_data[Arg::kData].shape_.Size() == 0 || in_data[Arg::kOffset].shape_.Size() == 0) {
      for (size_t i = 0; i < Arg::kBias; ++i) StoreZeros(req[i], in_grad[i]);
      return;
    }
    VisitComputedIn(ComputedInReal(out_grad[0].type_flag_), [&](auto one) {
      Gradients<decltype(one)>(out_grad[0], in_data, req, in_grad);
    });
  }

 private:
  using Arg = ArgumentsOf<Parameters>;

  MovedTapsGeometry Geometry(const TShape& data, const TShape& out) const {
    return MovedTapsGeometry("DeformableConvolution", param_, data, out);
  }
  template <typename T>
  static MovedTaps<T> Taps(const MovedTapsGeometry& g, std::span<const TBlob> in_data) {
    return MovedTaps<T>(g, Parameters::kHasMask ? TapBorder::kZero : TapBorder::kClamp,
                        in_data[Arg::kOffset],
                        Parameters::kHasMask ? &in_data[Arg::kMask] : nullptr);
  }

  template <typename T>
  void Convolve(std::span<const TBlob> in_data, OpReqType req, const TBlob& out) const {
    const TShape& shape = in_data[0].shape_;
    const MovedTapsGeometry g = Geometry(shape, out.shape_);
    const Elements<T> data(in_data[Arg::kData]), weight(in_data[Arg::kWeight]);
    std::vector<T> biases(At(g.filters), T(0));
    if (!param_.no_bias) {
      const TBlob& bias = in_data[Arg::kBias];
      RowReader<T>(bias).Copy(0, g.filters, biases.data());
    }
    const bool empty = shape.Size() == 0;
    MovedTaps<T> taps = Taps<T>(g, in_data);
    std::vector<T> columns(At(empty ? 0 : g.Rows() * g.positions)),
        sums(At(g.filters * g.positions));
    for (index_t n = 0; n < g.batch; ++n) {
      for (index_t f = 0; f < g.filters; ++f) {
        std::fill_n(sums.data() + f * g.positions, g.positions, biases[At(f)]);
      }
      if (!empty) {
        taps.Move(n);
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
      RowWriter<T>(out, req).Write(n * g.filters * g.positions, g.filters * g.positions,
                                   sums.data());
    }
  }

  template <typename T>
  void Gradients(const TBlob& out_grad, std::span<const TBlob> in_data,
                 std::span<const OpReqType> req, std::span<const TBlob> in_grad) const {
    const MovedTapsGeometry g = Geometry(in_data[0].shape_, out_grad.shape_);
    const Elements<T> data(in_data[Arg::kData]), weight(in_data[Arg::kWeight]), head(out_grad);
    MovedTaps<T> taps = Taps<T>(g, in_data);
    std::vector<T> columns(At(g.Rows() * g.positions));
    std::vector<T> of_weight(At(g.filters * g.GroupRows()), T(0));
    const OpReqType weight_req = req[Arg::kWeight];
    const bool moves = std::any_of(req.begin(), req.begin() + Arg::kWeight,
                                   [](OpReqType r) { return r != kNullOp; });
    for (index_t n = 0; n < g.batch; ++n) {
      const T* const image = data.data() + n * g.channels * g.PlaneSize();
      const T* const of_out = head.data() + n * g.filters * g.positions;
      taps.Move(n);
      if (weight_req != kNullOp) {
        taps.Unpack(image, columns.data());
        AddWeightGradient(g, of_out, columns.data(), of_weight.data());
      }
      if (!moves) continue;
      ColumnGradient(g, weight.data(), of_out, columns.data());
      taps.ImageGradient(columns.data(), req[Arg::kData], in_grad[Arg::kData]);
      taps.OffsetGradient(image, columns.data(), req[Arg::kOffset], in_grad[Arg::kOffset]);
      if (!Parameters::kHasMask) continue;
      taps.ScaleGradient(image, columns.data(), req[Arg::kMask], in_grad[Arg::kMask]);
    }
    if (weight_req == kNullOp) return;
    const TBlob& grad = in_grad[Arg::kWeight];
    RowWriter<T>(grad, weight_req).Write(0, g.filters * g.GroupRows(), of_weight.data());
  }

  template <typename T>
  static void AddWeightGradient(const MovedTapsGeometry& g, const T* of_out, const T* columns,
                                T* sums) {
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
  static void ColumnGradient(const MovedTapsGeometry& g, const T* weight, const T* of_out,
                             T* columns) {
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

  const Parameters param_;
};

template <typename Parameters>
bool Register(const TablePlace& place, std::string_view name, std::string_view description) {
  return RegisterTypedOperator<DeformableConvolutionProperty<Parameters>,
                               DeformableConvolutionOperator<Parameters>>(place, name, description);
}

[[maybe_unused]] const bool kRegistered =
    Register<DeformableConvolutionParameters>(TESSERA_TABLE_PLACE, "_contrib_DeformableConvolution",
                                              "A convolution whose taps are moved by offsets.") &&
    Register<ModulatedDeformableConvolutionParameters>(
        TESSERA_TABLE_PLACE, "_contrib_ModulatedDeformableConvolution",
        "A convolution whose taps are moved by offsets and multiplied by a mask.");

}  // namespace
}  // namespace tessera
