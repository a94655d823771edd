#ifndef TESSERA_TRAIN_OPTIMIZER_H_
#define TESSERA_TRAIN_OPTIMIZER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/state.h"
#include "tessera/train/loss_scaler.h"
#include "tessera/train/lr_scheduler.h"
#include "tessera/train/step_rates.h"

namespace tessera {

namespace train_internal {
class Rule;
class StepPlan;
}  // namespace train_internal

/// Options of every optimizer.
struct OptimizerOptions {
  double learning_rate = 0.01;  ///< the base rate
  double wd = 0;                ///< weight decay: the optimizer's formula says how it counts
  /// The factor of gradients, applied first. If it is not set, Module::InitOptimizer sets 1 / batch
  /// size, once.
  std::optional<double> rescale_grad = std::nullopt;
  double clip_gradient = -1;  ///< bound of a gradient's element after that; negative: none
  std::shared_ptr<const LrScheduler> lr_scheduler = nullptr;  ///< null: the rate is constant
  /// Updates that the parameters have had before, by an optimizer whose training is continued: a
  /// schedule continues behind them. Other state, such as momentum, begins anew.
  int64_t begin_num_update = 0;
  /// The largest norm of all rescaled gradients of one UpdateAll together; larger ones are scaled
  /// down to it before clip_gradient (R. Pascanu et al., 2013). Negative: none. For the CPU.
  double clip_global_norm = -1;
  /// The number of calls whose gradients are averaged into one step of a parameter.
  int accumulate_steps = 1;
  /// Whether weights of 16 bits have copies in float32, on which steps are taken.
  bool multi_precision = true;
  std::shared_ptr<LossScaler> loss_scaler = nullptr;  ///< null: the loss is not scaled
  /// Whether a row_sparse gradient changes only the rows of weight and states that it stores.
  /// Otherwise the other rows take a step with gradient 0, as they always do in Lars and Lamb,
  /// whose steps depend on norms, and if accumulate_steps is above 1.
  bool lazy_update = true;
};

/// Settings of the parameters whose names fit a pattern.
struct ParameterRule {
  std::string pattern;              ///< '*' stands for any characters, '?' for one
  std::optional<double> lr_mult{};  ///< factor of the learning rate
  std::optional<double> wd_mult{};  ///< factor of the weight decay
  bool fixed = false;               ///< whether updates leave the parameter as it is
};

/// One parameter of an update.
struct ParameterUpdate {
  int index;       ///< at least 0; the parameter's state belongs to it
  NDArray weight;  ///< changes; dense or row_sparse
  NDArray grad;    ///< of the weight's shape and type; dense or row_sparse
};

/// Updates weights by their gradients, and keeps the state that each weight needs.
///
/// A parameter has an index, and a name once SetParameterNames has been called. Updates return at
/// once, unless a LossScaler waits for the gradients or TESSERA_CHECK_FINITE is on: each update
/// then waits for its weights, and throws the error of the computation that met NaN or infinity,
/// which names the operator, with the number of the update. Threads: one thread at a time calls an
/// optimizer.
class Optimizer : public Stateful {
 public:
  /// Throws Error(kInvalidArgument) for a rate or decay that is negative or not finite, and for a
  /// negative begin_num_update or less than one of accumulate_steps.
  explicit Optimizer(const OptimizerOptions& options);
  ~Optimizer() override;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Sets names for the indices 0, 1, …. Parameters whose names do not end in `_weight` then have
  /// no weight decay, unless a factor is set for them.
  void SetParameterNames(std::vector<std::string> names);

  /// Set factors of the learning rate and of the weight decay for parameters with these names, from
  /// the next update on. They replace the factors of an earlier call.
  void SetLrMult(const std::map<std::string, double>& factors);
  void SetWdMult(const std::map<std::string, double>& factors);
  /// Sets rules for groups of parameters, from the next update on. A parameter takes each setting
  /// from the first rule that fits its name and has the setting. Factors of SetLrMult and SetWdMult
  /// take precedence.
  void SetParameterRules(std::vector<ParameterRule> rules);
  /// Sets the factors that a network's variables have as attributes. Those of SetLrMult, SetWdMult
  /// and SetParameterRules take precedence.
  void SetNetworkFactors(const std::map<std::string, double>& lr_mult,
                         const std::map<std::string, double>& wd_mult);

