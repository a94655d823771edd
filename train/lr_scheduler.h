#ifndef TESSERA_TRAIN_LR_SCHEDULER_H_
#define TESSERA_TRAIN_LR_SCHEDULER_H_

#include <cstdint>
#include <vector>

#include "tessera/base/dialect.h"
#include "tessera/ndarray/state.h"

namespace tessera {

/// The beginning of a schedule.
struct LrWarmup {
  /// The rates until the base rate: rise linearly from begin_lr, or stay begin_lr.
  enum class Mode { kLinear, kConstant };
  int64_t steps = 0;          ///< updates until the base rate; 0: no warm-up
  double begin_lr = 0;        ///< the rate before the first update
  Mode mode = Mode::kLinear;  ///< see Mode
};

/// The learning rate during training. Schedules are constant: the rate depends only on the number
/// of the update, so one schedule may serve several optimizers and threads.
///
/// The state of a schedule is its description, and LoadState compares: a training that continues
/// with another schedule would not be the one that was saved.
class LrScheduler : public Stateful {
 public:
  /// Returns the rate of update `num_update`, counted from 1, for an optimizer with rate `base_lr`.
  double operator()(int64_t num_update, double base_lr) const;

  /// Returns the kind and the numbers of the schedule.
  TrainingState SaveState() const override;
  /// Throws Error(kInvalidArgument) if the state is that of another schedule.
  void CheckState(const TrainingState& state) const;
  void LoadState(const TrainingState& state) override { CheckState(state); }

 protected:
  explicit LrScheduler(const LrWarmup& warmup) : warmup_(warmup) {}

  /// Returns the rate after the warm-up.
  virtual double After(int64_t num_update, double base_lr) const = 0;
  /// Adds the kind, as the text "kind", and the numbers that tell this schedule from others.
  virtual void Describe(TrainingState* state) const = 0;

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
  void Describe(TrainingState* state) const override;

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
  void Describe(TrainingState* state) const override;

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
  void Describe(TrainingState* state) const override;

 private:
  int64_t max_update_;
  double final_lr_;
};

/// Lowers the rate from the base rate to `final_lr` at update `max_update` like (1 - part)^power,
/// and keeps it constant afterwards.
class PolyScheduler final : public LrScheduler {
 public:
  /// Throws Error(kInvalidArgument) unless max_update > warmup.steps and power > 0.
  explicit PolyScheduler(int64_t max_update, double power = 2, double final_lr = 0,
                         const LrWarmup& warmup = {});

 protected:
  double After(int64_t num_update, double base_lr) const override;
  void Describe(TrainingState* state) const override;

 private:
  int64_t max_update_;
  double power_;
  double final_lr_;
};

/// Options of OneCycleScheduler.
struct OneCycleOptions {
  double rising_part = 0.3;   ///< the part of the updates in which the rate rises, in (0, 1)
  double start_factor = 25;   ///< the base rate divided by the first rate
  double final_factor = 1e4;  ///< the first rate divided by the last
};

/// Raises the rate to the base rate and lowers it far below the first one, each along half a cosine
/// (L. N. Smith, N. Topin: Super-convergence, 2018, with cosines in place of lines). The rate is
/// constant after update `max_update`. There is no warm-up besides.
class OneCycleScheduler final : public LrScheduler {
 public:
  /// Throws Error(kInvalidArgument) unless max_update >= 2, 0 < rising_part < 1 and the factors are
  /// at least 1.
  explicit OneCycleScheduler(int64_t max_update, const OneCycleOptions& options = {});

 protected:
  double After(int64_t num_update, double base_lr) const override;
  void Describe(TrainingState* state) const override;

 private:
  int64_t max_update_;
  OneCycleOptions options_;
};

/// Lowers the rate like one over the square root of the update: base_lr * sqrt(steps / num_update)
/// from update `steps` on, and the base rate before it (A. Vaswani et al.: Attention is all you
/// need, 2017, equation 3, with a warm-up of as many steps).
class InverseSquareRootScheduler final : public LrScheduler {
 public:
  /// Throws Error(kInvalidArgument) unless steps >= 1.
  explicit InverseSquareRootScheduler(int64_t steps, const LrWarmup& warmup = {});

 protected:
  double After(int64_t num_update, double base_lr) const override;
  void Describe(TrainingState* state) const override;

 private:
  int64_t steps_;
};

}  // namespace tessera

#endif  // TESSERA_TRAIN_LR_SCHEDULER_H_
