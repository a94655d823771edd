#ifndef TESSERA_TRAIN_OPTIMIZER_STEP_PLAN_H_
#define TESSERA_TRAIN_OPTIMIZER_STEP_PLAN_H_

#include <memory>
#include <span>
#include <vector>

#include "tessera/ndarray/ndarray.h"
#include "tessera/train/optimizer.h"
#include "tessera/train/optimizer/rule.h"

namespace tessera::train_internal {

/// The operations that take the steps of several weights: one for all small weights of a device and
/// type, one for each large weight. With a row_sparse gradient, the rows that it stores take steps.
/// A plan is made for given arrays and run many times.
class StepPlan {
 public:
  /// states[i] belong to updates[i]; the last one is the weight's float32 copy if there are more
  /// than the rule asks for.
  StepPlan(std::shared_ptr<const Rule> rule, std::span<const ParameterUpdate> updates,
           std::span<const std::vector<NDArray>> states);

  /// Returns whether the plan was made for these indices and arrays.
  bool IsFor(std::span<const ParameterUpdate> updates) const;

  /// Pushes the operations; rates[i] belong to updates[i]. `squares` are arrays on the CPU whose
  /// elements are added: if the norm, the root of that sum times rescale_grad, is above
  /// `clip_norm`, gradients are scaled down by both's quotient.
  void Push(std::span<const StepRates> rates, std::span<const NDArray> squares = {},
            double clip_norm = -1) const;

 private:
  struct Group;

  const std::vector<ParameterUpdate> updates_;
  std::vector<std::shared_ptr<const Group>> groups_;
};

}  // namespace tessera::train_internal

#endif  // TESSERA_TRAIN_OPTIMIZER_STEP_PLAN_H_
