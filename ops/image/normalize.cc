// _image_normalize: images whose channels have their means subtracted and are divided by their
// deviations.
//
//   out[c][y][x] = (data[c][y][x] - mean[c]) / std[c]     d data = g / std[c]
//
// One mean, or one std, is that of all channels. Shapes: data and out (channels, height, width) or
// (images, channels, height, width). Types: float32, float64, float16, bfloat16; the last two are
// computed in float32. Runs on the CPU.
#include <vector>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/image/image_shape.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: rows and registration

struct NormalizeParameters {
  std::vector<float> mean = {0, 0, 0, 0};
  std::vector<float> std = {1, 1, 1, 1};

  static void Declare(ParameterSchema<NormalizeParameters>& schema) {
    using P = NormalizeParameters;
    schema.Optional("mean", &P::mean, "each channel's mean, or one for all");
    schema.Optional("std", &P::std, "each channel's deviation, or one for all");
  }
};

class NormalizeProperty final : public ParameterizedProperty<NormalizeParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape &data = (*in_shape)[0], &out = (*out_shape)[0];
    if (!MergeImageRanks(*this, "(channels, height, width) or (images, channels, height, width)",
                         &data, &out)) {
      return false;
    }
    MergeEqualShapes(*this, {{"data", &data}, {"output", &out}});
    CheckCount("mean", param_.mean, data);
    CheckCount("std", param_.std, data);
    return data.known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad, std::span<const int>,
                                             std::span<const int>) const override {
    return {out_grad[0]};
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
  std::vector<InplacePair> BackwardInplaceOption(std::span<const int> out_grad,
                                                 std::span<const int>, std::span<const int>,
                                                 std::span<const int> in_grad) const override {
    return {{out_grad[0], in_grad[0]}};
  }
  bool BuildGradient(GradientBuilder* builder) const override {
    ParameterMap parameters = GetParams();
    parameters["mean"] = "(0,)";
    return BuildLinearGradient(*this, parameters, builder);
  }

 private:
  void CheckCount(std::string_view name, const std::vector<float>& values,
                  const TShape& data) const {
    const index_t channels = data[data.ndim() - 3], count = static_cast<index_t>(values.size());
    if (count == 1 || channels == TShape::kUnknown || count == channels) return;
    throw InvalidArgument(TypeString(), ": ", name, " has ", count, " elements, but data of shape ",
                          data, " has ", channels, " channels; expected one for all or one for ",
                          "each");
  }
};

class NormalizeOperator final : public Operator {
 public:
  explicit NormalizeOperator(const NormalizeParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    Scale(in_data[0], param_.mean, req[0], out_data[0]);
  }
  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob>,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    Scale(out_grad[0], {0}, req[0], in_grad[0]);
  }

 private:
  /// Computes (in - mean) / std for each channel.
  void Scale(const TBlob& in, const std::vector<float>& mean, OpReqType req,
             const TBlob& out) const {
    const TShape& shape = in.shape_;
    if (req == kNullOp || shape.Size() == 0) return;
    const int rank = shape.ndim();
    const index_t channels = shape[rank - 3], length = shape[rank - 2] * shape[rank - 1];
    RowCall call(RowLayout::Contiguous(shape.ProdShape(0, rank - 2), length));
    call.Read(in).Write(out, req);
    const auto of = [](const std::vector<float>& values, index_t c) {
      return values.size() == 1 ? values[0] : values[static_cast<size_t>(c)];
    };
    VisitComputedIn(ComputedInReal(in.type_flag_), [&](auto one) {
      using T = decltype(one);
      call.Run<T>(kCost, [&](index_t row, const T* const* from, T* const* to) {
        const T mean_c = static_cast<T>(of(mean, row % channels));
        const T std_c = static_cast<T>(of(param_.std, row % channels));
        const T* const x = from[0];
        T* const y = to[0];
        ForEach(length, [=](index_t i) TESSERA_LOOP_BODY { y[i] = (x[i] - mean_c) / std_c; });
      });
    });
  }

  static constexpr index_t kCost = 1;
  const NormalizeParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<NormalizeProperty, NormalizeOperator>(
        TESSERA_TABLE_PLACE, "_image_normalize",
        "The channels of images less their means, divided by their deviations.");

}  // namespace
}  // namespace tessera
