// A loop over layers that is continued from a checkpoint is, bit for bit, one that was never
// stopped.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tessera/io/ndarray_iter.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/resource/resource_manager.h"
#include "tessera/train/adam.h"
#include "tessera/train/checkpoint_folder.h"
#include "tessera/train/metrics.h"
#include "tessera/train/nn/nn.h"
#include "tessera/train/training_parts.h"

namespace tessera::nn {
namespace {

constexpr index_t kExamples = 12;

std::unique_ptr<NDArrayIter> Data() {
  std::vector<float> values, labels;
  for (index_t i = 0; i < kExamples; ++i) {
    for (index_t k = 0; k < 4; ++k) values.push_back(static_cast<float>((i * 5 + k * 3) % 7) / 7);
    labels.push_back(static_cast<float>(i % 3));
  }
  return std::make_unique<NDArrayIter>(
      NamedArrays{{"data", NDArray::FromVector(values, {kExamples, 4})}},
      NamedArrays{{"label", NDArray::FromVector(labels, {kExamples})}},
      BatchingOptions{.batch_size = 4, .shuffle = true, .seed = 2});
}

using Values = std::map<std::string, std::vector<float>>;

/// A process that trains for three epochs of three batches each, or until `last_step`, where it
/// saves. It continues from a checkpoint if there is one. Returns the parameters and the metric of
/// the last epoch.
Values Train(const std::string& path, uint64_t seed, int64_t last_step) {
  ResourceManager::Get()->SeedRandom(seed);
  const auto train = Data();
  Sequential net(Dense(6, {.activation = "relu"}), BatchNorm(), Dropout(0.4), Dense(3));
  net.Initialize(Xavier(), {.seed = seed});
  net.Compile();
  const SoftmaxCrossEntropyLoss loss;
  Trainer trainer(net.Parameters(), std::make_shared<Adam>());
  EvalMetric metric = CrossEntropy();

  CheckpointFolder folder(path);
  TrainingParts parts;
  parts.Add("optimizer", trainer.optimizer().get());
  parts.Add("data", train.get());
  parts.Add("metric", &metric);
  parts.AddRandom("random");
  if (const auto latest = folder.Latest()) {
    const TrainingSnapshot snapshot = folder.Load(*latest);
    net.SetParams(snapshot.parameters);
    parts.LoadState(snapshot.state);
  }
  Optimizer& optimizer = *trainer.optimizer();
  while (optimizer.num_update() < last_step) {
    if (!train->Next()) {
      train->BeforeFirst();
      metric.Reset();
      continue;
    }
    const DataBatch& batch = train->GetBatch();
    NDArray output;
    {
      const autograd::Record record;
      output = net(batch.data[0]);
      loss(output, batch.label[0]).Backward();
    }
    trainer.Step(4);
    const NDArray probabilities = Invoke("softmax", {output})[0];
    metric.Update(batch.label, {&probabilities, 1});
  }
  folder.Save(optimizer.num_update(), {.parameters = net.GetParams(), .state = parts.SaveState()});
  Values values;
  for (const auto& [name, array] : net.GetParams()) values[name] = array.ToVector();
  values["metric"] = {static_cast<float>(metric.Get()[0].value)};
  return values;
}

TEST(LayerResumeTest, StoppedAfterEachStepItEndsAsIfItHadNotBeen) {
  const std::string path = testing::TempDir() + "/layers";
  std::filesystem::remove_all(path);
  const Values whole = Train(path, 1, 9);
  EXPECT_TRUE(whole.contains("0.weight"));
  for (int64_t step = 1; step < 9; ++step) {
    std::filesystem::remove_all(path);
    EXPECT_NE(Train(path, 1, step), whole);
    EXPECT_EQ(Train(path, 77, 9), whole) << "stopped after step " << step;
  }
}

}  // namespace
}  // namespace tessera::nn
