#include "tessera/train/adam.h"

#include <algorithm>
#include <cmath>
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

/// Returns a rule's numbers with the options that Adam, AdamW and LAMB share.
template <typename R, typename Options>
R WithDecays(R rule, const char* optimizer, const Options& options) {
  rule.beta1 = DecayOf(optimizer, "beta1", options.beta1);
  rule.beta2 = DecayOf(optimizer, "beta2", options.beta2);
  rule.epsilon = NotNegative(optimizer, "epsilon", options.epsilon);
  return rule;
}

/// Returns 1 - beta^t: the share of a decaying average that is not its start at 0.
double ShareAfter(float beta, int64_t t) {
  return 1 - std::pow(double{beta}, static_cast<double>(t));
}

/// Returns the factor of the rate that corrects mean and variance.
double Correction(const AdamRule& rule, int64_t t) {
  return std::sqrt(ShareAfter(rule.beta2, t)) / ShareAfter(rule.beta1, t);
}

SharedRule AdamOf(const AdamOptions& options) {
  return MakeRule<AdamRule>(
      [rule = WithDecays(AdamRule(), "Adam", options)](const StepRates& rates) {
        AdamRule step = WithRates(rule, rates);
        step.lr = static_cast<float>(rates.lr * Correction(rule, rates.t));
        return step;
      });
}

SharedRule AdamWOf(const AdamWOptions& options) {
  return MakeRule<AdamWRule>([rule = WithDecays(AdamWRule(), "AdamW", options),
                              corrects = options.bias_correction](const StepRates& rates) {
    AdamWRule step = WithRates(rule, rates);
    step.lr = corrects ? static_cast<float>(Correction(rule, rates.t)) : 1;
    step.eta = static_cast<float>(rates.lr);
    return step;
  });
}

SharedRule AdamaxOf(const AdamaxOptions& options) {
  AdamaxRule rule;
  rule.beta1 = DecayOf("Adamax", "beta1", options.beta1);
  rule.beta2 = DecayOf("Adamax", "beta2", options.beta2);
  return MakeRule<AdamaxRule>([rule](const StepRates& rates) {
    AdamaxRule step = WithRates(rule, rates);
    step.lr = static_cast<float>(rates.lr / ShareAfter(rule.beta1, rates.t));
    return step;
  });
}

SharedRule LambOf(const LambOptions& options) {
  LambRule rule = WithDecays(LambRule(), "Lamb", options);
  rule.lower_bound = static_cast<float>(options.lower_bound);
  rule.upper_bound = static_cast<float>(options.upper_bound);
  rule.bias_correction = options.bias_correction;
  return MakeRule<LambRule>([rule](const StepRates& rates) {
    LambRule step = WithRates(rule, rates);
    step.t = static_cast<int>(std::min<int64_t>(rates.t, std::numeric_limits<int>::max()));
    return step;
  });
}

}  // namespace

Adam::Adam(const AdamOptions& options) : Optimizer(options, AdamOf(options)) {}
AdamW::AdamW(const AdamWOptions& options) : Optimizer(options, AdamWOf(options)) {}
Adamax::Adamax(const AdamaxOptions& options) : Optimizer(options, AdamaxOf(options)) {}
Lamb::Lamb(const LambOptions& options) : Optimizer(options, LambOf(options)) {}

}  // namespace tessera
