#include <chrono>
#include <span>

#include "tessera/base/error.h"
#include "tessera/train/module.h"

namespace tessera {

/// Pushes one epoch's batches, then waits. Sets the numbers of the training data in `param`.
void Module::TrainEpoch(DataIter* data, const FitOptions& options, EpochEndParam* param) {
  EvalMetric metric = options.metric;
  metric.Reset();
  // Callbacks may reset the metric, but not these sums.
  const EvalMetric epoch_metric(std::span<const EvalMetric>(&metric, 1));
  data->BeforeFirst();
  int64_t nbatch = 0;
  const auto start = std::chrono::steady_clock::now();
  while (data->Next()) {
    const DataBatch& batch = data->GetBatch();
    Forward(batch, /*is_train=*/true);
    Backward();
    Update();
    metric.UpdateBoth(batch.label, GetOutputs(), batch_size_ - batch.pad, &epoch_metric);
    param->samples += batch_size_ - batch.pad;
    ++nbatch;
    for (const BatchEndCallback& callback : options.batch_end) {
      callback({.epoch = param->epoch, .nbatch = nbatch, .metric = metric});
    }
  }
  for (const Trained& parameter : trained_) parameter.weight.WaitToRead();
  param->seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  param->training = epoch_metric.Get();
}

void Module::Fit(DataIter* train_data, const FitOptions& options) {
  if (options.num_epoch <= options.begin_epoch) {
    throw InvalidArgument("Module::Fit: num_epoch ", options.num_epoch,
                          ", expected more than begin_epoch ", options.begin_epoch);
  }
  if (!binded()) Bind(train_data->ProvideData(), train_data->ProvideLabel());
  const Uniform uniform(0.01f);
  InitParams(options.initializer != nullptr ? *options.initializer : uniform, options.seed);
  // A given optimizer or store replaces the current one. Without them, the current ones continue.
  std::shared_ptr<Optimizer> optimizer = options.optimizer ? options.optimizer : optimizer_;
  if (optimizer == nullptr) optimizer = std::make_shared<Sgd>();
  if (optimizer != optimizer_ || (options.kvstore != nullptr && options.kvstore != kvstore_)) {
    InitOptimizer(optimizer, options.kvstore);
  }
  if (options.eval_data != nullptr) EvaluatorOf(*options.eval_data);  // throws before the training
  for (int epoch = options.begin_epoch; epoch < options.num_epoch; ++epoch) {
    EpochEndParam param{.epoch = epoch,
                        .samples = 0,
                        .seconds = 0,
                        .training = {},
                        .validation = {},
                        .module = *this};
    TrainEpoch(train_data, options, &param);
    if (options.eval_data != nullptr) {
      param.validation = Score(options.eval_data, options.validation_metric);
    }
    for (const EpochEndCallback& callback : options.epoch_end) callback(param);
  }
}

std::vector<NamedValue> Module::Score(DataIter* data, EvalMetric metric) {
  RequireParams("Score");
  Module* const module = EvaluatorOf(*data);
  metric.Reset();
  data->BeforeFirst();
  while (data->Next()) {
    const DataBatch& batch = data->GetBatch();
    module->Forward(batch, /*is_train=*/false);
    module->UpdateMetric(&metric, batch);
  }
  return metric.Get();
}

}  // namespace tessera
