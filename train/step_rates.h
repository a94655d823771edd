#ifndef TESSERA_TRAIN_STEP_RATES_H_
#define TESSERA_TRAIN_STEP_RATES_H_

#include <cstdint>

#include "tessera/base/dialect.h"

namespace tessera {

/// The numbers of one parameter's step.
struct StepRates {
  double lr;              ///< including schedule and factor
  double wd;              ///< including the factor
  double rescale_grad;    ///< 1 if it was not set; includes those of loss scale and accumulation
  double clip_gradient;   ///< negative: none
  int64_t t = 1;          ///< the number of this step of the parameter, from 1
  double lr_change = 1;   ///< the schedule's rate over that of the update before
  bool is_weight = true;  ///< whether the name ends in none of gamma, beta and bias
};

}  // namespace tessera

#endif  // TESSERA_TRAIN_STEP_RATES_H_
