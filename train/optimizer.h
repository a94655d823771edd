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

/// What every optimizer knows.
struct OptimizerOptions {
  double learning_rate = 0.01;  ///< the base rate
  double wd = 0;                ///< weight decay: added to the gradient as wd * weight
  /// What gradients are multiplied by first; where it is left open Module::InitOptimizer sets
  /// 1 / batch size, once.
  std::optional<double> rescale_grad = std::nullopt;
  double clip_gradient = -1;  ///< bound of a gradient's element after that; negative: none
  std::shared_ptr<const LrScheduler> lr_scheduler = nullptr;  ///< null: the rate is constant
};

/// Changes weights by their gradients, and keeps whatever state that takes for each.
///
/// Parameters are known by an index, and by a name once SetParameterNames has been called. Update
/// returns at once. Threads: one thread at a time calls an optimizer.
class Optimizer {
 public:
  /// Throws Error(kInvalidArgument) for a rate or decay that is negative or not finite.
  explicit Optimizer(const OptimizerOptions& options);
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Names for the indices 0, 1, …. From here on parameters whose names do not end in `_weight`
  /// have no weight decay, unless SetWdMult says otherwise.
  void SetParameterNames(std::vector<std::string> names);

  /// Factors of the learning rate and of the weight decay for parameters with these names; from the
  /// next update on, and instead of those of the call before.
  void SetLrMult(const std::map<std::string, double>& factors);
  void SetWdMult(const std::map<std::string, double>& factors);
  /// The same as a network's variables ask for: SetLrMult's and SetWdMult's go before these.
  void SetNetworkFactors(const std::map<std::string, double>& lr_mult,
                         const std::map<std::string, double>& wd_mult);

  /// The factor of OptimizerOptions: whether there is one, and a new one from the next update on.
  bool has_rescale_grad() const { return options_.rescale_grad.has_value(); }
  void set_rescale_grad(double factor) { options_.rescale_grad = factor; }

  /// Changes the weight of that index. It is cheapest if the index always comes with the same
  /// arrays. Throws Error(kInvalidArgument) for a negative index, and if shapes or types differ.
  void Update(int index, const NDArray& weight, const NDArray& grad);

  /// Updates so far, of the parameter that has had most.
  int64_t num_update() const { return num_update_; }
  /// The rate of the next update, without factors.
  double learning_rate() const;

 protected:
  /// What one update is made with.
  struct Rates {
    double lr;             ///< schedule and factor included
    double wd;             ///< factor included
    double rescale_grad;   ///< 1 where nobody has set it
    double clip_gradient;  ///< negative: none

    friend bool operator==(const Rates&, const Rates&) = default;
  };

  /// Pushes the operations that change the weight.
  virtual void Step(int index, const NDArray& weight, const NDArray& grad, const Rates& rates) = 0;

 private:
  struct Parameter {
    std::string name;
    double lr_mult = 1;
    double wd_mult = 1;
    int64_t updates = 0;
  };

  void ApplyFactors();
  double RateOf(int64_t num_update) const;

  OptimizerOptions options_;
  std::vector<Parameter> parameters_;
  std::map<std::string, double> lr_mult_;
  std::map<std::string, double> wd_mult_;
  std::map<std::string, double> network_lr_mult_;
  std::map<std::string, double> network_wd_mult_;
  int64_t num_update_ = 0;
};

/// What Sgd knows besides.
struct SgdOptions : OptimizerOptions {
  double momentum = 0;  ///< the share of the last step that is taken again, in [0, 1)
};

/// Stochastic gradient descent (H. Robbins, S. Monro, 1951; with momentum: B. T. Polyak, 1964), by
/// the operators sgd_update and, with momentum, sgd_mom_update:
/// g = clip(rescale_grad * grad) + wd * weight; mom = momentum * mom - lr * g; weight += mom.
/// After the first update of an index one operation does it, and takes no memory.
class Sgd final : public Optimizer {
 public:
  /// Throws Error(kInvalidArgument) unless 0 <= momentum < 1, and as Optimizer.
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
