#include "tessera/train/lr_scheduler.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "tessera/base/error.h"

namespace tessera {
namespace {

void CheckFactor(const char* scheduler, double factor) {
  if (!(factor > 0 && factor <= 1)) {
    throw InvalidArgument(scheduler, ": factor ", factor, ", expected 0 < factor <= 1");
  }
}

}  // namespace

FactorScheduler::FactorScheduler(int64_t step, double factor, double stop_factor_lr,
                                 const LrWarmup& warmup)
    : LrScheduler(warmup), step_(step), factor_(factor), stop_factor_lr_(stop_factor_lr) {
  if (step < 1) throw InvalidArgument("FactorScheduler: step ", step, ", expected at least 1");
  CheckFactor("FactorScheduler", factor);
}

double FactorScheduler::After(int64_t num_update, double base_lr) const {
  const int64_t times = std::max<int64_t>(num_update - 1, 0) / step_;
  const double rate = base_lr * std::pow(factor_, static_cast<double>(times));
  return std::max(rate, std::min(stop_factor_lr_, base_lr));
}

MultiFactorScheduler::MultiFactorScheduler(std::vector<int64_t> steps, double factor,
                                           const LrWarmup& warmup)
    : LrScheduler(warmup), steps_(std::move(steps)), factor_(factor) {
  int64_t previous = 0;
  for (const int64_t step : steps_) {
    if (step <= previous) {
      throw InvalidArgument("MultiFactorScheduler: step ", step, " after ", previous,
                            ", expected steps that rise from at least 1");
    }
    previous = step;
  }
  CheckFactor("MultiFactorScheduler", factor);
}

double MultiFactorScheduler::After(int64_t num_update, double base_lr) const {
  const auto times = std::lower_bound(steps_.begin(), steps_.end(), num_update) - steps_.begin();
  return base_lr * std::pow(factor_, static_cast<double>(times));
}

CosineScheduler::CosineScheduler(int64_t max_update, double final_lr, const LrWarmup& warmup)
    : LrScheduler(warmup), max_update_(max_update), final_lr_(final_lr) {
  if (max_update <= warmup.steps) {
    throw InvalidArgument("CosineScheduler: max_update ", max_update, ", expected more than the ",
                          warmup.steps, " steps of the warm-up");
  }
}

double CosineScheduler::After(int64_t num_update, double base_lr) const {
  const double part = static_cast<double>(std::min(num_update, max_update_) - warmup_.steps) /
                      static_cast<double>(max_update_ - warmup_.steps);
  return final_lr_ + (base_lr - final_lr_) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

}  // namespace tessera
