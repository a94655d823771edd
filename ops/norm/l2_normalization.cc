// L2Normalization: vectors divided by their length.
//
//   out = x / norm,  norm = sqrt(sum x^2 + eps)    d x = (g - out sum g out) / norm
//
// The vectors are samples (mode=instance), the channels at each position (channel), or the
// positions of each channel (spatial). The norm is finite also if squares overflow, and a vector's
// tiny elements count also if their squares underflow and eps is 0. Shapes: data (samples, …), from
// rank 3 on for channel and spatial; out like data. Types: float32, float64, float16, bfloat16;
// computed in float32 or float64. Runs on the CPU.
#include <cmath>

#include "tessera/ops/gradient_formula.h"
#include "tessera/ops/loops/row_call.h"
#include "tessera/ops/loops/row_loop.h"
#include "tessera/ops/norm/norm_gradient.h"
#include "tessera/ops/typed_operator.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the row driver

enum class Mode { kInstance, kChannel, kSpatial };

struct L2NormalizationParameters {
  float eps = 1e-10f;
  Mode mode = Mode::kInstance;

  static void Declare(ParameterSchema<L2NormalizationParameters>& schema) {
    using P = L2NormalizationParameters;
    schema.Optional("eps", &P::eps, "added to the sum of squares");
    schema.Range(0);
    schema.Choice(
        "mode", &P::mode,
        {{"channel", Mode::kChannel}, {"instance", Mode::kInstance}, {"spatial", Mode::kSpatial}},
        "which elements make a vector");
  }
};

class L2NormalizationProperty final : public ParameterizedProperty<L2NormalizationParameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    TShape& data = (*in_shape)[0];
    MergeEqualShapes(*this, {{"data", &data}, {"output", &(*out_shape)[0]}});
    if (!data.rank_known()) return false;
    const int needed = param_.mode == Mode::kInstance ? 1 : 3;
    if (data.ndim() < needed) {
      throw InvalidArgument(TypeString(), ": data has shape ", data, ", expected at least ", needed,
                            " dimensions in this mode");
    }
    return data.known();
  }
  std::vector<int> DeclareBackwardDependency(std::span<const int> out_grad,
                                             std::span<const int> in_data,
                                             std::span<const int>) const override {
    return {out_grad[0], in_data[0]};
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
    const Term g(builder, builder->OutGrad(0)), x(builder, builder->Input(0)),
        y(builder, builder->Output(0));
    const auto reduced = [this](const char* op, const Term& term) {
      ParameterMap parameters = {{"axis", "0"}, {"exclude", "True"}, {"keepdims", "True"}};
      if (param_.mode == Mode::kChannel) parameters = {{"axis", "1"}, {"keepdims", "True"}};
      if (param_.mode == Mode::kSpatial) parameters["axis"] = "(0, 1)";
      return Apply(op, {term}, parameters).Broadcast();
    };
    const Term inverse = InverseLength("sum", x, static_cast<double>(param_.eps), reduced);
    SetInGrad(builder, 0, ((g - y * reduced("sum", g * y)) * inverse).Whole());
    return true;
  }
};

class L2NormalizationOperator final : public Operator {
 public:
  explicit L2NormalizationOperator(const L2NormalizationParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp || in_data[0].Size() == 0) return;
    const RowLayout rows = Rows(in_data[0].shape_);
    const index_t n = rows.Length();
    RowCall call(rows);
    call.Read(in_data[0]).Write(out_data[0], req[0]);
    VisitComputedIn(ComputedInReal(in_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      call.Run<T>(0, [&](index_t, const T* const* in, T* const* out) {
        const T* const x = in[0];
        T* const y = out[0];
        const T factor = static_cast<T>(1 / Norm(x, n));
        ForEach(n, [=](index_t i) TESSERA_LOOP_BODY { y[i] = x[i] * factor; });
      });
    });
  }

  void Backward(const OpContext&, std::span<const TBlob> out_grad, std::span<const TBlob> in_data,
                std::span<const TBlob>, std::span<const OpReqType> req,
                std::span<const TBlob> in_grad) override {
    if (req[0] == kNullOp || in_data[0].Size() == 0) return;
    const RowLayout rows = Rows(in_data[0].shape_);
    const index_t n = rows.Length();
    RowCall call(rows);
    call.Read(out_grad[0]).Read(in_data[0]).Write(in_grad[0], req[0]);
    VisitComputedIn(ComputedInReal(in_data[0].type_flag_), [&](auto one) {
      using T = decltype(one);
      call.Run<T>(0, [&](index_t, const T* const* in, T* const* out) {
        const T* const g = in[0];
        const T* const x = in[1];
        T* const dx = out[0];
        const auto norm = Norm(x, n);
        const T factor = static_cast<T>(1 / norm);
        const double dot =
            SumOf<T>(n, [=](index_t i) TESSERA_LOOP_BODY { return g[i] * (x[i] * factor); });
        const T slope = static_cast<T>(dot / norm);
        ForEach(n, [=](index_t i) TESSERA_LOOP_BODY { dx[i] = (g[i] - x[i] * slope) * factor; });
      });
    });
  }

 private:
  RowLayout Rows(const TShape& shape) const {
    switch (param_.mode) {
      case Mode::kInstance:
        return RowLayout::Contiguous(shape[0], shape.ProdShape(1, shape.ndim()));
      case Mode::kChannel:
        return RowLayout::Along(shape, 1);
      case Mode::kSpatial:
        break;
    }
    return RowLayout::Contiguous(shape[0] * shape[1], shape.ProdShape(2, shape.ndim()));
  }
  template <typename T>
  SquaresOf<T> Norm(const T* x, index_t n) const {
    const double eps = static_cast<double>(param_.eps);
    const auto element = [=](index_t i, auto one)
                             TESSERA_LOOP_BODY { return static_cast<decltype(one)>(x[i]); };
    return std::sqrt(SumOfSquares<T>(n, eps, element) + eps);
  }

  const L2NormalizationParameters param_;
};

[[maybe_unused]] const bool kRegistered =
    RegisterTypedOperator<L2NormalizationProperty, L2NormalizationOperator>(
        TESSERA_TABLE_PLACE, "L2Normalization", "Vectors divided by their Euclidean length.");

}  // namespace
}  // namespace tessera
