#ifndef TESSERA_TRAIN_OPTIMIZER_RULE_H_
#define TESSERA_TRAIN_OPTIMIZER_RULE_H_

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/optimizer/update.h"
#include "tessera/train/step_rates.h"

namespace tessera::train_internal {

/// The steps of an optimizer, as functions of its rates. Threads: calls may overlap.
class Rule {
 public:
  virtual ~Rule() = default;

  /// Returns the optimizer's name.
  virtual const char* name() const = 0;
  /// Returns the number of a weight's states, without a master copy.
  virtual int num_states() const = 0;
  /// Returns whether a step depends on norms of the weight or the gradient, not on each element
  /// alone.
  virtual bool uses_norms() const = 0;
  /// Takes a step for each of several weights of one type, as ops_internal::Update does.
  virtual void Run(DeviceType device, std::span<const StepRates> rates,
                   std::span<const ops_internal::StepArguments> arguments, bool master,
                   const OpContext& context) const = 0;
};

/// Returns the rule whose numbers for a step with given rates are make(rates), an R of update.h.
template <typename R, typename Make>
std::shared_ptr<const Rule> MakeRule(Make make) {
  class RuleOf final : public Rule {
   public:
    explicit RuleOf(Make function) : make_(std::move(function)) {}

    const char* name() const override { return R::kName; }
    int num_states() const override { return R::kNumStates; }
    bool uses_norms() const override {
      return requires { R::kUsesNorms; };
    }
    void Run(DeviceType device, std::span<const StepRates> rates,
             std::span<const ops_internal::StepArguments> arguments, bool master,
             const OpContext& context) const override {
      std::vector<R> rules;
      rules.reserve(rates.size());
      for (const StepRates& each : rates) rules.push_back(make_(each));
      ops_internal::Update<R>(device, rules, arguments, master, context);
    }

   private:
    const Make make_;
  };
  return std::make_shared<RuleOf>(std::move(make));
}

}  // namespace tessera::train_internal

#endif  // TESSERA_TRAIN_OPTIMIZER_RULE_H_
