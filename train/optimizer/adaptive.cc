#include "tessera/train/adaptive.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>

#include "tessera/ops/optimizer/update.h"
#include "tessera/train/optimizer/rates.h"
#include "tessera/train/optimizer/rule.h"

namespace tessera {
namespace {

using namespace ops_internal;    // NOLINT: the rules
using namespace train_internal;  // NOLINT: what makes rules of them

using SharedRule = std::shared_ptr<const Rule>;

/// Returns a rule whose numbers are these with the step's rates.
template <typename R>
SharedRule RuleWith(const R& rule) {
  return MakeRule<R>([rule](const StepRates& rates) { return WithRates(rule, rates); });
}

SharedRule AdaGradOf(const AdaGradOptions& options) {
  AdagradRule rule;
  rule.epsilon = NotNegative("AdaGrad", "epsilon", options.epsilon);
  return RuleWith(rule);
}

SharedRule AdaDeltaOf(const AdaDeltaOptions& options) {
  AdaDeltaRule rule;
  rule.rho = DecayOf("AdaDelta", "rho", options.rho);
  rule.epsilon = NotNegative("AdaDelta", "epsilon", options.epsilon);
  return RuleWith(rule);
}

/// Sets the numbers of both forms of RMSProp.
void SetNumbers(const RmsPropOptions& options, RmsPropRule* rule) {
  rule->gamma1 = DecayOf("RmsProp", "gamma1", options.gamma1);
  rule->epsilon = NotNegative("RmsProp", "epsilon", options.epsilon);
  rule->clip_weights = static_cast<float>(options.clip_weights);
}

SharedRule RmsPropOf(const RmsPropOptions& options) {
  if (options.centered) {
    RmsPropAlexRule rule;
    SetNumbers(options, &rule);
    rule.gamma2 = DecayOf("RmsProp", "gamma2", options.gamma2);
    return RuleWith(rule);
  }
  RmsPropRule rule;
  SetNumbers(options, &rule);
  return RuleWith(rule);
}

SharedRule FtrlOf(const FtrlOptions& options) {
  FtrlRule rule;
  rule.lamda1 = NotNegative("Ftrl", "lamda1", options.lamda1);
  rule.beta = NotNegative("Ftrl", "beta", options.beta);
  return RuleWith(rule);
}

SharedRule FtmlOf(const FtmlOptions& options) {
  FtmlRule rule;
  rule.beta1 = DecayOf("Ftml", "beta1", options.beta1);
  rule.beta2 = DecayOf("Ftml", "beta2", options.beta2);
  NotNegative("Ftml", "epsilon", options.epsilon);
  rule.epsilon = options.epsilon;
  return MakeRule<FtmlRule>([rule](const StepRates& rates) {
    FtmlRule step = rule;
    step.lr = static_cast<float>(rates.lr);
    step.t = static_cast<int>(std::min<int64_t>(rates.t, std::numeric_limits<int>::max()));
    step.wd = static_cast<float>(rates.wd);
    step.rescale_grad = static_cast<float>(rates.rescale_grad);
    step.clip_grad = static_cast<float>(rates.clip_gradient);
    return step;
  });
}

}  // namespace

AdaGrad::AdaGrad(const AdaGradOptions& options) : Optimizer(options, AdaGradOf(options)) {}
AdaDelta::AdaDelta(const AdaDeltaOptions& options) : Optimizer(options, AdaDeltaOf(options)) {}
RmsProp::RmsProp(const RmsPropOptions& options) : Optimizer(options, RmsPropOf(options)) {}
Ftrl::Ftrl(const FtrlOptions& options) : Optimizer(options, FtrlOf(options)) {}
Ftml::Ftml(const FtmlOptions& options) : Optimizer(options, FtmlOf(options)) {}

}  // namespace tessera
