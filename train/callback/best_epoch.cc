#include "tessera/train/best_epoch.h"

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/train/module.h"

namespace tessera {

BestValue::BestValue(WatchedMetric metric) : metric_(std::move(metric)) {
  if (!(metric_.min_delta >= 0)) {
    throw InvalidArgument("WatchedMetric: min_delta ", metric_.min_delta, ", expected at least 0");
  }
}

bool BestValue::Update(const EpochEndParam& param) {
  const std::vector<NamedValue>& values =
      param.validation.empty() ? param.training : param.validation;
  std::vector<std::string> names;
  for (const NamedValue& each : values) {
    names.push_back(each.name);
    if (each.name != metric_.name) continue;
    if (std::isnan(each.value)) return false;
    const double gain = !value_                                            ? HUGE_VAL
                        : metric_.better == WatchedMetric::Better::kLarger ? each.value - *value_
                                                                           : *value_ - each.value;
    if (!(gain > metric_.min_delta)) return false;
    value_ = each.value;
    return true;
  }
  throw InvalidArgument("WatchedMetric: there is no metric ", Excerpt(metric_.name),
                        ", expected one of: ", ListNames(names));
}

TrainingState BestValue::SaveState() const {
  TrainingState state;
  state.texts["metric"] = metric_.name;
  state.numbers["best"] = value_ ? std::vector<double>{*value_} : std::vector<double>();
  return state;
}

void BestValue::LoadState(const TrainingState& state) {
  if (state.Text("metric") != metric_.name) {
    throw InvalidArgument("WatchedMetric: the state is that of ", Excerpt(state.Text("metric")),
                          ", expected ", Excerpt(metric_.name));
  }
  const std::vector<double>& best = state.Numbers("best");
  value_ = best.empty() ? std::nullopt : std::optional(state.Number("best"));
}

EarlyStop::EarlyStop(WatchedMetric metric, int patience)
    : best_(std::move(metric)), patience_(patience) {
  if (patience < 1)
    throw InvalidArgument("EarlyStop: patience ", patience, ", expected at least 1");
}

void EarlyStop::operator()(const EpochEndParam& param) {
  epochs_without_ = best_.Update(param) ? 0 : epochs_without_ + 1;
  if (epochs_without_ >= patience_) param.module.StopFit();
}

TrainingState EarlyStop::SaveState() const {
  TrainingState state = best_.SaveState();
  state.integers["epochs_without"] = {epochs_without_};
  return state;
}

void EarlyStop::LoadState(const TrainingState& state) {
  const int64_t epochs_without = state.Integer("epochs_without");
  best_.LoadState(state);
  epochs_without_ = static_cast<int>(epochs_without);
}

SaveBest::SaveBest(CheckpointFolder* folder, WatchedMetric metric)
    : folder_(folder), best_(std::move(metric)) {}

void SaveBest::operator()(const EpochEndParam& param) {
  if (!best_.Update(param)) return;
  const Module& module = param.module;
  folder_->Save(module.optimizer()->num_update(),
                {.model = Checkpoint{module.symbol(), module.GetParams()}});
}

}  // namespace tessera
