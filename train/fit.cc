#include <chrono>

#include "tessera/base/error.h"
#include "tessera/train/module.h"

namespace tessera {

/// Pushes one epoch's batches, then waits. Returns the epoch's duration in seconds.
double Module::TrainEpoch(DataIter* data, int epoch, const FitOptions& options, int64_t* samples) {
  EvalMetric metric = options.metric;
  metric.Reset();
  data->BeforeFirst();
  *samples = 0;
  int64_t nbatch = 0;
  const auto start = std::chrono::steady_clock::now();
  while (data->Next()) {
    const DataBatch& batch = data->GetBatch();
    Forward(batch, /*is_train=*/true);
    Backward();
    Update();
    UpdateMetric(&metric, batch);
    *samples += batch_size_ - batch.pad;
    ++nbatch;
    for (const BatchEndCallback& callback : options.batch_end) {
      callback({.epoch = epoch, .nbatch = nbatch, .metric = metric});
    }
  }
  for (const Trained& parameter : trained_) parameter.weight.WaitToRead();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Module::Fit(DataIter* train_data, const FitOptions& options) {
  if (options.num_epoch <= options.begin_epoch) {
    throw InvalidArgument("Module::Fit: num_epoch ", options.num_epoch,
                          ", expected more than begin_epoch ", options.begin_epoch);
  }
  if (!binded()) Bind(train_data->ProvideData(), train_data->ProvideLabel());
  const Uniform uniform(0.01f);
  InitParams(options.initializer != nullptr ? *options.initializer : uniform, options.seed);
  // A given optimizer replaces the current one. Without one, the current optimizer continues.
  if (options.optimizer != nullptr ? options.optimizer != optimizer_ : optimizer_ == nullptr) {
    InitOptimizer(options.optimizer != nullptr ? options.optimizer : std::make_shared<Sgd>(),
                  options.kvstore);
  }
  for (int epoch = options.begin_epoch; epoch < options.num_epoch; ++epoch) {
    int64_t samples = 0;
    const double seconds = TrainEpoch(train_data, epoch, options, &samples);
    EpochEndParam param{.epoch = epoch,
                        .samples = samples,
                        .seconds = seconds,
                        .training = EvalMetric(options.metric).Get(),
                        .validation = {},
                        .module = *this};
    if (options.eval_data != nullptr) {
      param.validation = Score(options.eval_data, options.validation_metric);
    }
    for (const EpochEndCallback& callback : options.epoch_end) callback(param);
  }
}

std::vector<NamedValue> Module::Score(DataIter* data, EvalMetric metric) {
  RequireParams("Score");
  metric.Reset();
  data->BeforeFirst();
  while (data->Next()) {
    const DataBatch& batch = data->GetBatch();
    Forward(batch, /*is_train=*/false);
    UpdateMetric(&metric, batch);
  }
  return metric.Get();
}

}  // namespace tessera
