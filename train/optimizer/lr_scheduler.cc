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

void CheckEnd(const char* scheduler, int64_t max_update, const LrWarmup& warmup) {
  if (max_update <= warmup.steps) {
    throw InvalidArgument(scheduler, ": max_update ", max_update, ", expected more than the ",
                          warmup.steps, " steps of the warm-up");
  }
}

/// Returns the part of the way from the warm-up's end to `max_update` that is done, at most 1.
double PartDone(int64_t num_update, int64_t max_update, const LrWarmup& warmup) {
  return static_cast<double>(std::min(num_update, max_update) - warmup.steps) /
         static_cast<double>(max_update - warmup.steps);
}

/// Returns a number that goes from `from` to `to` along half a cosine while `part` goes from 0 to
/// 1.
double AlongCosine(double from, double to, double part) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

}  // namespace

double LrScheduler::operator()(int64_t num_update, double base_lr) const {
  if (num_update >= warmup_.steps) return After(num_update, base_lr);
  if (warmup_.mode == LrWarmup::Mode::kConstant) return warmup_.begin_lr;
  return warmup_.begin_lr + (base_lr - warmup_.begin_lr) * static_cast<double>(num_update) /
                                static_cast<double>(warmup_.steps);
}

TrainingState LrScheduler::SaveState() const {
  TrainingState state;
  state.integers["warmup"] = {warmup_.steps, static_cast<int64_t>(warmup_.mode)};
  state.numbers["warmup"] = {warmup_.begin_lr};
  Describe(&state);
  return state;
}

void LrScheduler::CheckState(const TrainingState& state) const {
  const TrainingState own = SaveState();
  if (state.texts == own.texts && state.integers == own.integers && state.numbers == own.numbers) {
    return;
  }
  const auto kind = state.texts.find("kind");
  throw InvalidArgument("LrScheduler: the saved schedule is ",
                        kind == state.texts.end() ? "none" : kind->second,
                        " with numbers of its own, expected this ", own.Text("kind"));
}

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
  CheckEnd("CosineScheduler", max_update, warmup);
}

double CosineScheduler::After(int64_t num_update, double base_lr) const {
  return AlongCosine(base_lr, final_lr_, PartDone(num_update, max_update_, warmup_));
}

PolyScheduler::PolyScheduler(int64_t max_update, double power, double final_lr,
                             const LrWarmup& warmup)
    : LrScheduler(warmup), max_update_(max_update), power_(power), final_lr_(final_lr) {
  CheckEnd("PolyScheduler", max_update, warmup);
  if (!(power > 0)) throw InvalidArgument("PolyScheduler: power ", power, ", expected above 0");
}

double PolyScheduler::After(int64_t num_update, double base_lr) const {
  const double left = 1 - PartDone(num_update, max_update_, warmup_);
  return final_lr_ + (base_lr - final_lr_) * std::pow(left, power_);
}

OneCycleScheduler::OneCycleScheduler(int64_t max_update, const OneCycleOptions& options)
    : LrScheduler({}), max_update_(max_update), options_(options) {
  if (max_update < 2) {
    throw InvalidArgument("OneCycleScheduler: max_update ", max_update, ", expected at least 2");
  }
  if (!(options.rising_part > 0 && options.rising_part < 1)) {
    throw InvalidArgument("OneCycleScheduler: rising_part ", options.rising_part,
                          ", expected 0 < rising_part < 1");
  }
  if (!(options.start_factor >= 1 && options.final_factor >= 1)) {
    throw InvalidArgument("OneCycleScheduler: start_factor ", options.start_factor,
                          " and final_factor ", options.final_factor, ", expected at least 1");
  }
}

double OneCycleScheduler::After(int64_t num_update, double base_lr) const {
  const double first = base_lr / options_.start_factor;
  const double part =
      std::clamp(static_cast<double>(num_update) / static_cast<double>(max_update_), 0.0, 1.0);
  const double rising = options_.rising_part;
  if (part < rising) return AlongCosine(first, base_lr, part / rising);
  return AlongCosine(base_lr, first / options_.final_factor, (part - rising) / (1 - rising));
}

InverseSquareRootScheduler::InverseSquareRootScheduler(int64_t steps, const LrWarmup& warmup)
    : LrScheduler(warmup), steps_(steps) {
  if (steps < 1) {
    throw InvalidArgument("InverseSquareRootScheduler: steps ", steps, ", expected at least 1");
  }
}

double InverseSquareRootScheduler::After(int64_t num_update, double base_lr) const {
  if (num_update <= steps_) return base_lr;
  return base_lr * std::sqrt(static_cast<double>(steps_) / static_cast<double>(num_update));
}

void FactorScheduler::Describe(TrainingState* state) const {
  state->texts["kind"] = "FactorScheduler";
  state->integers["steps"] = {step_};
  state->numbers["numbers"] = {factor_, stop_factor_lr_};
}
void MultiFactorScheduler::Describe(TrainingState* state) const {
  state->texts["kind"] = "MultiFactorScheduler";
  state->integers["steps"] = steps_;
  state->numbers["numbers"] = {factor_};
}
void CosineScheduler::Describe(TrainingState* state) const {
  state->texts["kind"] = "CosineScheduler";
  state->integers["steps"] = {max_update_};
  state->numbers["numbers"] = {final_lr_};
}
void PolyScheduler::Describe(TrainingState* state) const {
  state->texts["kind"] = "PolyScheduler";
  state->integers["steps"] = {max_update_};
  state->numbers["numbers"] = {power_, final_lr_};
}
void OneCycleScheduler::Describe(TrainingState* state) const {
  state->texts["kind"] = "OneCycleScheduler";
  state->integers["steps"] = {max_update_};
  state->numbers["numbers"] = {options_.rising_part, options_.start_factor, options_.final_factor};
}
void InverseSquareRootScheduler::Describe(TrainingState* state) const {
  state->texts["kind"] = "InverseSquareRootScheduler";
  state->integers["steps"] = {steps_};
}

}  // namespace tessera
