#include <cstddef>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/train/module.h"

namespace tessera {

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

std::vector<NDArray> Module::Predict(DataIter* data) {
  RequireParams("Predict");
  Module* const module = EvaluatorOf(*data);
  std::vector<std::vector<NDArray>> parts;  // of each output
  data->BeforeFirst();
  while (data->Next()) {
    const DataBatch& batch = data->GetBatch();
    module->Forward(batch, /*is_train=*/false);
    const std::vector<NDArray>& outputs = module->GetOutputs();
    parts.resize(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      const TShape& shape = outputs[i].shape();
      if (shape.ndim() < 1 || shape[0] != module->batch_size()) {
        throw InvalidArgument("Module::Predict: output ", i, " has shape ", shape, ", expected ",
                              module->batch_size(), " rows as the batch has");
      }
      parts[i].push_back(outputs[i].Slice(0, shape[0] - batch.pad).Copy(Device::Cpu()));
    }
  }
  std::vector<NDArray> all;
  for (const std::vector<NDArray>& of_output : parts) {
    TShape shape = of_output[0].shape();
    shape[0] = 0;
    for (const NDArray& part : of_output) shape[0] += part.shape()[0];
    NDArray& joined = all.emplace_back(shape, Device::Cpu(), of_output[0].dtype());
    index_t row = 0;
    for (const NDArray& part : of_output) {
      CopyFromTo(part, joined.Slice(row, row + part.shape()[0]));
      row += part.shape()[0];
    }
  }
  return all;
}

}  // namespace tessera
