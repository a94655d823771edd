#ifndef TESSERA_TRAIN_BEST_EPOCH_H_
#define TESSERA_TRAIN_BEST_EPOCH_H_

#include <optional>
#include <string>

#include "tessera/ndarray/state.h"
#include "tessera/train/callback.h"
#include "tessera/train/checkpoint_folder.h"

namespace tessera {

/// The metric by which epochs are compared.
struct WatchedMetric {
  /// Tells which of two values is better.
  enum class Better { kLarger, kSmaller };
  std::string name = "accuracy";    ///< in EpochEndParam::validation, or in training without it
  Better better = Better::kLarger;  ///< see Better
  double min_delta = 0;             ///< the least difference that is an improvement, at least 0
};

/// The best value of a metric so far. Its state is that value.
class BestValue : public Stateful {
 public:
  /// Throws Error(kInvalidArgument) for a negative min_delta.
  explicit BestValue(WatchedMetric metric);

  /// Counts an epoch's value. Returns whether it is the best so far; NaN never is. Throws
  /// Error(kInvalidArgument) that lists the names if there is no such metric.
  bool Update(const EpochEndParam& param);
  /// Returns the best value; nothing before the first that is not NaN.
  std::optional<double> value() const { return value_; }

  TrainingState SaveState() const override;
  void LoadState(const TrainingState& state) override;

 private:
  WatchedMetric metric_;
  std::optional<double> value_;
};

/// Ends Module::Fit after `patience` epochs in a row without an improvement.
///
///     EarlyStop early_stop({.name = "accuracy"}, 3);
///     module.Fit(&train, {.epoch_end = {std::ref(early_stop)},
///                         .parts = {{"early_stop", &early_stop}}});
class EarlyStop final : public Stateful {
 public:
  /// Throws Error(kInvalidArgument) for patience < 1, and as BestValue does.
  EarlyStop(WatchedMetric metric, int patience);

  /// Counts an epoch. Throws what BestValue::Update throws.
  void operator()(const EpochEndParam& param);
  /// Returns the best value so far.
  const BestValue& best() const { return best_; }

  TrainingState SaveState() const override;
  void LoadState(const TrainingState& state) override;

 private:
  BestValue best_;
  int patience_;
  int epochs_without_ = 0;
};

/// Saves the model, without the state of its training, whenever an epoch is the best so far. A
/// folder with keep_last = N keeps the last N of these. Use it like EarlyStop.
class SaveBest final : public Stateful {
 public:
  /// The folder outlives the object; it is not that of FitOptions::checkpoints.
  SaveBest(CheckpointFolder* folder, WatchedMetric metric);

  /// Counts an epoch. Throws what BestValue::Update and CheckpointFolder::Save throw.
  void operator()(const EpochEndParam& param);
  /// Returns the best value so far.
  const BestValue& best() const { return best_; }

  TrainingState SaveState() const override { return best_.SaveState(); }
  void LoadState(const TrainingState& state) override { best_.LoadState(state); }

 private:
  CheckpointFolder* folder_;
  BestValue best_;
};

}  // namespace tessera

#endif  // TESSERA_TRAIN_BEST_EPOCH_H_
