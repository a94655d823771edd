#ifndef TESSERA_TRAIN_LR_SCHEDULER_H_
#define TESSERA_TRAIN_LR_SCHEDULER_H_

#include <cstdint>
#include <vector>

#include "tessera/base/dialect.h"

namespace tessera {

/// The beginning of a schedule: rates that rise linearly from begin_lr to the base rate.
struct LrWarmup {
  int64_t steps = 0;    ///< updates until the base rate; 0: no warm-up
  double begin_lr = 0;  ///< the rate before the first update
};

/// The learning rate during training. Schedules are constant: the rate depends only on the number
/// of the update, so one schedule may serve several optimizers and threads.
class LrScheduler {
 public:
  virtual ~LrScheduler() = default;

  /// Returns the rate of update `num_update`, counted from 1, for an optimizer with rate `base_lr`.
  double operator()(int64_t num_update, double base_lr) const {
    if (num_update >= warmup_.steps) return After(num_update, base_lr);
    return warmup_.begin_lr + (base_lr - warmup_.begin_lr) * static_cast<double>(num_update) /
                                  static_cast<double>(warmup_.steps);
  }

 protected:
  explicit LrScheduler(const LrWarmup& warmup) : warmup_(warmup) {}

  /// Returns the rate after the warm-up.
  virtual double After(int64_t num_update, double base_lr) const = 0;

  const LrWarmup warmup_;  ///< the constructor's argument
};

/// Multiplies the rate by `factor` after every `step` updates, but not below `stop_factor_lr`. A
/// base rate that is lower than `stop_factor_lr` stays.
class FactorScheduler final : public LrScheduler {
 public:
  /// Throws Error(kInvalidArgument) unless step >= 1 and 0 < factor <= 1.
  explicit FactorScheduler(int64_t step, double factor = 1, double stop_factor_lr = 1e-8,
                           const LrWarmup& warmup = {});

 protected:
  double After(int64_t num_update, double base_lr) const override;

 private:
  int64_t step_;
  double factor_;
  double stop_factor_lr_;
};

/// Multiplies the rate by `factor` after each of the given numbers of updates.
class MultiFactorScheduler final : public LrScheduler {
 public:
  /// Throws Error(kInvalidArgument) unless the steps are at least 1 and rise, and 0 < factor <= 1.
  explicit MultiFactorScheduler(std::vector<int64_t> steps, double factor = 1,
                                const LrWarmup& warmup = {});

 protected:
  double After(int64_t num_update, double base_lr) const override;

 private:
  std::vector<int64_t> steps_;
  double factor_;
};

/// Lowers the rate from the base rate to `final_lr` at update `max_update` along half a cosine (I.
/// Loshchilov, F. Hutter: SGDR, ICLR 2017, equation 5), and keeps it constant afterwards.
class CosineScheduler final : public LrScheduler {
 public:
  /// Throws Error(kInvalidArgument) unless max_update > warmup.steps.
  explicit CosineScheduler(int64_t max_update, double final_lr = 0, const LrWarmup& warmup = {});

 protected:
  double After(int64_t num_update, double base_lr) const override;

 private:
  int64_t max_update_;
  double final_lr_;
};

}  // namespace tessera

#endif  // TESSERA_TRAIN_LR_SCHEDULER_H_
