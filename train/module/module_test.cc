#include "tessera/train/module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/io/ndarray_iter.h"
#include "tessera/kvstore/kvstore.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/serialization.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ops/sparse.h"
#include "tessera/storage/storage.h"

namespace tessera {
namespace {

using base_testing::ErrorOf;
using testing::AllOf;
using testing::HasSubstr;

constexpr index_t kClasses = 3;

Symbol Network(index_t hidden = 8) {
  Symbol x = Symbol::Variable("data");
  x = Symbol::Apply("FullyConnected", {x}, {{"num_hidden", std::to_string(hidden)}}, "fc1");
  x = Symbol::Apply("Activation", {x}, {{"act_type", "relu"}}, "relu1");
  x = Symbol::Apply("FullyConnected", {x}, {{"num_hidden", std::to_string(kClasses)}}, "fc2");
  return Symbol::Apply("SoftmaxOutput", {x}, {}, "softmax");
}

/// Points around the corners of a triangle, the corner being the class.
std::unique_ptr<NDArrayIter> Points(index_t count, index_t batch_size, bool shuffle = true) {
  std::vector<float> points, labels;
  for (index_t i = 0; i < count; ++i) {
    const index_t k = i % kClasses;
    const float angle = 2.0944f * static_cast<float>(k);
    const float noise = static_cast<float>(i * 37 % 11 - 5) / 20;
    points.push_back(std::cos(angle) + noise);
    points.push_back(std::sin(angle) - noise / 2);
    labels.push_back(static_cast<float>(k));
  }
  return std::make_unique<NDArrayIter>(
      NamedArrays{{"data", NDArray::FromVector(points, {count, 2})}},
      NamedArrays{{"softmax_label", NDArray::FromVector(labels, {count})}},
      BatchingOptions{.batch_size = batch_size, .shuffle = shuffle, .seed = 5});
}

std::shared_ptr<Sgd> Optimizer1() {
  return std::make_shared<Sgd>(SgdOptions{{.learning_rate = 0.2, .wd = 1e-4}, 0.9});
}

FitOptions Options(int num_epoch = 5) {
  return {.num_epoch = num_epoch,
          .optimizer = Optimizer1(),
          .initializer = std::make_shared<Xavier>(),
          .seed = 3};
}

std::map<std::string, std::vector<float>> Values(const Module& module) {
  std::map<std::string, std::vector<float>> values;
  for (const auto& [name, array] : module.GetParams().arg) values[name] = array.ToVector();
  return values;
}

TEST(ModuleTest, FitLearns) {
  const auto train = Points(90, 10);
  const auto test = Points(33, 10, /*shuffle=*/false);
  Module module(Network());
  std::vector<EpochEndParam> epochs;
  FitOptions options = Options();
  options.eval_data = test.get();
  options.metric = CompositeMetric({Accuracy(), CrossEntropy()});
  options.epoch_end.push_back([&](const EpochEndParam& param) { epochs.push_back(param); });
  module.Fit(train.get(), options);
  ASSERT_EQ(epochs.size(), 5u);
  EXPECT_EQ(epochs[0].samples, 90);
  EXPECT_GT(epochs[0].seconds, 0);
  EXPECT_GT(epochs[0].training[1].value, epochs[4].training[1].value);
  EXPECT_GT(epochs[4].training[0].value, 0.99);
  EXPECT_GT(epochs[4].validation[0].value, 0.99);
  EXPECT_EQ(module.Score(test.get(), Accuracy())[0].value, epochs[4].validation[0].value);
}

TEST(ModuleTest, ASeedFixesARun) {
  const auto run = [](uint64_t seed) {
    const auto train = Points(40, 8);
    Module module(Network());
    FitOptions options = Options(2);
    options.seed = seed;
    module.Fit(train.get(), options);
    return Values(module);
  };
  const auto first = run(1);
  EXPECT_EQ(run(1), first);
  EXPECT_NE(run(2), first);
}

TEST(ModuleTest, AStoreGivesTheSameUpdates) {
  const auto run = [](std::shared_ptr<KVStore> kvstore) {
    const auto train = Points(40, 8);
    Module module(Network());
    FitOptions options = Options(2);
    options.kvstore = std::move(kvstore);
    module.Fit(train.get(), options);
    return Values(module);
  };
  EXPECT_EQ(run(KVStore::Create("local")), run(nullptr));
}

TEST(ModuleTest, ParametersThatAreSetReachTheStore) {
  const auto run = [](std::shared_ptr<KVStore> kvstore) {
    const auto train = Points(40, 8);
    Module module(Network());
    FitOptions options = Options(1);
    options.kvstore = std::move(kvstore);
    module.Fit(train.get(), options);
    ModelParameters zero = module.GetParams();
    for (auto& [name, array] : zero.arg) array = 0.0f;
    module.SetParams(zero);
    module.Fit(train.get(), options);
    std::vector values = {Values(module)};
    module.InitParams(Xavier(), 7, /*force=*/true);
    module.Fit(train.get(), options);
    values.push_back(Values(module));
    return values;
  };
  EXPECT_EQ(run(KVStore::Create("local")), run(nullptr));
}

TEST(ModuleTest, AStoreServesSeveralFitsOfAModule) {
  const auto run = [](std::shared_ptr<KVStore> kvstore) {
    const auto train = Points(40, 8);
    Module module(Network());
    for (int fit = 0; fit < 3; ++fit) {
      // The optimizer is a new one each time; binding in between forgets it and changes a weight.
      FitOptions options = Options(1);
      options.kvstore = kvstore;
      module.Fit(train.get(), options);
      if (fit == 1) {
        module.Bind(train->ProvideData(), train->ProvideLabel(), /*for_training=*/false);
        ModelParameters parameters = module.GetParams();
        parameters.arg.at("fc1_bias") = 0.5f;
        module.SetParams(parameters);
        module.Bind(train->ProvideData(), train->ProvideLabel());
      }
    }
    return Values(module);
  };
  EXPECT_EQ(run(KVStore::Create("local")), run(nullptr));
}

TEST(ModuleTest, FitUsesTheStoreThatItIsGiven) {
  const auto train = Points(40, 8);
  Module module(Network());
  FitOptions options = Options(1);
  module.Fit(train.get(), options);
  options.kvstore = KVStore::Create("local");
  module.Fit(train.get(), options);
  const NDArray pulled(module.GetParams().arg.at("fc1_weight").shape());
  options.kvstore->Pull(0, pulled);
  EXPECT_EQ(pulled.ToVector(), Values(module).at("fc1_weight"));
}

/// The parameters before and after a step of gradient descent at rate 0.5 over a batch of 6.
auto StepByHalf(Module* module) {
  const auto data = Points(6, 6);
  module->Bind(data->ProvideData(), data->ProvideLabel());
  module->InitParams(Xavier(), 1);
  module->InitOptimizer(std::make_shared<Sgd>(SgdOptions{{.learning_rate = 0.5}}));
  auto before = Values(*module);
  EXPECT_TRUE(data->Next());
  module->Forward(data->GetBatch(), /*is_train=*/true);
  module->Backward();
  module->Update();
  return std::pair(std::move(before), Values(*module));
}

TEST(ModuleTest, UpdatesAreThoseOfTheGradient) {
  Module module(Network());
  const auto [before, after] = StepByHalf(&module);
  for (const auto& [name, grad] : module.executor().grad_dict()) {
    const std::vector<float> g = grad.ToVector();
    for (size_t i = 0; i < g.size(); ++i) {
      // Rescaled by 1 / batch size.
      EXPECT_NEAR(after.at(name)[i], before.at(name)[i] - 0.5 * g[i] / 6, 1e-6) << name << i;
    }
  }
}

TEST(ModuleTest, FixedParametersStay) {
  const auto train = Points(40, 8);
  Module module(Network(), {.fixed_param_names = {"fc1_weight"}});
  module.Bind(train->ProvideData(), train->ProvideLabel());
  module.InitParams(Xavier(), 1);
  const auto before = Values(module);
  module.Fit(train.get(), Options(1));
  const auto after = Values(module);
  EXPECT_EQ(after.at("fc1_weight"), before.at("fc1_weight"));
  EXPECT_NE(after.at("fc2_weight"), before.at("fc2_weight"));
}

TEST(ModuleTest, FactorsThatOldFilesWriteAtTheOperatorReachItsParameters) {
  std::string json = Network().ToJson();
  const std::string parameters = R"("num_hidden": "8")";
  const size_t at = json.find(parameters);
  ASSERT_NE(at, json.npos);
  json.insert(at, R"("weight_lr_mult": "0", "bias_lr_mult": "2", )");
  Module module(Symbol::FromJson(json));
  const auto [before, after] = StepByHalf(&module);
  EXPECT_EQ(after.at("fc1_weight"), before.at("fc1_weight"));
  EXPECT_NE(after.at("fc2_weight"), before.at("fc2_weight"));
  const std::vector<float> gradient = module.executor().grad_dict().at("fc1_bias").ToVector();
  for (size_t i = 0; i < gradient.size(); ++i) {
    EXPECT_NEAR(after.at("fc1_bias")[i], before.at("fc1_bias")[i] - 2 * 0.5 * gradient[i] / 6,
                1e-6);
  }
}

TEST(ModuleTest, PaddingIsNotMeasured) {
  // 7 examples in batches of 5: 3 of the second batch are padding.
  const auto data = Points(7, 5, /*shuffle=*/false);
  Module module(Network());
  module.Bind(data->ProvideData(), data->ProvideLabel());
  module.InitParams(Zero());
  // All predictions are equal, so class 0 counts: examples 0, 3 and 6.
  EXPECT_DOUBLE_EQ(module.Score(data.get(), Accuracy())[0].value, 3.0 / 7);
}

TEST(ModuleTest, EvaluationBatchesMayHaveAnotherSize) {
  const auto accuracies = [](index_t eval_batch_size) {
    const auto train = Points(60, 10);
    const auto eval = Points(35, eval_batch_size, /*shuffle=*/false);
    Module module(Network());
    std::vector<double> values;
    FitOptions options = Options(3);
    options.eval_data = eval.get();
    options.epoch_end.push_back(
        [&](const EpochEndParam& param) { values.push_back(param.validation[0].value); });
    module.Fit(train.get(), options);
    EXPECT_EQ(module.batch_size(), 10);
    EXPECT_EQ(module.Score(eval.get(), Accuracy())[0].value, values.back());
    module.Fit(train.get(), options);  // goes on training after it
    return values;
  };
  const std::vector<double> same_size = accuracies(10);
  ASSERT_EQ(same_size.size(), 6u);
  for (const index_t size : {1, 4, 35}) EXPECT_EQ(accuracies(size), same_size) << size;
}

TEST(ModuleTest, EvaluationDataOfAnotherKindIsRefusedBeforeTheTraining) {
  const auto train = Points(60, 10);
  NDArrayIter wide({{"data", NDArray({6, 5})}}, {{"softmax_label", NDArray({6})}},
                   {.batch_size = 6});
  Module module(Network());
  FitOptions options = Options(3);
  options.eval_data = &wide;
  options.batch_end.push_back([](const BatchEndParam&) { ADD_FAILURE() << "trained"; });
  const Error error = ErrorOf([&] { module.Fit(train.get(), options); });
  EXPECT_EQ(error.code(), Error::kInvalidArgument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("fc1"), HasSubstr("weight"), HasSubstr("(8,2)"),
                                  HasSubstr("expected (8,5)")));
}

TEST(ModuleTest, ACheckpointRestoresTheModel) {
  const auto train = Points(60, 10);
  Module module(Network());
  FitOptions options = Options(3);
  const std::string prefix = testing::TempDir() + "/model";
  options.epoch_end.push_back(DoCheckpoint(prefix, 3));
  module.Fit(train.get(), options);

  Module restored = Module::Load(prefix, 3);
  restored.Bind(train->ProvideData(), train->ProvideLabel(), /*for_training=*/false);
  EXPECT_TRUE(restored.params_initialized());
  EXPECT_EQ(Values(restored), Values(module));
  // Not shuffled: in another order the same losses add up to another last digit.
  const auto same_order = Points(60, 10, /*shuffle=*/false);
  EXPECT_EQ(restored.Score(same_order.get(), CrossEntropy())[0].value,
            module.Score(same_order.get(), CrossEntropy())[0].value);
  // And again for batches of another size.
  const auto small = Points(60, 4);
  restored.Bind(small->ProvideData(), small->ProvideLabel(), /*for_training=*/false);
  EXPECT_EQ(Values(restored), Values(module));
}

TEST(ModuleTest, TrainingContinuesItsScheduleAfterACheckpoint) {
  const auto options = [](int begin_epoch, int num_epoch, int64_t begin_num_update) {
    FitOptions fit = Options(num_epoch);
    fit.begin_epoch = begin_epoch;
    fit.optimizer =
        std::make_shared<Sgd>(SgdOptions{{.learning_rate = 0.2,
                                          .lr_scheduler = std::make_shared<CosineScheduler>(3 * 5),
                                          .begin_num_update = begin_num_update}});
    return fit;
  };
  const auto train = Points(40, 8, /*shuffle=*/false);
  Module whole(Network()), begun(Network());
  whole.Fit(train.get(), options(0, 3, 0));
  begun.Fit(train.get(), options(0, 2, 0));
  const std::string prefix = testing::TempDir() + "/continued";
  begun.SaveCheckpoint(prefix, 2);
  Module continued = Module::Load(prefix, 2);
  continued.Fit(train.get(), options(2, 3, 2 * 5));
  EXPECT_EQ(Values(continued), Values(whole));
}

TEST(ModuleTest, DataAndLabelsInACheckpointAreIgnored) {
  const auto train = Points(60, 10);
  Module module(Network());
  module.Fit(train.get(), Options(1));
  const std::string prefix = testing::TempDir() + "/inputs";
  module.SaveCheckpoint(prefix, 1);
  const std::string path = CheckpointParametersPath(prefix, 1);
  std::map<std::string, NDArray> arrays = LoadNDArrays(path);
  for (const char* key : {"arg:data", "arg:softmax_label"}) arrays[key] = NDArray({2});
  SaveNDArrays(path, arrays);
  Module restored = Module::Load(prefix, 1);
  restored.Bind(train->ProvideData(), train->ProvideLabel());
  EXPECT_EQ(Values(restored), Values(module));
  restored.LoadParams(prefix, 1);
}

TEST(ModuleTest, ADamagedCheckpointChangesNothing) {
  const auto train = Points(60, 10);
  Module module(Network());
  module.Fit(train.get(), Options(1));
  const std::string prefix = testing::TempDir() + "/damaged";
  module.SaveCheckpoint(prefix, 1);
  module.Fit(train.get(), Options(1));
  const auto values = Values(module);

  const std::string path = CheckpointParametersPath(prefix, 1);
  std::stringstream contents;
  contents << std::ifstream(path, std::ios::binary).rdbuf();
  const std::string whole = contents.str();
  for (const size_t length : {whole.size() - 1, whole.size() / 2, size_t{10}, size_t{0}}) {
    std::ofstream(path, std::ios::binary) << whole.substr(0, length);
    const Error error = ErrorOf([&] { module.LoadParams(prefix, 1); });
    EXPECT_EQ(error.code(), Error::kDataLoss) << length;
    EXPECT_THAT(error.what(), HasSubstr(path));
    EXPECT_EQ(Values(module), values);
  }
  std::ofstream(path, std::ios::binary) << whole;
  module.LoadParams(prefix, 1);
  EXPECT_NE(Values(module), values);
}

TEST(ModuleTest, ParametersOfAnotherNetworkChangeNothing) {
  const auto data = Points(8, 4);
  Module module(Network(8)), other(Network(9));
  for (Module* m : {&module, &other}) {
    m->Bind(data->ProvideData(), data->ProvideLabel());
    m->InitParams(Xavier());
  }
  const auto values = Values(module);
  EXPECT_THAT(ErrorOf([&] { module.SetParams(other.GetParams()); }).what(),
              AllOf(HasSubstr("fc1_bias"), HasSubstr("(9,)"), HasSubstr("(8,)")));
  ModelParameters parameters = module.GetParams();
  parameters.arg.erase("fc2_weight");
  EXPECT_THAT(ErrorOf([&] { module.SetParams(parameters); }).what(),
              HasSubstr("fc2_weight is missing"));
  parameters = module.GetParams();
  parameters.arg["fc3_weight"] = NDArray({1});
  EXPECT_THAT(ErrorOf([&] { module.SetParams(parameters); }).what(),
              HasSubstr("no parameter fc3_weight"));
  EXPECT_EQ(Values(module), values);
}

TEST(ModuleTest, CallsOutOfOrderSayWhatIsMissing) {
  const auto data = Points(8, 4);
  ASSERT_TRUE(data->Next());
  Module module(Network());
  const auto failure = [](const std::function<void()>& call) {
    const Error error = ErrorOf(call);
    EXPECT_EQ(error.code(), Error::kFailedPrecondition);
    return std::string(error.what());
  };
  EXPECT_THAT(failure([&] { module.Forward(data->GetBatch(), true); }), HasSubstr("Bind"));
  EXPECT_THAT(failure([&] { module.GetOutputs(); }), HasSubstr("Bind"));
  module.Bind(data->ProvideData(), data->ProvideLabel());
  EXPECT_THAT(failure([&] { module.Forward(data->GetBatch(), true); }), HasSubstr("InitParams"));
  EXPECT_THAT(failure([&] { module.InitOptimizer(Optimizer1()); }), HasSubstr("InitParams"));
  module.InitParams(Xavier());
  EXPECT_THAT(failure([&] { module.Update(); }), HasSubstr("InitOptimizer"));
  EXPECT_THAT(failure([&] { module.Backward(); }), HasSubstr("Forward"));
  Module inference(Network());
  inference.Bind(data->ProvideData(), data->ProvideLabel(), /*for_training=*/false);
  inference.InitParams(Xavier());
  EXPECT_THAT(failure([&] { inference.InitOptimizer(Optimizer1()); }), HasSubstr("training"));
}

TEST(ModuleTest, NamesAndShapesThatDoNotFitAreRefused) {
  EXPECT_THAT(ErrorOf([] { Module module(Network(), {.data_names = {"image"}}); }).what(),
              AllOf(HasSubstr("image"), HasSubstr("data")));
  Module module(Network());
  EXPECT_THAT(ErrorOf([&] {
                module.Bind({{"picture", {4, 2}}}, {});
              }).what(),
              AllOf(HasSubstr("picture"), HasSubstr("data")));
  EXPECT_THAT(ErrorOf([&] {
                module.Bind({{"data", {4, 2}}}, {{"softmax_label", {5}}});
              }).what(),
              AllOf(HasSubstr("(5,)"), HasSubstr("(4,)")));
  module.Bind({{"data", {4, 2}}}, {{"softmax_label", {4}}});
  module.InitParams(Xavier());
  const auto data = Points(8, 3);
  ASSERT_TRUE(data->Next());
  EXPECT_THAT(ErrorOf([&] { module.Forward(data->GetBatch(), true); }).what(),
              AllOf(HasSubstr("data"), HasSubstr("(3,2)"), HasSubstr("(4,2)")));
}

/// How much a training step takes from storage after the second, by all of 28.
int64_t AllocationsOfSteps(const Symbol& network, const std::shared_ptr<KVStore>& store) {
  NDArray images({40, 1, 6, 6}), labels({40});
  images = 0.5f;
  labels = 1.0f;
  NDArrayIter data({{"data", images}}, {{"softmax_label", labels}},
                   {.batch_size = 8, .shuffle = true});
  Module module(network);
  module.Bind(data.ProvideData(), data.ProvideLabel());
  module.InitParams(Xavier());
  module.InitOptimizer(Optimizer1(), store);
  EvalMetric metric = CompositeMetric({Accuracy(), CrossEntropy()});
  const auto allocations = [] {
    NDArray::WaitAll();
    return Storage::Get()->Stats(Device::Cpu()).allocations;
  };
  int64_t before = 0;
  for (int step = 0; step < 30; ++step) {
    if (step == 2) before = allocations();
    if (!data.Next()) {
      data.BeforeFirst();
      EXPECT_TRUE(data.Next());
    }
    module.Forward(data.GetBatch(), /*is_train=*/true);
    module.Backward();
    module.Update();
    module.UpdateMetric(&metric, data.GetBatch());
  }
  return allocations() - before;
}

TEST(ModuleTest, AStepAllocatesNothingAfterTheSecond) {
  Symbol x = Symbol::Variable("data");
  x = Symbol::Apply("Convolution", {x}, {{"kernel", "(3,3)"}, {"num_filter", "4"}}, "conv");
  x = Symbol::Apply("Activation", {x}, {{"act_type", "relu"}}, "relu");
  x = Symbol::Apply("Pooling", {x}, {{"kernel", "(2,2)"}, {"stride", "(2,2)"}}, "pool");
  x = Symbol::Apply("Flatten", {x}, {}, "flatten");
  x = Symbol::Apply("FullyConnected", {x}, {{"num_hidden", std::to_string(kClasses)}}, "fc");
  const Symbol convolutional = Symbol::Apply("SoftmaxOutput", {x}, {}, "softmax");
  EXPECT_EQ(AllocationsOfSteps(convolutional, nullptr), 0);
  EXPECT_EQ(AllocationsOfSteps(convolutional, KVStore::Create("local")), 0);
  EXPECT_EQ(AllocationsOfSteps(Network(), nullptr), 0);
  EXPECT_EQ(AllocationsOfSteps(Network(), KVStore::Create("local")), 0);
}

TEST(ModuleTest, BatchCallbacksAndSpeedometerFollowTheEpoch) {
  const auto train = Points(40, 8);
  Module module(Network());
  std::ostringstream log;
  std::vector<int64_t> batches;
  FitOptions options = Options(1);
  options.batch_end.push_back([&](const BatchEndParam& param) { batches.push_back(param.nbatch); });
  options.batch_end.push_back(Speedometer(8, 2, /*auto_reset=*/false, &log));
  module.Fit(train.get(), options);
  EXPECT_THAT(batches, testing::ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(log.str(), AllOf(HasSubstr("epoch 0 batch 2 examples/s "),
                               HasSubstr("epoch 0 batch 4 examples/s "), HasSubstr(" accuracy ")));
}

TEST(ModuleTest, TheMetricOfAnEpochCoversBatchesBeforeAReset) {
  const auto run = [](const std::vector<BatchEndCallback>& callbacks) {
    const auto train = Points(37, 8);
    Module module(Network());
    std::vector<double> values;
    FitOptions options = Options(2);
    options.metric = CompositeMetric({Accuracy(), CrossEntropy()});
    options.batch_end = callbacks;
    options.epoch_end.push_back([&](const EpochEndParam& param) {
      for (const NamedValue& value : param.training) values.push_back(value.value);
    });
    module.Fit(train.get(), options);
    return values;
  };
  const std::vector<double> whole = run({});
  ASSERT_EQ(whole.size(), 4u);
  std::ostringstream log;
  // The last reset is that of batch 4 of 5 in the first case, and of the last batch in the others.
  EXPECT_EQ(run({Speedometer(8, 2, /*auto_reset=*/true, &log)}), whole);
  EXPECT_EQ(run({Speedometer(8, 5, /*auto_reset=*/true, &log)}), whole);
  EXPECT_EQ(run({[](const BatchEndParam& param) { param.metric.Reset(); }}), whole);
}

TEST(ModuleTest, TheMetricKeepsTheLastEpochAfterFit) {
  const auto train = Points(40, 8);
  Module module(Network());
  FitOptions options = Options(2);
  double last = 0;
  options.epoch_end.push_back([&](const EpochEndParam& param) { last = param.training[0].value; });
  module.Fit(train.get(), options);
  EXPECT_EQ(options.metric.Get()[0].value, last);
}

/// Trains rows of a weight that is stored as `storage`; returns the weight.
NDArray TrainedRows(StorageType storage, std::shared_ptr<KVStore> store) {
  const std::string number = std::to_string(static_cast<int>(storage));
  Symbol x = Symbol::Apply(
      "Embedding",
      {Symbol::Variable("data"), Symbol::Variable("rows_weight", {{"__storage_type__", number}})},
      {{"input_dim", "5"}, {"output_dim", "2"}, {"sparse_grad", "True"}}, "rows");
  x = Symbol::Apply("MakeLoss", {x}, {}, "loss");
  Module module(x, {.label_names = {}});
  module.Bind({{"data", {3}}}, {});
  module.InitParams(One());
  module.InitOptimizer(std::make_shared<Sgd>(SgdOptions{{.learning_rate = 1, .rescale_grad = 1}}),
                       std::move(store));
  const std::vector<std::vector<float>> batches = {{1, 4, 4}, {0, 0, 1}};
  for (const std::vector<float>& indices : batches) {
    module.Forward({.data = {NDArray::FromVector(indices, {3})}}, /*is_train=*/true);
    module.Backward();
    module.Update();
  }
  return module.GetParams().arg.at("rows_weight");
}

TEST(ModuleTest, RowsOfAWeightAreTrained) {
  for (const StorageType storage : {StorageType::kDefault, StorageType::kRowSparse}) {
    for (const bool has_store : {false, true}) {
      const NDArray weight =
          TrainedRows(storage, has_store ? std::shared_ptr(KVStore::Create("local")) : nullptr);
      EXPECT_EQ(StorageTypeOf(weight), storage);
      EXPECT_THAT(weight.ToVector(), testing::ElementsAre(-1, -1, -1, -1, 1, 1, 1, 1, -1, -1));
    }
  }
}

/// Trains a linear model on examples that are stored as `storage`; returns the weight.
NDArray TrainedOnExamples(StorageType storage) {
  constexpr index_t kExamples = 8, kColumns = 5;
  std::vector<float> elements(static_cast<size_t>(kExamples * kColumns), 0.0f), labels;
  for (index_t i = 0; i < kExamples; ++i) {
    elements[static_cast<size_t>(i * kColumns + i % 3)] = 1;
    elements[static_cast<size_t>(i * kColumns + 3)] = 2;
    labels.push_back(i % 3 == 1 ? 1.0f : 0.0f);
  }
  const NDArray dense = NDArray::FromVector(elements, {kExamples, kColumns});
  NDArrayIter data(
      {{"data", storage == StorageType::kDefault ? dense : sparse::Cast(dense, storage)}},
      {{"softmax_label", NDArray::FromVector(labels, {kExamples, 1})}}, {.batch_size = 4});
  const Symbol score = Symbol::Apply(
      "dot",
      {Symbol::Variable("data"), Symbol::Variable("linear_weight", {{"__shape__", "(5, 1)"}})}, {},
      "score");
  Module module(Symbol::Apply("LogisticRegressionOutput", {score}, {}, "softmax"));
  module.Bind(data.ProvideData(), data.ProvideLabel());
  module.InitParams(Zero());
  module.InitOptimizer(std::make_shared<Sgd>(SgdOptions{{.learning_rate = 0.5}}));
  for (int epoch = 0; epoch < 3; ++epoch) {
    for (data.BeforeFirst(); data.Next(); module.Update()) {
      module.Forward(data.GetBatch(), /*is_train=*/true);
      module.Backward();
    }
  }
  EXPECT_EQ(StorageTypeOf(module.executor().arg_dict().at("data")), storage);
  return module.GetParams().arg.at("linear_weight");
}

TEST(ModuleTest, CsrExamplesTrainAsDenseOnesDo) {
  const std::vector<float> expected = TrainedOnExamples(StorageType::kDefault).ToVector();
  EXPECT_GT(expected[1], 0);
  EXPECT_LT(expected[0], 0);
  EXPECT_EQ(expected[4], 0);
  EXPECT_THAT(TrainedOnExamples(StorageType::kCsr).ToVector(),
              testing::Pointwise(testing::FloatNear(1e-6f), expected));
}

}  // namespace
}  // namespace tessera
