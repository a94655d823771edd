// LAMB (You et al. 2019) in two steps, between which the caller computes norms:
//
//   lamb_update_phase1  g = clip(rescale_grad * grad, clip_gradient)
//                       mean = beta1 * mean + (1 - beta1) * g
//                       var = beta2 * var + (1 - beta2) * g^2
//                       out = m / (sqrt(v) + epsilon) + wd * weight
//     m, v: mean and var; with bias_correction mean / (1 - beta1^t), var / (1 - beta2^t)
//   lamb_update_phase2  weight -= lr * r * g;  r = 1 if r1 or r2 is 0, else
//                       min(max(r1, lower_bound), upper_bound) / r2
//
// g is the first step's output, r1 the norm of the weight and r2 that of g. Negative bounds are
// none. Shapes: any, all arrays alike; r1 and r2 (1). Types: float32, float64, float16, bfloat16.
// mp_… computes in float32: weight32 is read in place of the weight, and the second step changes
// it; mean, var, g, r1 and r2 are float32. There is no gradient. The second step reads r1 and r2 on
// the host, so it runs on the CPU alone.
#include <algorithm>
#include <cmath>

#include "tessera/ops/loops/typed_row.h"
#include "tessera/ops/optimizer/step_function.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: the driver of steps

struct Phase1Parameters {
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-6f;
  int t = 1;
  bool bias_correction = true;
  float wd = 0;
  float rescale_grad = 1;
  float clip_gradient = -1;

  static void Declare(ParameterSchema<Phase1Parameters>& schema) {
    using P = Phase1Parameters;
    schema.Optional("beta1", &P::beta1, "decay of the mean");
    schema.Optional("beta2", &P::beta2, "decay of the variance");
    schema.Optional("epsilon", &P::epsilon, "added to the square root of the variance");
    schema.Required("t", &P::t, "the number of this step, from 1");
    schema.Range(1);
    schema.Optional("bias_correction", &P::bias_correction, "correct for the states' start at 0");
    schema.Required("wd", &P::wd, "weight decay");
    schema.Optional("rescale_grad", &P::rescale_grad, "factor of the gradient");
    schema.Optional("clip_gradient", &P::clip_gradient,
                    "bound of a gradient's element; none if negative");
  }
};

template <typename T>
struct Phase1 {
  using Parameters = Phase1Parameters;
  static constexpr std::array<const char*, 2> kStates = {"mean", "var"};
  static constexpr index_t kCost = 8;
  ClippedGradient<T> clipped;
  T beta1, beta2, epsilon, wd, mean_share = 1, var_share = 1;

  explicit Phase1(const Parameters& p)
      : clipped(p.rescale_grad, p.clip_gradient),
        beta1(static_cast<T>(p.beta1)),
        beta2(static_cast<T>(p.beta2)),
        epsilon(static_cast<T>(p.epsilon)),
        wd(static_cast<T>(p.wd)) {
    if (!p.bias_correction) return;
    mean_share = static_cast<T>(1 - std::pow(double{p.beta1}, p.t));
    var_share = static_cast<T>(1 - std::pow(double{p.beta2}, p.t));
  }
  TESSERA_HD T operator()(T weight, T grad, T* state) const {
    const T g = clipped(grad);
    state[0] = Scaled(beta1, state[0]) + (T(1) - beta1) * g;
    state[1] = Scaled(beta2, state[1]) + (T(1) - beta2) * g * g;
    return state[0] / mean_share / (std::sqrt(state[1] / var_share) + epsilon) + Scaled(wd, weight);
  }
};

/// Merges two known or unknown element types.
void MeetType(const OperatorProperty& property, const char* what, DType* dtype, DType known) {
  if (*dtype == DType::kUnknown) *dtype = known;
  if (known != DType::kUnknown && *dtype != known) {
    throw InvalidArgument(property.TypeString(), ": ", what, " has element type ", *dtype,
                          ", expected ", known);
  }
}

class MasterPhase1Property final : public ParameterizedProperty<Phase1Parameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    return {"weight", "grad", "mean", "var", "weight32"};
  }
  std::vector<int> MutatedInputs() const override { return {2, 3}; }
  bool HasGradient() const override { return false; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    return InferStepShape(*this, ListArguments(), 0, 5, in_shape, &(*out_shape)[0]);
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    MeetType(*this, "output", &(*out_type)[0], DType::kFloat32);
    DType weight = DType::kUnknown;
    return InferMasterStepTypes(*this, ListArguments(), 0, 5, in_type, &weight);
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[4], out_data[0]}};
  }
};

class MasterPhase1Operator final : public Operator {
 public:
  explicit MasterPhase1Operator(const Phase1Parameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    const TBlob arrays[] = {in_data[4], in_data[1], in_data[2], in_data[3]};
    const StepArguments arguments =
        MakeStepArguments(arrays, req[0], out_data[0], req.subspan(1), 2);
    RunStepsOfTypes<Phase1, false>(
        {&arguments, 1}, [&]<typename T>(T, size_t) { return Phase1<T>(param_); }, context);
  }

