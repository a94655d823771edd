// Steps of gradient descent for several weights in one call, each with its own learning rate and
// weight decay; see sgd.cc for the formulas:
//
//   multi_sgd_update         inputs weight_0, grad_0, weight_1, …
//   multi_sgd_mom_update     weight_0, grad_0, mom_0, weight_1, …
//   multi_mp_sgd_update      weight_0, grad_0, weight32_0, weight_1, …
//   multi_mp_sgd_mom_update  weight_0, grad_0, mom_0, weight32_0, weight_1, …
//
// Outputs are the new weights. Shapes: the arrays of one weight have one shape. Types: float32,
// float64, float16, bfloat16, one for all; with mp each weight has its own, and mom and weight32
// are float32. A float32 weight has no use for weight32, which then does not change. There is no
// gradient.
#include <vector>

#include "tessera/ops/optimizer/sgd.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the driver of steps

struct MultiSgdParameters : Descent {
  std::vector<float> lrs;
  std::vector<float> wds;
  int num_weights = 1;

  static void Declare(ParameterSchema<MultiSgdParameters>& schema) {
    DeclareRates(schema);
    DeclareRest(schema);
  }
  template <typename P>
  static void DeclareRates(ParameterSchema<P>& schema) {
    schema.template Required<std::vector<float>>("lrs", &P::lrs, "each weight's learning rate");
    schema.template Required<std::vector<float>>("wds", &P::wds, "each weight's decay");
  }
  template <typename P>
  static void DeclareRest(ParameterSchema<P>& schema) {
    schema.template Optional<float>("rescale_grad", &P::rescale_grad, "factor of the gradients");
    schema.template Optional<float>("clip_gradient", &P::clip_gradient,
                                    "bound of a gradient's element; none if negative");
    schema.template Optional<int>("num_weights", &P::num_weights, "number of weights");
    schema.Range(1);
  }

  Descent OfWeight(size_t i) const {
    Descent one = *this;
    one.lr = lrs[i];
    one.wd = wds[i];
    return one;
  }
};

struct MultiMomentumParameters : MultiSgdParameters {
  static void Declare(ParameterSchema<MultiMomentumParameters>& schema) {
    DeclareRates(schema);
    schema.Optional<float>("momentum", &MultiMomentumParameters::momentum, "decay of the momenta");
    DeclareRest(schema);
  }
};

template <typename T>
struct MultiDescent : DescentStep<T> {
  using Parameters = MultiSgdParameters;
  using DescentStep<T>::DescentStep;
};

template <typename T>
struct MultiMomentum : MomentumStep<T> {
  using Parameters = MultiMomentumParameters;
  using MomentumStep<T>::MomentumStep;
};

template <template <typename> class Step, bool kMaster>
class MultiStepProperty final : public ParameterizedProperty<typename Step<float>::Parameters> {
 public:
  static constexpr int kNumStates = static_cast<int>(Step<float>::kStates.size()) + kMaster;
  static constexpr int kArrays = 2 + kNumStates;  // of one weight

