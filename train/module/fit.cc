#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/train/module.h"
#include "tessera/train/stop_signals.h"
#include "tessera/train/training_parts.h"

namespace tessera {
namespace {

/// The place of a training in its epochs.
struct FitPlace final : public Stateful {
  int epoch = 0;       // counted from 0
  int64_t nbatch = 0;  // batches done in it
  int64_t samples = 0;
  bool stopped = false;  // by StopFit

  TrainingState SaveState() const override {
    TrainingState state;
    state.integers["epoch"] = {epoch};
    state.integers["nbatch"] = {nbatch};
    state.integers["samples"] = {samples};
    state.integers["stopped"] = {stopped ? 1 : 0};
    return state;
  }
  void LoadState(const TrainingState& state) override {
    epoch = static_cast<int>(state.Integer("epoch"));
    nbatch = state.Integer("nbatch");
    samples = state.Integer("samples");
    stopped = state.Integer("stopped") != 0;
  }
};

}  // namespace

/// The state of Fit between batches.
struct Module::Training {
  explicit Training(const EvalMetric& given)
      : metric(given), epoch_metric(std::span<const EvalMetric>(&metric, 1)) {}

  EvalMetric metric;
  EvalMetric epoch_metric;  // callbacks may reset the metric, but not these sums
  FitPlace place;
  TrainingParts parts;  // all of these, and more
  // Of the current epoch.
  double seconds = 0;
  std::vector<NamedValue> values;
};

void Module::SaveTraining(const FitOptions& options, const Training& training) const {
  if (options.checkpoints == nullptr) return;
  options.checkpoints->Save(optimizer_->num_update(), {.model = Checkpoint{symbol_, GetParams()},
                                                       .state = training.parts.SaveState()});
}

/// Sets everything to the state of the last checkpoint, or to the beginning if there is none.
void Module::Resume(const FitOptions& options, Training* training) {
  const std::optional<int64_t> step = options.checkpoints->Latest();
  if (!step) return;
  const TrainingSnapshot snapshot = options.checkpoints->Load(*step);
  if (!snapshot.model || snapshot.model->symbol.ToJson() != symbol_.ToJson()) {
    throw InvalidArgument("Module::Fit: the checkpoint of step ", *step, " in ",
                          options.checkpoints->path(),
                          " holds another network, expected the module's");
  }
  SetParams(snapshot.model->parameters);
  training->parts.LoadState(snapshot.state);
}

/// Binds and initializes, as far as that has not been done, and continues from a checkpoint.
void Module::BeginFit(DataIter* data, const FitOptions& options, Training* training) {
  if (!binded()) Bind(data->ProvideData(), data->ProvideLabel());
  const Uniform uniform(0.01f);
  InitParams(options.initializer != nullptr ? *options.initializer : uniform, options.seed);
  // A given optimizer or store replaces the current one. Without them, the current ones continue.
  std::shared_ptr<Optimizer> optimizer = options.optimizer ? options.optimizer : optimizer_;
  if (optimizer == nullptr) optimizer = std::make_shared<Sgd>();
  if (optimizer != optimizer_ || (options.kvstore != nullptr && options.kvstore != kvstore_)) {
    InitOptimizer(optimizer, options.kvstore);
  }
  if (options.eval_data != nullptr) EvaluatorOf(*options.eval_data);  // throws before the training
  training->place.epoch = options.begin_epoch;
  if (options.checkpoints == nullptr) return;
  training->parts.Add("fit", &training->place);
  training->parts.Add("optimizer", optimizer_.get());
  training->parts.Add("metric", &training->metric);
  training->parts.Add("epoch_metric", &training->epoch_metric);
  training->parts.Add("data", data);
  if (options.eval_data != nullptr) training->parts.Add("eval_data", options.eval_data);
  training->parts.AddRandom("random");
  for (const auto& [name, part] : options.parts) training->parts.Add(name, part);
  if (options.resume) Resume(options, training);
}

/// Trains from the place to the end of its epoch, and waits. Returns false if it was stopped.
bool Module::TrainEpoch(DataIter* data, const FitOptions& options, Training* training) {
  FitPlace& place = training->place;
  if (place.nbatch == 0) {
    training->metric.Reset();
    training->epoch_metric.Reset();
    data->BeforeFirst();
  }
  const auto start = std::chrono::steady_clock::now();
  bool stops = false;
  while (!stops && data->Next()) {
    const DataBatch& batch = data->GetBatch();
    Forward(batch, /*is_train=*/true);
    Backward();
    Update();
    training->metric.UpdateBoth(batch.label, GetOutputs(), batch_size_ - batch.pad,
                                &training->epoch_metric);
    place.samples += batch_size_ - batch.pad;
    ++place.nbatch;
    for (const BatchEndCallback& callback : options.batch_end) {
      callback({.epoch = place.epoch,
                .nbatch = place.nbatch,
                .metric = training->metric,
                .num_update = optimizer_->num_update()});
    }
    place.stopped = stops_fit_;
    stops = stops_fit_ || StopSignals::received() != 0;
    const bool is_due =
        options.checkpoint_batches > 0 && place.nbatch % options.checkpoint_batches == 0;
    if (stops || is_due) SaveTraining(options, *training);
  }
  // Workers that a signal stops have done different numbers of steps.
  if (!stops) SumOverWorkers(&training->epoch_metric);  // finds different numbers of batches, too
  for (const Trained& parameter : trained_) parameter.weight.WaitToRead();
  training->seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  training->values = training->epoch_metric.Get();
  return !stops;
}

/// Makes a metric that of all workers. Every worker calls it.
void Module::SumOverWorkers(EvalMetric* metric) {
  if (kvstore_ == nullptr || kvstore_->num_workers() == 1) return;
  metric->SumTotals(kvstore_->rank(), kvstore_->num_workers(),
                    [this](std::span<double> numbers) { kvstore_->SumOverWorkers(numbers); });
}

FitResult Module::Fit(DataIter* train_data, const FitOptions& options) {
  if (options.num_epoch <= options.begin_epoch) {
    throw InvalidArgument("Module::Fit: num_epoch ", options.num_epoch,
                          ", expected more than begin_epoch ", options.begin_epoch);
  }
  if (options.resume && options.checkpoints == nullptr) {
    throw InvalidArgument("Module::Fit: resume without checkpoints, expected a CheckpointFolder");
  }
  if (options.checkpoints != nullptr && !options.resume && options.checkpoints->Latest()) {
    throw FailedPrecondition("Module::Fit: ", options.checkpoints->path(),
                             " has checkpoints, expected an empty folder or resume");
  }
  stops_fit_ = false;
  Training training(options.metric);
  FitPlace& place = training.place;
  BeginFit(train_data, options, &training);
  while (place.epoch < options.num_epoch && !place.stopped && StopSignals::received() == 0) {
    if (!TrainEpoch(train_data, options, &training)) break;
    EpochEndParam param{.epoch = place.epoch,
                        .samples = place.samples,
                        .seconds = training.seconds,
                        .training = std::move(training.values),
                        .validation = {},
                        .module = *this};
    if (options.eval_data != nullptr) {
      EvalMetric metric = options.validation_metric;  // a handle
      Score(options.eval_data, metric);
      SumOverWorkers(&metric);
      param.validation = metric.Get();
    }
    for (const EpochEndCallback& callback : options.epoch_end) callback(param);
    ++place.epoch;
    place.nbatch = place.samples = 0;
    place.stopped = stops_fit_;
    SaveTraining(options, training);
  }
  return {.num_epoch = place.epoch, .stopped = place.epoch < options.num_epoch};
}

}  // namespace tessera
