#ifndef TESSERA_TRAIN_OPTIMIZER_RATES_H_
#define TESSERA_TRAIN_OPTIMIZER_RATES_H_

#include "tessera/base/error.h"
#include "tessera/train/step_rates.h"

namespace tessera::train_internal {

/// Returns a rule's numbers with those that most rules have.
template <typename R>
R WithRates(R rule, const StepRates& rates) {
  rule.lr = static_cast<float>(rates.lr);
  rule.wd = static_cast<float>(rates.wd);
  rule.rescale_grad = static_cast<float>(rates.rescale_grad);
  rule.clip_gradient = static_cast<float>(rates.clip_gradient);
  return rule;
}

/// Returns a decay as a rule's number. Throws Error(kInvalidArgument) that names optimizer and
/// option unless 0 <= value < 1.
inline float DecayOf(const char* optimizer, const char* option, double value) {
  if (!(value >= 0 && value < 1)) {
    throw InvalidArgument(optimizer, ": ", option, " ", value, ", expected 0 <= ", option, " < 1");
  }
  return static_cast<float>(value);
}

/// Returns a number that is not negative. Throws Error(kInvalidArgument) that names optimizer and
/// option if it is, or is NaN.
inline float NotNegative(const char* optimizer, const char* option, double value) {
  if (!(value >= 0)) {
    throw InvalidArgument(optimizer, ": ", option, " ", value, ", expected at least 0");
  }
  return static_cast<float>(value);
}

}  // namespace tessera::train_internal

#endif  // TESSERA_TRAIN_OPTIMIZER_RATES_H_