  std::vector<std::string> ListArguments() const override {
    std::vector<std::string> kinds = {"weight_", "grad_"};
    for (const char* const state : Step<float>::kStates) kinds.push_back(state + std::string("_"));
    if (kMaster) kinds.push_back("weight32_");
    std::vector<std::string> names;
    for (int i = 0; i < this->param_.num_weights; ++i) {
      for (const std::string& kind : kinds) names.push_back(kind + std::to_string(i));
    }
    return names;
  }
  std::vector<std::string> ListOutputs() const override {
    std::vector<std::string> names;
    for (int i = 0; i < this->param_.num_weights; ++i) {
      names.push_back("output" + std::to_string(i));
    }
    return names;
  }
  std::vector<int> MutatedInputs() const override {
    std::vector<int> mutated;
    for (int i = 0; i < this->param_.num_weights; ++i) {
      for (int k = 2; k < kArrays; ++k) mutated.push_back(i * kArrays + k);
    }
    return mutated;
  }
  bool HasGradient() const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    const std::vector<std::string> names = ListArguments();
    bool known = true;
    for (size_t i = 0; i < out_shape->size(); ++i) {
      known &= InferStepShape(*this, names, static_cast<int>(i) * kArrays, kArrays, in_shape,
                              &(*out_shape)[i]);
    }
    return known;
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    if (!kMaster) return OperatorProperty::InferType(in_type, out_type);
    const std::vector<std::string> names = ListArguments();
    bool known = true;
    for (size_t i = 0; i < out_type->size(); ++i) {
      known &= InferMasterStepTypes(*this, names, static_cast<int>(i) * kArrays, kArrays, in_type,
                                    &(*out_type)[i]);
    }
    return known;
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    std::vector<InplacePair> pairs;
    for (size_t i = 0; i < out_data.size(); ++i) {
      pairs.push_back({in_data[i * static_cast<size_t>(kArrays)], out_data[i]});
    }
    return pairs;
  }

 private:
  void CheckParameters() override {
    const auto check = [&](const char* name, const std::vector<float>& values) {
      if (values.size() == static_cast<size_t>(this->param_.num_weights)) return;
      throw InvalidArgument(this->TypeString(), ": parameter ", name, " has ", values.size(),
                            " numbers, expected num_weights, ", this->param_.num_weights);
    };
    check("lrs", this->param_.lrs);
    check("wds", this->param_.wds);
  }
};

template <template <typename> class Step, bool kMaster>
class MultiStepOperator final : public Operator {
 public:
  using Parameters = typename Step<float>::Parameters;
  using Property = MultiStepProperty<Step, kMaster>;

  explicit MultiStepOperator(const Parameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    constexpr auto kArrays = static_cast<size_t>(Property::kArrays);
    constexpr auto kNumStates = static_cast<size_t>(Property::kNumStates);
    std::vector<StepArguments> arguments;
    for (size_t i = 0; i < out_data.size(); ++i) {
      const auto arrays = in_data.subspan(i * kArrays, kArrays);
      const auto state_req = req.subspan(out_data.size() + i * kNumStates);
      StepArguments& step = arguments.emplace_back(
          MakeStepArguments(arrays, req[i], out_data[i], state_req, Property::kNumStates));
      if constexpr (kMaster) {
        if (step.weight.dtype != DType::kFloat32) continue;
        // MXNet computes with a float32 weight itself and leaves its copy alone.
        step.states[kNumStates - 1] = step.weight;
        step.keeps[kNumStates - 1] = false;
      }
    }
    RunStepsOfTypes<Step, kMaster>(
        arguments, [&]<typename T>(T, size_t i) { return Step<T>(param_.OfWeight(i)); }, context);
  }

 private:
  const Parameters param_;
};

template <template <typename> class Step, bool kMaster>
bool Register(const TablePlace& place, std::string_view name, std::string_view description) {
  return RegisterTypedOperator<MultiStepProperty<Step, kMaster>, MultiStepOperator<Step, kMaster>>(
      place, name, description);
}

[[maybe_unused]] const bool kRegistered[] = {
    Register<MultiDescent, false>(TESSERA_TABLE_PLACE, "multi_sgd_update",
                                  "One step of gradient descent for each of several weights."),
    Register<MultiMomentum, false>(
        TESSERA_TABLE_PLACE, "multi_sgd_mom_update",
        "One step of gradient descent with momentum for each of several weights."),
    Register<MultiDescent, true>(
        TESSERA_TABLE_PLACE, "multi_mp_sgd_update",
        "One step of gradient descent on float32 copies of several weights."),
    Register<MultiMomentum, true>(
        TESSERA_TABLE_PLACE, "multi_mp_sgd_mom_update",
        "One step of gradient descent with momentum on float32 copies of several weights."),
};

}  // namespace
}  // namespace tessera
