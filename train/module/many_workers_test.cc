// Modules on many workers, whose ranks are threads of this process. If TESSERA_MPI_LIBRARY is set,
// the workers of RunWorkers are the four processes that mpirun has started, of which this is one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/io/ndarray_iter.h"
#include "tessera/kvstore/testing/simulated_communicator.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/train/checkpoint_folder.h"
#include "tessera/train/module.h"

namespace tessera {
namespace {

using kvstore_testing::SimulatedGroup;
using ndarray_testing::ReadAs;
using testing::AllOf;
using testing::DoubleNear;
using testing::FloatNear;
using testing::HasSubstr;
using testing::Pointwise;

constexpr int kWorkers = 4;
constexpr index_t kBatch = 8, kClasses = 3;
constexpr int kSteps = 50;

Symbol Perceptron() {
  Symbol x = Symbol::Apply("Flatten", {Symbol::Variable("data")}, {}, "flatten");
  x = Symbol::Apply("FullyConnected", {x}, {{"num_hidden", "8"}}, "fc1");
  x = Symbol::Apply("Activation", {x}, {{"act_type", "relu"}}, "relu1");
  x = Symbol::Apply("FullyConnected", {x}, {{"num_hidden", std::to_string(kClasses)}}, "fc2");
  return Symbol::Apply("SoftmaxOutput", {x}, {}, "softmax");
}

Symbol Convolutional() {
  Symbol x = Symbol::Variable("data");
  x = Symbol::Apply("Convolution", {x}, {{"kernel", "(3,3)"}, {"num_filter", "4"}}, "conv");
  x = Symbol::Apply("Activation", {x}, {{"act_type", "relu"}}, "relu");
  x = Symbol::Apply("Flatten", {x}, {}, "flatten");
  x = Symbol::Apply("FullyConnected", {x}, {{"num_hidden", std::to_string(kClasses)}}, "fc");
  return Symbol::Apply("SoftmaxOutput", {x}, {}, "softmax");
}

/// Returns the batches of some workers as one.
DataBatch Batch(int step, int first_rank, int ranks = 1) {
  std::uniform_real_distribution<float> pixels(0, 1);
  std::vector<float> images, labels;
  for (int rank = first_rank; rank < first_rank + ranks; ++rank) {
    std::mt19937 random(static_cast<uint32_t>(step * kWorkers + rank + 1));
    for (index_t i = 0; i < kBatch * 36; ++i) images.push_back(pixels(random));
    for (index_t i = 0; i < kBatch; ++i) labels.push_back(static_cast<float>(random() % kClasses));
  }
  return {.data = {NDArray::FromVector(images, {ranks * kBatch, 1, 6, 6})},
          .label = {NDArray::FromVector(labels, {ranks * kBatch})}};
}

std::unique_ptr<Module> MakeModule(const Symbol& network, uint64_t seed, index_t batch = kBatch) {
  auto module = std::make_unique<Module>(network);
  module->Bind({{"data", {batch, 1, 6, 6}}}, {{"softmax_label", {batch}}});
  module->InitParams(Xavier(), seed);
  return module;
}

std::shared_ptr<Sgd> Momentum() {
  return std::make_shared<Sgd>(SgdOptions{{.learning_rate = 0.2, .wd = 1e-4}, 0.9});
}

using Parameters = std::map<std::string, std::vector<float>>;

Parameters ParametersOf(const Module& module) {
  const ModelParameters arrays = module.GetParams();
  Parameters parameters;
  for (const auto& [name, array] : arrays.arg) parameters[name] = ReadAs<float>(array);
  return parameters;
}

/// Calls train(store) for each of four workers.
void RunWorkers(const std::function<void(const std::shared_ptr<KVStore>&)>& train) {
  if (std::getenv("TESSERA_MPI_LIBRARY") != nullptr) {
    const std::shared_ptr<KVStore> store = KVStore::Create("dist_sync");
    ASSERT_EQ(store->num_workers(), kWorkers);
    return train(store);
  }
  const SimulatedGroup group(kWorkers);
  group.RunRanks([&](const std::shared_ptr<Communicator>& rank) {
    train(KVStore::Create("dist_sync", rank));
  });
}

void TrainOneStep(Module& module, const DataBatch& batch) {
  module.Forward(batch, /*is_train=*/true);
  module.Backward();
  module.Update();
}

/// Trains on all workers' batches in one process, as one with a device for each of them does.
/// Returns the parameters after each step.
std::vector<Parameters> TrainInOneProcess(const Symbol& network) {
  std::vector<std::string> names;
  for (const std::string& name : network.ListArguments()) {
    if (name != "data" && name != "softmax_label") names.push_back(name);
  }
  std::vector<std::unique_ptr<Module>> devices;
  for (int i = 0; i < kWorkers; ++i) devices.push_back(MakeModule(network, /*seed=*/1));
  const auto optimizer = Momentum();
  optimizer->SetParameterNames(names);
  optimizer->set_rescale_grad(1.0 / static_cast<double>(kBatch * kWorkers));
  const auto store = KVStore::Create("local");
  store->set_updater([&](const KVKey& key, const NDArray& received, const NDArray& stored) {
    optimizer->Update(std::get<int>(key), stored, received);
  });
  for (size_t key = 0; key < names.size(); ++key) {
    store->Init(static_cast<int>(key), devices[0]->executor().arg_dict().at(names[key]));
  }
  std::vector<Parameters> steps;
  for (int step = 0; step < kSteps; ++step) {
    for (int i = 0; i < kWorkers; ++i) {
      Module& device = *devices[static_cast<size_t>(i)];
      device.Forward(Batch(step, i), /*is_train=*/true);
      device.Backward();
    }
    for (size_t key = 0; key < names.size(); ++key) {
      std::vector<NDArray> gradients, weights;
      for (const auto& device : devices) {
        gradients.push_back(device->executor().grad_dict().at(names[key]));
        weights.push_back(device->executor().arg_dict().at(names[key]));
      }
      store->Push(static_cast<int>(key), gradients);
      store->Pull(static_cast<int>(key), weights);
    }
    steps.push_back(ParametersOf(*devices[0]));
  }
  return steps;
}

TEST(ManyWorkersTest, FourWorkersHaveTheBitsOfOneProcessWithFourDevices) {
  for (const Symbol& network : {Perceptron(), Convolutional()}) {
    const std::vector<Parameters> expected = TrainInOneProcess(network);
    RunWorkers([&](const std::shared_ptr<KVStore>& store) {
      // Other first values, which those of rank 0 replace.
      const auto module = MakeModule(network, static_cast<uint64_t>(1 + store->rank()));
      module->InitOptimizer(Momentum(), store);
      for (int step = 0; step < kSteps; ++step) {
        TrainOneStep(*module, Batch(step, store->rank()));
        ASSERT_EQ(ParametersOf(*module), expected[static_cast<size_t>(step)]) << "step " << step;
      }
    });
  }
}

TEST(ManyWorkersTest, FourWorkersTrainAsOneWithTheWholeBatchToRounding) {
  // Ten steps of rounding errors of 6e-8, which momentum and the network enlarge.
  constexpr int kFewSteps = 10;
  constexpr float kTolerance = 1e-4f;
  for (const Symbol& network : {Perceptron(), Convolutional()}) {
    const auto whole = MakeModule(network, /*seed=*/1, kWorkers * kBatch);
    whole->InitOptimizer(Momentum());
    for (int step = 0; step < kFewSteps; ++step) TrainOneStep(*whole, Batch(step, 0, kWorkers));
    const Parameters expected = ParametersOf(*whole);
    RunWorkers([&](const std::shared_ptr<KVStore>& store) {
      const auto module = MakeModule(network, /*seed=*/1);
      module->InitOptimizer(Momentum(), store);
      for (int step = 0; step < kFewSteps; ++step) {
        TrainOneStep(*module, Batch(step, store->rank()));
      }
      for (const auto& [name, values] : ParametersOf(*module)) {
        EXPECT_THAT(values, Pointwise(FloatNear(kTolerance), expected.at(name))) << name;
      }
    });
  }
}

TEST(ManyWorkersTest, SetParamsGivesEveryWorkerThoseOfRankZero) {
  const SimulatedGroup group(2);
  const auto start = ParametersOf(*MakeModule(Perceptron(), /*seed=*/11));
  group.RunRanks([&](const std::shared_ptr<Communicator>& rank) {
    const std::shared_ptr<KVStore> store = KVStore::Create("dist_sync", rank);
    const auto module = MakeModule(Perceptron(), /*seed=*/1);
    module->InitOptimizer(Momentum(), store);
    const auto other = MakeModule(Perceptron(), static_cast<uint64_t>(11 + rank->rank()));
    module->SetParams(other->GetParams());
    EXPECT_EQ(ParametersOf(*module), start);
  });
}

TEST(ManyWorkersTest, AnEpochsMetricsAreThoseOfAllWorkers) {
  constexpr int kRanks = kClasses;
  const SimulatedGroup group(kRanks);
  group.RunRanks([](const std::shared_ptr<Communicator>& rank) {
    const std::shared_ptr<KVStore> store = KVStore::Create("dist_sync", rank);
    // The network, which is not changed, always says the same class: that of one worker's labels.
    NDArray images({2 * kBatch, 1, 6, 6}), labels({2 * kBatch});
    images = 0.5f;
    labels = static_cast<float>(rank->rank());
    const auto batches = [&] {
      return NDArrayIter({{"data", images}}, {{"softmax_label", labels}}, {.batch_size = kBatch});
    };
    NDArrayIter data = batches(), eval_data = batches();
    int epochs = 0;
    Module module(Perceptron());
    module.Fit(&data, {.num_epoch = 2,
                       .eval_data = &eval_data,
                       .optimizer = std::make_shared<Sgd>(SgdOptions{{.learning_rate = 0}}),
                       .kvstore = store,
                       .epoch_end = {[&](const EpochEndParam& param) {
                         ++epochs;
                         EXPECT_EQ(param.samples, 2 * kBatch);
                         EXPECT_DOUBLE_EQ(param.training[0].value, 1.0 / kRanks);
                         EXPECT_DOUBLE_EQ(param.validation[0].value, 1.0 / kRanks);
                       }}});
    EXPECT_EQ(epochs, 2);
  });
}

TEST(ManyWorkersTest, MetricsThatAreNoMeansAreThoseOfAllWorkers) {
  Symbol x = Symbol::Variable("data");
  x = Symbol::Apply("FullyConnected", {x}, {{"num_hidden", "1"}}, "fc");
  const Symbol network = Symbol::Apply("LinearRegressionOutput", {x}, {}, "softmax");
  const NDArray scores =
      NDArray::FromVector(std::vector<float>{0.1f, 0.9f, 0.4f, 0.3f, 0.7f, 0.8f, 0.2f}, {7, 1});
  const NDArray labels = NDArray::FromVector(std::vector<float>{0, 1, 1, 0, 0, 1, 0}, {7});
  const auto fit = [&](index_t begin, index_t end, const std::shared_ptr<KVStore>& store) {
    NDArrayIter data({{"data", scores.Slice(begin, end)}},
                     {{"softmax_label", labels.Slice(begin, end)}}, {.batch_size = 2});
    std::vector<double> values;
    Module module(network);
    module.Fit(&data, {.num_epoch = 1,
                       .metric = CompositeMetric({RocAuc(), PearsonCorrelation()}),
                       .optimizer = std::make_shared<Sgd>(SgdOptions{{.learning_rate = 0}}),
                       .initializer = std::make_shared<One>(),
                       .kvstore = store,
                       .epoch_end = {[&](const EpochEndParam& param) {
                         for (const NamedValue& named : param.training) {
                           values.push_back(named.value);
                         }
                       }}});
    return values;
  };
  const std::vector<double> expected = fit(0, 7, nullptr);
  ASSERT_EQ(expected.size(), 2u);
  const SimulatedGroup group(2);
  group.RunRanks([&](const std::shared_ptr<Communicator>& rank) {
    const std::shared_ptr<KVStore> store = KVStore::Create("dist_sync", rank);
    // Two batches each, of three and of four examples.
    const std::vector<double> values = rank->rank() == 0 ? fit(0, 3, store) : fit(3, 7, store);
    EXPECT_THAT(values, Pointwise(DoubleNear(1e-12), expected));
  });
}

/// Trains two workers, whose parameters it returns. With a name, each has a folder of it, from
/// which it goes on.
std::vector<Parameters> FitTwoWorkers(int num_epoch, const std::string& name = "") {
  std::vector<Parameters> parameters(2);
  const SimulatedGroup group(2);
  group.RunRanks([&](const std::shared_ptr<Communicator>& communicator) {
    const int rank = communicator->rank();
    const DataBatch examples = Batch(/*step=*/0, rank, 2);
    NDArrayIter data({{"data", examples.data[0]}}, {{"softmax_label", examples.label[0]}},
                     {.batch_size = 4, .shuffle = true});
    std::optional<CheckpointFolder> folder;
    if (!name.empty()) folder.emplace(name + "/" + std::to_string(rank));
    Module module(Perceptron());
    module.Fit(&data, {.num_epoch = num_epoch,
                       .optimizer = Momentum(),
                       .initializer = std::make_shared<Xavier>(),
                       .seed = static_cast<uint64_t>(1 + rank),
                       .kvstore = KVStore::Create("dist_sync", communicator),
                       .checkpoints = folder ? &*folder : nullptr,
                       .resume = folder.has_value()});
    parameters[static_cast<size_t>(rank)] = ParametersOf(module);
  });
  return parameters;
}

TEST(ManyWorkersTest, ATrainingGoesOnFromTheFoldersOfItsWorkers) {
  const std::string folder = testing::TempDir() + "/many_workers";
  std::filesystem::remove_all(folder);
  const std::vector<Parameters> expected = FitTwoWorkers(3);
  EXPECT_EQ(expected[0], expected[1]);
  EXPECT_NE(FitTwoWorkers(2, folder), expected);
  EXPECT_EQ(FitTwoWorkers(3, folder), expected);
}

TEST(ManyWorkersTest, AWorkerWithFewerBatchesIsAnErrorOfTheEpoch) {
  const SimulatedGroup group(2);
  group.RunRanks([](const std::shared_ptr<Communicator>& rank) {
    const std::shared_ptr<KVStore> store = KVStore::Create("dist_sync", rank);
    const index_t count = rank->rank() == 0 ? 3 * kBatch : 2 * kBatch;
    NDArray images({count, 1, 6, 6}), labels({count});
    images = 0.5f;
    labels = 1.0f;
    NDArrayIter data({{"data", images}}, {{"softmax_label", labels}}, {.batch_size = kBatch});
    Module module(Perceptron());
    try {
      module.Fit(&data, {.num_epoch = 4, .optimizer = Momentum(), .kvstore = store});
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr("rank 0 waits for the sum of key"),
                                      HasSubstr("rank 1 is at SumOverWorkers of 2 numbers")));
    }
  });
}

}  // namespace
}  // namespace tessera