 private:
  const Phase1Parameters param_;
};

[[maybe_unused]] const bool kPhase1[] = {
    RegisterStep<Phase1>(TESSERA_TABLE_PLACE, "lamb_update_phase1",
                         "The first step of LAMB: the direction."),
    RegisterTypedOperator<MasterPhase1Property, MasterPhase1Operator>(
        TESSERA_TABLE_PLACE, "mp_lamb_update_phase1",
        "The first step of LAMB on a float32 copy of the weight: the direction."),
};

#if !defined(TESSERA_XPU_GPU)

struct Phase2Parameters {
  float lr = 0;
  float lower_bound = -1;
  float upper_bound = -1;

  static void Declare(ParameterSchema<Phase2Parameters>& schema) {
    using P = Phase2Parameters;
    schema.Required("lr", &P::lr, "learning rate");
    schema.Optional("lower_bound", &P::lower_bound, "least norm of the weight; none if negative");
    schema.Optional("upper_bound", &P::upper_bound, "largest norm of the weight; none if negative");
  }
};

/// weight - rate * g.
template <typename T>
struct Phase2 {
  static constexpr std::array<const char*, 0> kStates = {};
  static constexpr index_t kCost = 0;
  T rate;
  TESSERA_HD T operator()(T weight, T g, T*) const { return weight - rate * g; }
};

template <bool kMaster>
class Phase2Property final : public ParameterizedProperty<Phase2Parameters> {
 public:
  std::vector<std::string> ListArguments() const override {
    if (kMaster) return {"weight", "g", "r1", "r2", "weight32"};
    return {"weight", "g", "r1", "r2"};
  }
  std::vector<int> MutatedInputs() const override {
    if (kMaster) return {4};
    return {};
  }
  bool HasGradient() const override { return false; }

  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    std::vector<TShape>& in = *in_shape;
    MergeShape(*this, "r1", &in[2], {1});
    MergeShape(*this, "r2", &in[3], {1});
    if (kMaster) MergeShape(*this, "weight32", &in[4], in[0]);
    if (kMaster) MergeShape(*this, "weight", &in[0], in[4]);
    const bool known = InferStepShape(*this, ListArguments(), 0, 2, in_shape, &(*out_shape)[0]);
    if (kMaster) MergeShape(*this, "weight32", &in[4], in[0]);
    return known;
  }
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override {
    if (!kMaster) return OperatorProperty::InferType(in_type, out_type);
    std::vector<DType>& in = *in_type;
    MeetType(*this, "g", &in[1], DType::kFloat32);
    MeetType(*this, "r1", &in[2], DType::kFloat32);
    MeetType(*this, "r2", &in[3], DType::kFloat32);
    MeetType(*this, "weight32", &in[4], DType::kFloat32);
    MeetType(*this, "output", &(*out_type)[0], in[0]);
    in[0] = (*out_type)[0];
    return in[0] != DType::kUnknown;
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
};

template <bool kMaster>
class Phase2Operator final : public Operator {
 public:
  explicit Phase2Operator(const Phase2Parameters& param) : param_(param) {}

  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    const TBlob arrays[] = {in_data[0], in_data[1], in_data[kMaster ? 4 : 0]};
    const StepArguments arguments =
        MakeStepArguments(arrays, req[0], out_data[0], req.subspan(1), kMaster ? 1 : 0);
    const double rate = Rate(in_data[2], in_data[3]);
    RunStepsOfTypes<Phase2, kMaster>(
        {&arguments, 1}, [&]<typename T>(T, size_t) { return Phase2<T>{static_cast<T>(rate)}; },
        context);
  }

 private:
  double Rate(const TBlob& r1, const TBlob& r2) const {
    double weight = RowReader<double>(r1)[0];
    const double g = RowReader<double>(r2)[0];
    if (param_.lower_bound >= 0) weight = std::max(weight, double{param_.lower_bound});
    if (param_.upper_bound >= 0) weight = std::min(weight, double{param_.upper_bound});
    const double lr = double{param_.lr};
    return weight == 0 || g == 0 ? lr : lr * weight / g;
  }

  const Phase2Parameters param_;
};

[[maybe_unused]] const bool kPhase2[] = {
    RegisterTypedOperator<Phase2Property<false>, Phase2Operator<false>>(
        TESSERA_TABLE_PLACE, "lamb_update_phase2",
        "The second step of LAMB: the weight, by the ratio of norms."),
    RegisterTypedOperator<Phase2Property<true>, Phase2Operator<true>>(
        TESSERA_TABLE_PLACE, "mp_lamb_update_phase2",
        "The second step of LAMB on a float32 copy of the weight."),
};

#endif  // !TESSERA_XPU_GPU

}  // namespace
}  // namespace tessera
