#ifndef TESSERA_TRAIN_OPTIMIZER_H_
#define TESSERA_TRAIN_OPTIMIZER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/ndarray/ndarray.h"
#include "tessera/train/lr_scheduler.h"

namespace tessera {

/// Options of every optimizer.
struct OptimizerOptions {
  double learning_rate = 0.01;  ///< the base rate
  double wd = 0;                ///< weight decay: added to the gradient as wd * weight
  /// The factor of gradients, applied first. If it is not set, Module::InitOptimizer sets 1 / batch
  /// size, once.
  std::optional<double> rescale_grad = std::nullopt;
  double clip_gradient = -1;  ///< bound of a gradient's element after that; negative: none
  std::shared_ptr<const LrScheduler> lr_scheduler = nullptr;  ///< null: the rate is constant
  /// Updates that the parameters have had before, by an optimizer whose training is continued: a
  /// schedule continues behind them. Other state, such as momentum, begins anew.
  int64_t begin_num_update = 0;
};

/// Updates weights by their gradients, and keeps the state that each weight needs.
///
/// A parameter has an index, and a name once SetParameterNames has been called. Update returns at
/// once. Threads: one thread at a time calls an optimizer.
class Optimizer {
 public:
  /// Throws Error(kInvalidArgument) for a rate or decay that is negative or not finite, and for a
  /// negative begin_num_update.
  explicit Optimizer(const OptimizerOptions& options);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Sets names for the indices 0, 1, …. Parameters whose names do not end in `_weight` then have
  /// no weight decay, unless SetWdMult sets it.
  void SetParameterNames(std::vector<std::string> names);

  /// Set factors of the learning rate and of the weight decay for parameters with these names, from
  /// the next update on. They replace the factors of an earlier call.
  void SetLrMult(const std::map<std::string, double>& factors);
  void SetWdMult(const std::map<std::string, double>& factors);
  /// Sets the factors that a network's variables have as attributes. Those of SetLrMult and
  /// SetWdMult take precedence.
  void SetNetworkFactors(const std::map<std::string, double>& lr_mult,
                         const std::map<std::string, double>& wd_mult);

  /// Return whether OptimizerOptions::rescale_grad is set, and set it from the next update on.
  bool has_rescale_grad() const { return options_.rescale_grad.has_value(); }
  void set_rescale_grad(double factor) { options_.rescale_grad = factor; }

  /// Updates the weight of that index. It is fastest if the index always comes with the same
  /// arrays. Throws Error(kInvalidArgument) for a negative index, and if shapes or types differ.
  void Update(int index, const NDArray& weight, const NDArray& grad);

  /// Returns the largest number of updates that any parameter has had, including begin_num_update.
  int64_t num_update() const { return num_update_; }
  /// Returns the rate of the next update, without factors.
  double learning_rate() const;

 protected:
  /// The rates and bounds of one update.
  struct Rates {
    double lr;             ///< including schedule and factor
    double wd;             ///< including the factor
    double rescale_grad;   ///< 1 if it was not set
    double clip_gradient;  ///< negative: none

    friend bool operator==(const Rates&, const Rates&) = default;
  };

  /// Pushes the operations that update the weight.
  virtual void Step(int index, const NDArray& weight, const NDArray& grad, const Rates& rates) = 0;

 private:
  struct Parameter {
    std::string name;
    double lr_mult = 1;
    double wd_mult = 1;
    int64_t updates = 0;  // by this optimizer
  };

  void ApplyFactors();
  double RateOf(int64_t num_update) const;

  OptimizerOptions options_;
  std::vector<Parameter> parameters_;
  std::map<std::string, double> lr_mult_;
  std::map<std::string, double> wd_mult_;
  std::map<std::string, double> network_lr_mult_;
  std::map<std::string, double> network_wd_mult_;
  int64_t num_update_;
};

/// Options of Sgd.
struct SgdOptions : OptimizerOptions {
  double momentum = 0;  ///< the share of the last step that is repeated, in [0, 1)
};

/// Stochastic gradient descent (H. Robbins, S. Monro, 1951; with momentum: B. T. Polyak, 1964), by
/// the operators sgd_update and, with momentum, sgd_mom_update: g = clip(rescale_grad * grad) + wd
/// * weight; mom = momentum * mom - lr * g; weight += mom. After the first update of an index, one
/// operation does it, and allocates nothing.
class Sgd final : public Optimizer {
 public:
  /// Throws Error(kInvalidArgument) unless 0 <= momentum < 1, and as Optimizer does.
  explicit Sgd(const SgdOptions& options = {});
  ~Sgd() override;

 protected:
  void Step(int index, const NDArray& weight, const NDArray& grad, const Rates& rates) override;

 private:
  struct BoundStep;

  double momentum_;
  std::vector<std::unique_ptr<BoundStep>> steps_;
};

}  // namespace tessera

#endif  // TESSERA_TRAIN_OPTIMIZER_H_
