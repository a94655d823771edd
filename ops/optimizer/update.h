#ifndef TESSERA_OPS_OPTIMIZER_UPDATE_H_
#define TESSERA_OPS_OPTIMIZER_UPDATE_H_

#include <span>

#include "tessera/base/device.h"
#include "tessera/base/error.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/optimizer/step_arguments.h"

/// Steps of optimizers as functions of numbers: what the registered operators compute, for callers
/// whose rates change with every step. A rule is a struct of the numbers of one weight's step;
/// sgd.cc, adam.cc, adamw.cc, adaptive.cc, lamb.cc and lars.cc have the formulas. A rule steps on
/// each element alone unless it has kUsesNorms.
namespace tessera::ops_internal {

/// The numbers of a step of gradient descent.
struct Descent {
  float lr = 0;
  float momentum = 0;
  float wd = 0;
  float rescale_grad = 1;
  float clip_gradient = -1;  ///< bound of a gradient's element; none if negative
};

/// Gradient descent. Its state, if it has a momentum, is the momentum.
struct SgdRule : Descent {
  static constexpr const char* kName = "SGD";
  static constexpr int kNumStates = 0;
};
struct MomentumRule : Descent {
  static constexpr const char* kName = "SGD with momentum";
  static constexpr int kNumStates = 1;
};
struct NagRule : Descent {
  static constexpr const char* kName = "NAG";
  static constexpr int kNumStates = 1;
};
/// Steps along the signs of the gradient, or of its momentum.
struct SignSgdRule : Descent {
  static constexpr const char* kName = "signSGD";
  static constexpr int kNumStates = 0;
};
struct SignumRule : Descent {
  static constexpr const char* kName = "Signum";
  static constexpr int kNumStates = 1;
  float wd_lh = 0;
};

/// Adam without correction of the states' start at 0, which the caller puts into the rate. States:
/// mean, variance.
struct AdamRule {
  static constexpr const char* kName = "Adam";
  static constexpr int kNumStates = 2;
  float lr = 0;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float wd = 0;
  float rescale_grad = 1;
  float clip_gradient = -1;
};

/// Adam whose weight decay is no part of the gradient. States: mean, variance.
struct AdamWRule : AdamRule {
  static constexpr const char* kName = "AdamW";
  float eta = 1;  ///< the factor of the whole step
};

/// Adam by the largest gradient in place of the variance. States: mean, largest gradient.
struct AdamaxRule {
  static constexpr const char* kName = "Adamax";
  static constexpr int kNumStates = 2;
  float lr = 0;  ///< including the correction of the mean's start at 0
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float wd = 0;
  float rescale_grad = 1;
  float clip_gradient = -1;
};

/// RMSProp. States: the mean square; with a variance also the mean and the last step.
struct RmsPropRule {
  static constexpr const char* kName = "RMSProp";
  static constexpr int kNumStates = 1;
  float lr = 0;
  float gamma1 = 0.95f;
  float epsilon = 1e-8f;
  float wd = 0;
  float rescale_grad = 1;
  float clip_gradient = -1;
  float clip_weights = -1;  ///< bound of a weight; none if negative
};
struct RmsPropAlexRule : RmsPropRule {
  static constexpr const char* kName = "RMSProp by the variance";
  static constexpr int kNumStates = 3;
  float gamma2 = 0.9f;
};

/// FTML, follow the moving leader. States: d, v, z.
struct FtmlRule {
  static constexpr const char* kName = "FTML";
  static constexpr int kNumStates = 3;
  float lr = 0;
  float beta1 = 0.6f;
  float beta2 = 0.999f;
  double epsilon = 1e-8f;
  int t = 1;  ///< the number of this step, from 1
  float wd = 0;
  float rescale_grad = 1;
  float clip_grad = -1;
};

/// FTRL, follow the regularized leader. States: z, n.
struct FtrlRule {
  static constexpr const char* kName = "FTRL";
  static constexpr int kNumStates = 2;
  float lr = 0;
  float lamda1 = 0.01f;
  float beta = 1;
  float wd = 0;
  float rescale_grad = 1;
  float clip_gradient = -1;
};

/// AdaGrad. State: the sum of squares.
struct AdagradRule {
  static constexpr const char* kName = "AdaGrad";
  static constexpr int kNumStates = 1;
  float lr = 0;
  float epsilon = 1e-7f;
  float wd = 0;
  float rescale_grad = 1;
  float clip_gradient = -1;
};

/// AdaDelta. States: the mean squares of the gradient and of the step.
struct AdaDeltaRule {
  static constexpr const char* kName = "AdaDelta";
  static constexpr int kNumStates = 2;
  float lr = 1;
  float rho = 0.9f;
  float epsilon = 1e-5f;
  float wd = 0;
  float rescale_grad = 1;
  float clip_gradient = -1;
};

/// LAMB. States: mean, variance.
struct LambRule {
  static constexpr const char* kName = "LAMB";
  static constexpr bool kUsesNorms = true;
  static constexpr int kNumStates = 2;
  float lr = 0;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-6f;
  int t = 1;  ///< the number of this step, from 1
  bool bias_correction = true;
  float wd = 0;
  float rescale_grad = 1;
  float clip_gradient = -1;
  float lower_bound = -1;  ///< least norm of the weight; none if negative
  float upper_bound = -1;  ///< largest norm of the weight; none if negative
};

/// LARS. State: the momentum.
struct LarsRule : Descent {
  static constexpr const char* kName = "LARS";
  static constexpr bool kUsesNorms = true;
  static constexpr int kNumStates = 1;
  float eta = 0.001f;
  float epsilon = 0;
  bool adapts = true;  ///< whether the ratio of norms counts; else the step is that of MomentumRule
};

/// Takes a step for each of several weights of one type: rules[i] with arguments[i]. With a master
/// copy the weights' copies in float32 are the last states.
template <typename Rule>
using UpdateFunction = void (*)(std::span<const Rule> rules,
                                std::span<const StepArguments> arguments, bool master,
                                const OpContext& context);

/// Returns where the function of a rule for one kind of device is registered; null without one.
/// Static initializers write it, and nothing else does.
template <typename Rule>
UpdateFunction<Rule>& UpdateFunctionOf(DeviceType device) {
  static UpdateFunction<Rule> functions[2] = {};
  return functions[device == DeviceType::kGpu ? 1 : 0];
}

/// Takes steps on a device, as UpdateFunction says. Requires: as many rules as arguments, at least
/// one. Throws Error(kUnimplemented) if the build has no code for the device.
template <typename Rule>
void Update(DeviceType device, std::span<const Rule> rules,
            std::span<const StepArguments> arguments, bool master, const OpContext& context) {
  const UpdateFunction<Rule> function = UpdateFunctionOf<Rule>(device);
  if (function == nullptr) {
    throw Unimplemented(Rule::kName, ": no step for a ", device == DeviceType::kGpu ? "GPU" : "CPU",
                        " in this program");
  }
  function(rules, arguments, master, context);
}

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_OPTIMIZER_UPDATE_H_