  /// Return whether OptimizerOptions::rescale_grad is set, and set it from the next update on.
  bool has_rescale_grad() const { return options_.rescale_grad.has_value(); }
  void set_rescale_grad(double factor) { options_.rescale_grad = factor; }

  /// Updates the weight of that index. It is fastest if the index always comes with the same
  /// arrays. Throws Error(kInvalidArgument) for a negative index, if shapes or types differ, and
  /// for csr arrays.
  void Update(int index, const NDArray& weight, const NDArray& grad);
  /// Updates several weights: the small ones in one operation, so that many of them cost little
  /// more than their elements. It is fastest if it is always called with the same arrays. Throws
  /// what Update throws, and Error(kInvalidArgument) for an index that occurs twice; nothing is
  /// updated then.
  void UpdateAll(std::span<const ParameterUpdate> updates);

  /// Throws Error(kUnimplemented), which begins with `what`, if the optimizer has an option for
  /// which it must see all gradients of a step together: clip_global_norm or loss_scaler. A store
  /// updates each parameter alone.
  void CheckUpdatesOneByOne(std::string_view what) const;

  /// Returns the largest number of updates that any parameter has had, including begin_num_update.
  int64_t num_update() const { return num_update_; }
  /// Returns the rate of the next update, without factors.
  double learning_rate() const;

  /// Returns counts and states of all parameters, the scaler's state and the schedule's; waits for
  /// the updates. Options are not part of the state.
  TrainingState SaveState() const override;
  /// Throws Error(kInvalidArgument) for the state of another optimizer or schedule. An array that
  /// does not fit its weight is the error of the first update.
  void LoadState(const TrainingState& state) override;

 protected:
  using Rates = StepRates;  ///< the numbers of one parameter's step

  /// Constructs an optimizer whose steps are those of a rule.
  Optimizer(const OptimizerOptions& options, std::shared_ptr<const train_internal::Rule> rule);

  /// Pushes the operations of one parameter's step, for optimizers without a rule. The default
  /// throws Error(kUnimplemented).
  virtual void Step(int index, const NDArray& weight, const NDArray& grad, const Rates& rates);

 private:
  struct Parameter {
    std::string name;
    double lr_mult = 1;
    double wd_mult = 1;
    bool fixed = false;
    bool is_weight = true;
    int64_t updates = 0;          // by this optimizer
    int accumulated = 0;          // calls since the last update
    NDArray accumulator;          // the sum of their gradients
    std::vector<NDArray> states;  // the master copy is the last
    bool is_loaded = false;       // states come from LoadState
  };

  using Plans = std::map<int, std::unique_ptr<const train_internal::StepPlan>>;  // by first index

  void ApplyFactors();
  double RateOf(int64_t num_update) const;
  void CheckUpdate(const ParameterUpdate& update) const;
  void PrepareStates(const ParameterUpdate& update);
  std::vector<ParameterUpdate> Accumulate(const std::vector<ParameterUpdate>& updates,
                                          double factor);
  StepRates NextRates(int index, double factor);
  void TakeSteps(const std::vector<ParameterUpdate>& updates, double factor);
  void AwaitSteps(const std::vector<ParameterUpdate>& updates) const;
  Parameter& At(int index) { return parameters_[static_cast<size_t>(index)]; }

  OptimizerOptions options_;
  const std::shared_ptr<const train_internal::Rule> rule_;  // null: Step
  std::vector<Parameter> parameters_;
  std::map<std::string, double> lr_mult_;
  std::map<std::string, double> wd_mult_;
  std::vector<ParameterRule> rules_;
  std::map<std::string, double> network_lr_mult_;
  std::map<std::string, double> network_wd_mult_;
  int64_t num_update_;
  Plans plans_;               // of earlier calls
  Plans accumulation_plans_;  // of earlier calls
};

}  // namespace tessera

#endif  // TESSERA_TRAIN_OPTIMIZER_H_
