#include "tessera/train/nn/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/kvstore/kvstore.h"
#include "tessera/kvstore/testing/simulated_communicator.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ops/sparse.h"
#include "tessera/train/initializer.h"
#include "tessera/train/nn/dense.h"
#include "tessera/train/nn/embedding.h"
#include "tessera/train/nn/layer.h"
#include "tessera/train/nn/norm.h"
#include "tessera/train/nn/sequential.h"
#include "tessera/train/sgd.h"

namespace tessera::nn {
namespace {

using base_testing::ExpectError;
using kvstore_testing::SimulatedGroup;
using testing::ElementsAre;

std::shared_ptr<Optimizer> MakeSgd(double learning_rate, double wd = 0) {
  SgdOptions options;
  options.learning_rate = learning_rate;
  options.wd = wd;
  return std::make_shared<Sgd>(options);
}

NDArray Matrix(const std::vector<float>& values, const TShape& shape) {
  return NDArray::FromVector(values, shape);
}

/// Computes the gradients of the sum of the outputs.
void Backward(const Layer& net, const NDArray& x) {
  NDArray y;
  {
    const autograd::Record record;
    y = net(x);
  }
  y.Backward();
}

TEST(TrainerTest, StepsDivideByTheBatchSize) {
  Dense net(1);
  net.Initialize(One());
  Trainer trainer(net.Parameters(), MakeSgd(0.5));
  const Parameter weight = net.Parameters()[0].parameter, bias = net.Parameters()[1].parameter;
  for (const index_t batch_size : {2, 1}) {
    Backward(net, Matrix({1, 2, 3, 4}, {2, 2}));  // the gradients are 4, 6 and 2
    trainer.Step(batch_size);
  }
  EXPECT_THAT(weight.Data().ToVector(), ElementsAre(1 - 1 - 2, 1 - 1.5f - 3));
  EXPECT_THAT(bias.Data().ToVector(), ElementsAre(-0.5f - 1));
  EXPECT_EQ(trainer.optimizer()->num_update(), 2);
}

TEST(TrainerTest, AllParametersDecay) {
  Dense net(1);
  net.Initialize(One());
  Trainer trainer(net.Parameters(), MakeSgd(0.5, 0.5));
  const Parameter bias = net.Parameters()[1].parameter;
  bias.SetData(Matrix({4}, {1}));
  Backward(net, Matrix({1}, {1, 1}));
  trainer.Step(1);
  EXPECT_THAT(bias.Data().ToVector(), ElementsAre(4 - 0.5f * (1 + 0.5f * 4)));
}

TEST(TrainerTest, SeveralDevicesTrainAsOne) {
  const NDArray x = Matrix({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2});
  std::vector<std::vector<float>> expected;
  for (const int num_devices : {1, 2}) {
    Dense net(1);
    InitializeOptions options = {.devices = {}};
    for (int id = 0; id < num_devices; ++id) options.devices.push_back(Device::Cpu(id));
    net.Initialize(One(), options);
    Trainer trainer(net.Parameters(), MakeSgd(0.5));
    for (int step = 0; step < 3; ++step) {
      const index_t rows = 4 / num_devices;
      for (int id = 0; id < num_devices; ++id) {
        Backward(net, x.Slice(id * rows, (id + 1) * rows).Copy(Device::Cpu(id)));
      }
      trainer.Step(4);
    }
    for (const NamedParameter& named : net.Parameters()) {
      const std::vector<float> values = named.parameter.Data().ToVector();
      if (num_devices == 1) {
        expected.push_back(values);
        continue;
      }
      // The sums are exact in any order.
      EXPECT_EQ(values, expected[named.name == "weight" ? 0 : 1]) << named.name;
      EXPECT_EQ(named.parameter.Data(Device::Cpu(1)).ToVector(), values) << named.name;
    }
  }
}

TEST(TrainerTest, AStoreUpdates) {
  Dense net(1, {.use_bias = false});
  net.Initialize(One());
  const std::shared_ptr<KVStore> store = KVStore::Create("local");
  Trainer trainer(net.Parameters(), MakeSgd(0.5), {.kvstore = store});
  const Parameter weight = net.Parameters()[0].parameter;
  for (int step = 0; step < 2; ++step) {
    Backward(net, Matrix({1, 2}, {1, 2}));
    trainer.Step(1);
  }
  EXPECT_THAT(weight.Data().ToVector(), ElementsAre(0, -1));
  NDArray stored({1, 2});
  store->Pull(0, stored);
  EXPECT_THAT(stored.ToVector(), ElementsAre(0, -1));
}

TEST(TrainerTest, ManyWorkersTrainAsOne) {
  const NDArray x = Matrix({1, 2, 3, 4, 5, 6, 7, 8}, {4, 2});
  const auto train = [&x](float first_weight, index_t first_row, index_t rows,
                          const std::shared_ptr<KVStore>& store) {
    Dense net(1);
    net.Initialize(Constant(first_weight));
    Trainer trainer(net.Parameters(), MakeSgd(0.5), {.kvstore = store});
    for (int step = 0; step < 3; ++step) {
      Backward(net, x.Slice(first_row, first_row + rows));
      trainer.Step(rows);
    }
    std::vector<std::vector<float>> values;
    for (const NamedParameter& named : net.Parameters()) {
      values.push_back(named.parameter.Data().ToVector());
    }
    return values;
  };
  const std::vector<std::vector<float>> expected = train(1, 0, 4, nullptr);
  const SimulatedGroup group(2);
  group.RunRanks([&](const std::shared_ptr<Communicator>& rank) {
    const std::shared_ptr<KVStore> store = KVStore::Create("dist_sync", rank);
    // The gradients do not depend on the weights, and the sums are exact in any order.
    EXPECT_EQ(train(rank->rank() == 0 ? 1 : 5, 2 * rank->rank(), 2, store), expected);
  });
}

TEST(TrainerTest, AStoreRefusesWhatNeedsAllGradients) {
  Dense net(1, {.use_bias = false});
  net.Initialize(One());
  SgdOptions options;
  options.clip_global_norm = 1;
  Trainer trainer(net.Parameters(), std::make_shared<Sgd>(options),
                  {.kvstore = KVStore::Create("local")});
  Backward(net, Matrix({1, 2}, {1, 2}));
  ExpectError(Error::kUnimplemented, "clip_global_norm", [&] { trainer.Step(1); });
}

TEST(TrainerTest, ParametersWithoutGradientsAreNotTrained) {
  Sequential net(BatchNorm({.center = false, .scale = false}), Dense(1, {.use_bias = false}));
  net.Initialize(One());
  Trainer trainer(net.Parameters(), MakeSgd(1));
  Backward(net, Matrix({1, 3}, {2, 1}));
  trainer.Step(1);
  EXPECT_THAT(net.Parameters()[0].parameter.Data().ToVector(), ElementsAre(1));  // gamma
  ExpectError(Error::kInvalidArgument, "no parameter has a gradient", [] {
    const BatchNorm fixed({.center = false, .scale = false});
    Trainer(fixed.Parameters(), MakeSgd(1));
  });
}

TEST(TrainerTest, SharedParametersAreUpdatedOnce) {
  const auto shared = std::make_shared<Dense>(1, DenseOptions{.use_bias = false});
  Sequential net(shared, shared);
  net.Initialize(One());
  Trainer trainer(net.Parameters(), MakeSgd(0.5));
  Backward(net, Matrix({3}, {1, 1}));  // of 3 w w
  trainer.Step(1);
  EXPECT_THAT(net.Parameters()[0].parameter.Data().ToVector(), ElementsAre(1 - 0.5f * 6));
}

TEST(TrainerTest, GradientsMustBeNew) {
  Sequential used(Dense(1)), unused(Dense(1, {.in_units = 1}));
  used.Initialize(One());
  unused.Initialize(One());
  std::vector<NamedParameter> parameters = used.Parameters();
  Trainer strict(parameters, MakeSgd(0.5));
  ExpectError(Error::kFailedPrecondition, "0.weight", [&] { strict.Step(1); });
  for (const NamedParameter& named : unused.Parameters()) parameters.push_back(named);
  Trainer lenient(parameters, MakeSgd(0.5), {.ignore_stale_grad = true});
  Backward(used, Matrix({1}, {1, 1}));
  strict.Step(1);
  ExpectError(Error::kFailedPrecondition, "was not computed since the last step",
              [&] { strict.Step(1); });
  Backward(used, Matrix({1}, {1, 1}));
  lenient.Step(1);
  EXPECT_THAT(used.Parameters()[0].parameter.Data().ToVector(), ElementsAre(0));
  EXPECT_THAT(unused.Parameters()[0].parameter.Data().ToVector(), ElementsAre(1));
  ExpectError(Error::kInvalidArgument, "batch_size is 0", [&] { lenient.Step(0); });
  ExpectError(Error::kInvalidArgument, "the optimizer is null",
              [&] { Trainer(parameters, nullptr); });
}

TEST(TrainerTest, TheVectorsOfABatchTakeAStep) {
  for (const bool has_store : {false, true}) {
    for (const bool compiles : {false, true}) {
      Embedding net(5, 2, std::make_shared<One>(), /*sparse_grad=*/true);
      net.Initialize();
      if (compiles) net.Compile();
      Trainer trainer(net.Parameters(), MakeSgd(1),
                      {.kvstore = has_store ? KVStore::Create("local") : nullptr});
      const NDArray weight = net.Parameters()[0].parameter.Data();
      for (int step = 0; step < 2; ++step) {
        Backward(net, Matrix({1, 4, 4, 1, 3}, {5}));
        EXPECT_EQ(StorageTypeOf(weight.grad()), StorageType::kRowSparse);
        EXPECT_EQ(sparse::Count(weight.grad()), 3);
        trainer.Step(1);
      }
      EXPECT_THAT(weight.ToVector(), ElementsAre(1, 1, -3, -3, 1, 1, -1, -1, -3, -3));
    }
  }
}

}  // namespace
}  // namespace tessera::nn
