#include "tessera/train/sgd.h"

#include <memory>

#include "tessera/ops/optimizer/update.h"
#include "tessera/train/optimizer/rates.h"
#include "tessera/train/optimizer/rule.h"

namespace tessera {
namespace {

using namespace ops_internal;    // NOLINT: the rules
using namespace train_internal;  // NOLINT: what makes rules of them

using SharedRule = std::shared_ptr<const Rule>;

SharedRule SgdOf(double momentum) {
  MomentumRule rule;
  rule.momentum = DecayOf("Sgd", "momentum", momentum);
  if (momentum > 0) {
    return MakeRule<MomentumRule>([rule](const StepRates& r) { return WithRates(rule, r); });
  }
  return MakeRule<SgdRule>([](const StepRates& r) { return WithRates(SgdRule(), r); });
}

SharedRule NagOf(double momentum) {
  NagRule rule;
  rule.momentum = DecayOf("Nag", "momentum", momentum);
  return MakeRule<NagRule>([rule](const StepRates& r) { return WithRates(rule, r); });
}

SharedRule SignumOf(const SignumOptions& options) {
  SignumRule rule;
  rule.momentum = DecayOf("Signum", "momentum", options.momentum);
  rule.wd_lh = NotNegative("Signum", "wd_lh", options.wd_lh);
  if (options.momentum > 0) {
    return MakeRule<SignumRule>([rule](const StepRates& r) { return WithRates(rule, r); });
  }
  return MakeRule<SignSgdRule>([](const StepRates& r) { return WithRates(SignSgdRule(), r); });
}

SharedRule LarsOf(const LarsOptions& options) {
  LarsRule rule;
  rule.momentum = DecayOf("Lars", "momentum", options.momentum);
  rule.eta = NotNegative("Lars", "eta", options.eta);
  rule.epsilon = NotNegative("Lars", "epsilon", options.epsilon);
  return MakeRule<LarsRule>([rule, corrects = options.momentum_correction](const StepRates& r) {
    LarsRule step = WithRates(rule, r);
    if (corrects) step.momentum = static_cast<float>(double{rule.momentum} * r.lr_change);
    step.adapts = r.is_weight;
    return step;
  });
}

}  // namespace

Sgd::Sgd(const SgdOptions& options) : Optimizer(options, SgdOf(options.momentum)) {}
Nag::Nag(const NagOptions& options) : Optimizer(options, NagOf(options.momentum)) {}
Signum::Signum(const SignumOptions& options) : Optimizer(options, SignumOf(options)) {}
Lars::Lars(const LarsOptions& options) : Optimizer(options, LarsOf(options)) {}

}  // namespace tessera
