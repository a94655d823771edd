// LARS (You et al. 2017), which adapts a weight's rate to its norm and to that of its gradient:
//
//   multi_lars  out[i] = lrs[i] * r[i];  r = eta * w / (g + wds[i] * w + eps), or 1 if w or g is 0
//     w = sqrt(weights_sum_sq[i]), g = rescale_grad * sqrt(grads_sum_sq[i])
//
// Shapes: any, all arrays alike. Types: float32, float64, float16, bfloat16, one for all. There is
// no gradient. Runs on the CPU.
//
// The step of a weight, which is no operator, is that of sgd_mom_update with the rate lr * r.
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/optimizer/sgd.h"
#include "tessera/ops/optimizer/update.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the driver of steps

/// Returns the factor of a rate.
double RatioOf(double eta, double epsilon, double wd, double weight_norm, double grad_norm) {
  if (!(weight_norm > 0 && grad_norm > 0)) return 1;
  return eta * weight_norm / (grad_norm + wd * weight_norm + epsilon);
}

struct LarsParameters {
  float eta = 0;
  float eps = 0;
  float rescale_grad = 1;

  static void Declare(ParameterSchema<LarsParameters>& schema) {
    using P = LarsParameters;
    schema.Required("eta", &P::eta, "factor of all rates");
    schema.Required("eps", &P::eps, "added to the divisor");
    schema.Optional("rescale_grad", &P::rescale_grad, "factor of the gradients");
  }
};

class LarsProperty final : public ParameterizedProperty<LarsParameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    return {"lrs", "weights_sum_sq", "grads_sum_sq", "wds"};
  }
  bool HasGradient() const override { return false; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    return InferStepShape(*this, ListArguments(), 0, 4, in_shape, &(*out_shape)[0]);
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
};

class LarsOperator final : public Operator {
 public:
  explicit LarsOperator(const LarsParameters& param) : param_(param) {}

  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType> req,
               std::span<const TBlob> out_data) override {
    if (req[0] == kNullOp) return;
    const RowReader<double> lrs(in_data[0]), weights(in_data[1]), grads(in_data[2]),
        wds(in_data[3]);
    const RowWriter<double> out(out_data[0], req[0]);
    for (index_t i = 0; i < in_data[0].Size(); ++i) {
      const double ratio =
          RatioOf(double{param_.eta}, double{param_.eps}, wds[i], std::sqrt(weights[i]),
                  double{param_.rescale_grad} * std::sqrt(grads[i]));
      out.Write(i, lrs[i] * ratio);
    }
  }

 private:
  const LarsParameters param_;
};

[[maybe_unused]] const bool kRegistered[] = {
    RegisterTypedOperator<LarsProperty, LarsOperator>(
        TESSERA_TABLE_PLACE, "multi_lars",
        "The learning rates of several weights, adapted by LARS."),
};

/// The gradient, to be measured.
template <typename T>
struct GradientItself {
  static constexpr std::array<const char*, 0> kStates = {};
  static constexpr index_t kCost = 0;
  T operator()(T, T grad, T*) const { return grad; }
};

void UpdateLars(std::span<const LarsRule> rules, std::span<const StepArguments> arguments,
                bool master, const OpContext& context) {
  const std::vector<StepSquares> squares = MeasureSteps<GradientItself, false>(
      arguments, []<typename T>(T, size_t) { return GradientItself<T>(); });
  const auto make = [&]<typename T>(T, size_t i) {
    LarsRule rule = rules[i];
    if (rule.adapts) {
      const double ratio = RatioOf(double{rule.eta}, double{rule.epsilon}, double{rule.wd},
                                   std::sqrt(squares[i].weight),
                                   double{rule.rescale_grad} * std::sqrt(squares[i].out));
      rule.lr = static_cast<float>(double{rule.lr} * ratio);
    }
    return MomentumStep<T>(rule);
  };
  if (master) {
    RunStepsOfTypes<MomentumStep, true>(arguments, make, context);
  } else {
    RunStepsOfTypes<MomentumStep, false>(arguments, make, context);
  }
}

[[maybe_unused]] const auto kProvided =
    (UpdateFunctionOf<LarsRule>(TESSERA_TABLE_DEVICE) = &UpdateLars);

}  // namespace
}  // namespace tessera
