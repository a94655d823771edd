// Steps of gradient descent for several weights in one call, each with its own learning rate and
// weight decay; see sgd.cc for the formulas:
//
//   multi_sgd_update         inputs weight_0, grad_0, weight_1, …
//   multi_sgd_mom_update     weight_0, grad_0, mom_0, weight_1, …
//   multi_mp_sgd_update      weight_0, grad_0, weight32_0, weight_1, …
//   multi_mp_sgd_mom_update  weight_0, grad_0, mom_0, weight32_0, weight_1, …
//   preloaded_multi_…        the same, then the rates and the decays as arrays: lrs, wds
//
// Outputs are the new weights. Shapes: the arrays of one weight have one shape; lrs and wds have
// (num_weights). Types: float32, float64, float16, bfloat16, one for all; with mp each weight has
// its own, and mom and weight32 are float32. lrs and wds are float32. A float32 weight has no use
// for weight32, which then does not change. There is no gradient. preloaded_… read their rates on
// the host, so they run on the CPU alone.
#include <string_view>
#include <vector>

#include "tessera/ops/optimizer/multi_step.h"
#include "tessera/ops/optimizer/sgd.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the driver of steps

constexpr const char* kRates[] = {"lrs", "wds"};

/// Parameters of a step for several weights without and with momentum.
template <template <typename> class Step, bool kMaster>
struct CommonParameters : Descent {
  int num_weights = 1;

  template <typename P>
  static void DeclareRest(ParameterSchema<P>& schema) {
    if constexpr (!Step<float>::kStates.empty()) {
      schema.template Optional<float>("momentum", &P::momentum, "decay of the momenta");
    }
    schema.template Optional<float>("rescale_grad", &P::rescale_grad, "factor of the gradients");
    schema.template Optional<float>("clip_gradient", &P::clip_gradient,
                                    "bound of a gradient's element; none if negative");
    schema.template Optional<int>("num_weights", &P::num_weights, "number of weights");
    schema.Range(1, 1 << 20);
  }

  MultiStepLayout Layout() const {
    return {.num_weights = num_weights, .states = Step<float>::kStates, .master = kMaster};
  }
  Descent With(float rate, float decay) const {
    Descent one = *this;
    one.lr = rate;
    one.wd = decay;
    return one;
  }
};

template <template <typename> class Step, bool kMaster>
struct MultiParameters : CommonParameters<Step, kMaster> {
  std::vector<float> lrs;
  std::vector<float> wds;

  static void Declare(ParameterSchema<MultiParameters>& schema) {
    schema.template Required<std::vector<float>>("lrs", &MultiParameters::lrs,
                                                 "each weight's learning rate");
    schema.template Required<std::vector<float>>("wds", &MultiParameters::wds,
                                                 "each weight's decay");
    MultiParameters::DeclareRest(schema);
  }
  void Check(const OperatorProperty& property) const {
    CheckNumberOf(property, "lrs", lrs.size(), "num_weights", this->num_weights);
    CheckNumberOf(property, "wds", wds.size(), "num_weights", this->num_weights);
  }
  Descent OfWeight(size_t i, std::span<const TBlob>) const { return this->With(lrs[i], wds[i]); }
};

template <template <typename> class Step, bool kMaster>
struct PreloadedParameters : CommonParameters<Step, kMaster> {
  static void Declare(ParameterSchema<PreloadedParameters>& schema) {
    PreloadedParameters::DeclareRest(schema);
  }
  void Check(const OperatorProperty&) const {}
  MultiStepLayout Layout() const {
    MultiStepLayout layout = CommonParameters<Step, kMaster>::Layout();
    layout.shared = kRates;
    layout.shared_shape = {this->num_weights};
    return layout;
  }
  Descent OfWeight(size_t i, std::span<const TBlob> in_data) const {
    const auto rate = [&](size_t back) {
      return static_cast<const float*>(in_data[in_data.size() - back].dptr_)[i];
    };
    return this->With(rate(2), rate(1));
  }
};

template <template <typename> class Step, bool kMaster, typename Parameters>
class MultiSgdOperator final : public Operator {
 public:
  explicit MultiSgdOperator(const Parameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    RunStepsOfTypes<Step, kMaster>(
        param_.Layout().Arguments(in_data, req, out_data),
        [&]<typename T>(T, size_t i) { return Step<T>(param_.OfWeight(i, in_data)); }, context);
  }

 private:
  const Parameters param_;
};

template <template <template <typename> class, bool> class Parameters,
          template <typename> class Step, bool kMaster>
bool Register(const TablePlace& place, std::string_view name, std::string_view description) {
  using P = Parameters<Step, kMaster>;
  return RegisterTypedOperator<MultiStepProperty<P>, MultiSgdOperator<Step, kMaster, P>>(
      place, name, description);
}

[[maybe_unused]] const bool kRegistered[] = {
    Register<MultiParameters, DescentStep, false>(
        TESSERA_TABLE_PLACE, "multi_sgd_update",
        "One step of gradient descent for each of several weights."),
    Register<MultiParameters, MomentumStep, false>(
        TESSERA_TABLE_PLACE, "multi_sgd_mom_update",
        "One step of gradient descent with momentum for each of several weights."),
    Register<MultiParameters, DescentStep, true>(
        TESSERA_TABLE_PLACE, "multi_mp_sgd_update",
        "One step of gradient descent on float32 copies of several weights."),
    Register<MultiParameters, MomentumStep, true>(
        TESSERA_TABLE_PLACE, "multi_mp_sgd_mom_update",
        "One step of gradient descent with momentum on float32 copies of several weights."),
};

#if !defined(TESSERA_XPU_GPU)

[[maybe_unused]] const bool kPreloaded[] = {
    Register<PreloadedParameters, DescentStep, false>(
        TESSERA_TABLE_PLACE, "preloaded_multi_sgd_update",
        "One step of gradient descent for each of several weights, by arrays of rates."),
    Register<PreloadedParameters, MomentumStep, false>(
        TESSERA_TABLE_PLACE, "preloaded_multi_sgd_mom_update",
        "One step of gradient descent with momentum for each of several weights, by arrays of "
        "rates."),
    Register<PreloadedParameters, DescentStep, true>(
        TESSERA_TABLE_PLACE, "preloaded_multi_mp_sgd_update",
        "One step of gradient descent on float32 copies of several weights, by arrays of rates."),
    Register<PreloadedParameters, MomentumStep, true>(
        TESSERA_TABLE_PLACE, "preloaded_multi_mp_sgd_mom_update",
        "One step of gradient descent with momentum on float32 copies of several weights, by "
        "arrays of rates."),
};

#endif  // !TESSERA_XPU_GPU

}  // namespace
}  // namespace tessera
