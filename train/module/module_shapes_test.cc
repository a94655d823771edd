// Modules whose batches change their shape, or are shared by several devices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/io/ndarray_iter.h"
#include "tessera/kvstore/kvstore.h"
#include "tessera/train/module.h"

namespace tessera {
namespace {

using base_testing::ErrorOf;
using testing::AllOf;
using testing::HasSubstr;

Symbol Network(bool with_norm = false) {
  Symbol x = Symbol::Variable("data");
  if (with_norm) x = Symbol::Apply("BatchNorm", {x}, {{"fix_gamma", "False"}}, "bn");
  x = Symbol::Apply("FullyConnected", {x}, {{"num_hidden", "4"}}, "fc1");
  x = Symbol::Apply("Activation", {x}, {{"act_type", "tanh"}}, "act");
  x = Symbol::Apply("FullyConnected", {x}, {{"num_hidden", "3"}}, "fc2");
  return Symbol::Apply("SoftmaxOutput", {x}, {}, "softmax");
}

std::unique_ptr<NDArrayIter> Data(index_t count, index_t batch_size) {
  std::vector<float> values, labels;
  for (index_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>(i % 7) / 7);
    values.push_back(static_cast<float>(i % 5) / 5);
    labels.push_back(static_cast<float>(i % 3));
  }
  return std::make_unique<NDArrayIter>(
      NamedArrays{{"data", NDArray::FromVector(values, {count, 2})}},
      NamedArrays{{"softmax_label", NDArray::FromVector(labels, {count})}},
      BatchingOptions{.batch_size = batch_size});
}

using Values = std::map<std::string, std::vector<float>>;

Values ValuesOf(const Module& module) {
  Values values;
  const ModelParameters parameters = module.GetParams();
  for (const auto& [name, array] : parameters.arg) values[name] = array.ToVector();
  for (const auto& [name, array] : parameters.aux) values[name] = array.ToVector();
  return values;
}

void ExpectNear(const Values& found, const Values& expected, float tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  for (const auto& [name, values] : expected) {
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(found.at(name)[i], values[i], tolerance) << name << " " << i;
    }
  }
}

std::shared_ptr<Sgd> Momentum() {
  return std::make_shared<Sgd>(SgdOptions{{.learning_rate = 0.25}, 0.5});
}

ModuleOptions OnDevices(int count) {
  ModuleOptions options;
  for (int id = 0; id < count; ++id) options.devices.push_back(Device::Cpu(id));
  return options;
}

/// Trains on that many devices.
Values Train(int devices, std::shared_ptr<KVStore> kvstore = nullptr) {
  const auto data = Data(22, 4);  // the last batch has padding
  Module module(Network(), OnDevices(devices));
  std::vector<double> metrics;
  module.Fit(data.get(), {.num_epoch = 2,
                          .metric = CrossEntropy(),
                          .optimizer = Momentum(),
                          .initializer = std::make_shared<Xavier>(),
                          .seed = 3,
                          .kvstore = std::move(kvstore),
                          .epoch_end = {[&](const EpochEndParam& param) {
                            metrics.push_back(param.training[0].value);
                            EXPECT_EQ(param.samples, 22);
                          }}});
  Values values = ValuesOf(module);
  for (const double metric : metrics) values["metric"].push_back(static_cast<float>(metric));
  const auto other = Data(9, 3);
  values["score"] = {static_cast<float>(module.Score(other.get(), CrossEntropy())[0].value)};
  return values;
}

TEST(ModuleDevicesTest, SeveralDevicesTrainAsOne) {
  const Values one = Train(1);
  // Sums in another order have other last digits.
  ExpectNear(Train(2), one, 1e-5f);
  ExpectNear(Train(4), one, 1e-5f);
  EXPECT_EQ(Train(2, KVStore::Create("local")), Train(2));
}

TEST(ModuleDevicesTest, OutputsAreInTheOrderOfTheBatch) {
  const auto data = Data(8, 8);
  Module one(Network()), four(Network(), OnDevices(4));
  for (Module* module : {&one, &four}) {
    module->Bind(data->ProvideData(), data->ProvideLabel());
    module->InitParams(Xavier(), 1);
  }
  data->Next();
  for (const bool is_train : {false, true}) {
    one.Forward(data->GetBatch(), is_train);
    four.Forward(data->GetBatch(), is_train);
    EXPECT_EQ(four.GetOutputs()[0].shape(), TShape({8, 3}));
    const std::vector<float> found = four.GetOutputs()[0].ToVector();
    const std::vector<float> expected = one.GetOutputs()[0].ToVector();
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6f);
  }
  // Parameters that are set reach all devices.
  ModelParameters parameters = one.GetParams();
  parameters.arg.at("fc2_bias") = 1.0f;
  parameters.arg.at("fc2_weight") = 0.0f;
  four.SetParams(parameters);
  four.Forward(data->GetBatch(), /*is_train=*/false);
  for (const float value : four.GetOutputs()[0].ToVector()) EXPECT_FLOAT_EQ(value, 1.0f / 3);
}

TEST(ModuleDevicesTest, AuxiliaryStatesAreAveraged) {
  const auto means = [](int devices) {
    const auto data = Data(8, 8);
    Module module(Network(/*with_norm=*/true), OnDevices(devices));
    module.Bind(data->ProvideData(), data->ProvideLabel());
    module.InitParams(Xavier(), 1);
    module.InitOptimizer(Momentum());
    data->Next();
    for (int step = 0; step < 2; ++step) {
      module.Forward(data->GetBatch(), /*is_train=*/true);
      module.Backward();
      module.Update();
    }
    return module.GetParams().aux.at("bn_moving_mean").ToVector();
  };
  const std::vector<float> one = means(1), two = means(2);
  for (size_t i = 0; i < one.size(); ++i) {
    EXPECT_NE(one[i], 0);
    EXPECT_NEAR(two[i], one[i], 1e-6f);  // the mean of equal parts' means is that of all
  }
}

TEST(ModuleDevicesTest, ABatchThatCannotBeSharedIsRefused) {
  const auto data = Data(9, 3);
  Module module(Network(), OnDevices(2));
  const Error error = ErrorOf([&] { module.Bind(data->ProvideData(), data->ProvideLabel()); });
  EXPECT_EQ(error.code(), Error::kInvalidArgument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("data"), HasSubstr("(3,2)"), HasSubstr("2 devices")));
  EXPECT_FALSE(module.binded());
}

class ReshapeTest : public testing::TestWithParam<int> {};

TEST_P(ReshapeTest, TrainingContinuesWithItsMomentum) {
  const auto large = Data(12, 12), small = Data(4, 4);
  Module module(Network(), OnDevices(GetParam()));
  module.Bind(large->ProvideData(), large->ProvideLabel());
  module.InitParams(Xavier(), 1);
  module.InitOptimizer(Momentum());
  const auto step = [&](DataIter* data) {
    data->BeforeFirst();
    ASSERT_TRUE(data->Next());
    module.Forward(data->GetBatch(), /*is_train=*/true);
    module.Backward();
    module.Update();
  };
  const Values first = ValuesOf(module);
  step(large.get());
  const Values second = ValuesOf(module);
  module.Reshape(small->ProvideData(), small->ProvideLabel());
  EXPECT_EQ(module.batch_size(), 4);
  EXPECT_EQ(ValuesOf(module), second);
  EXPECT_TRUE(module.optimizer_initialized());
  step(small.get());
  EXPECT_EQ(module.GetOutputs()[0].shape(), TShape({4, 3}));
  const Values third = ValuesOf(module);
  // The sums of all devices are in the gradients of the first.
  for (const auto& [name, grad] : module.executor().grad_dict()) {
    if (grad.is_none()) continue;
    const std::vector<float> g = grad.ToVector();
    for (size_t i = 0; i < g.size(); ++i) {
      // The step is rescaled by the batch size at InitOptimizer.
      const double expected =
          second.at(name)[i] + 0.5 * (second.at(name)[i] - first.at(name)[i]) - 0.25 * g[i] / 12;
      EXPECT_NEAR(third.at(name)[i], expected, 1e-6) << name << " " << i;
    }
  }
  step(small.get());
  module.Reshape(large->ProvideData(), large->ProvideLabel());
  step(large.get());
  EXPECT_EQ(module.optimizer()->num_update(), 4);
}

INSTANTIATE_TEST_SUITE_P(Devices, ReshapeTest, testing::Values(1, 2));

TEST(ModuleReshapeTest, WhatWouldChangeParametersIsRefused) {
  const auto data = Data(4, 4);
  Module module(Network());
  EXPECT_EQ(ErrorOf([&] { module.Reshape(data->ProvideData(), data->ProvideLabel()); }).code(),
            Error::kFailedPrecondition);
  module.Bind(data->ProvideData(), data->ProvideLabel());
  module.InitParams(Xavier(), 1);
  const Values before = ValuesOf(module);
  const Error error = ErrorOf([&] {
    module.Reshape({{"data", {4, 5}}}, {{"softmax_label", {4}}});
  });
  EXPECT_EQ(error.code(), Error::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("fc1_weight"));
  EXPECT_EQ(ErrorOf([&] {
              module.Reshape({{"data", {2, 2}, DType::kFloat64}}, {{"softmax_label", {2}}});
            }).code(),
            Error::kInvalidArgument);
  EXPECT_EQ(module.batch_size(), 4);
  EXPECT_EQ(ValuesOf(module), before);
  data->Next();
  module.Forward(data->GetBatch(), /*is_train=*/false);
  EXPECT_EQ(module.GetOutputs()[0].shape(), TShape({4, 3}));
}

TEST(ModulePredictTest, EachExampleHasARow) {
  const auto all = Data(10, 10);
  Module module(Network());
  module.Bind(all->ProvideData(), all->ProvideLabel());
  module.InitParams(Xavier(), 1);
  const std::vector<NDArray> whole = module.Predict(all.get());
  ASSERT_EQ(whole.size(), 1u);
  EXPECT_EQ(whole[0].shape(), TShape({10, 3}));
  for (const index_t batch_size : {1, 3, 4, 10}) {  // 3 and 4 pad the last batch
    const auto data = Data(10, batch_size);
    data->Next();  // begins anew all the same
    const std::vector<NDArray> rows = module.Predict(data.get());
    ASSERT_EQ(rows.size(), 1u);
    EXPECT_EQ(rows[0].shape(), TShape({10, 3}));
    const std::vector<float> found = rows[0].ToVector(), expected = whole[0].ToVector();
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-6f);
  }
}

TEST(ModulePredictTest, AnOutputWithoutRowsIsRefused) {
  const auto data = Data(4, 4);
  Symbol net = Symbol::Apply("FullyConnected", {Symbol::Variable("data")}, {{"num_hidden", "1"}});
  Module module(Symbol::Apply("sum", {net}, {{"axis", "0"}}, "total"), {.label_names = {}});
  module.Bind(data->ProvideData(), {});
  module.InitParams(One());
  NDArrayIter inputs({{"data", NDArray::FromVector(std::vector<float>(8, 1), {4, 2})}}, {},
                     {.batch_size = 4});
  const Error error = ErrorOf([&] { module.Predict(&inputs); });
  EXPECT_EQ(error.code(), Error::kInvalidArgument);
  EXPECT_THAT(error.what(), AllOf(HasSubstr("output 0"), HasSubstr("expected 4 rows")));
}

/// A classifier of sequences of any length: their sums, divided by `divisor`.
Symbol OfSequences(index_t divisor) {
  Symbol x =
      Symbol::Apply("sum", {Symbol::Variable("data")}, {{"axis", "1"}, {"keepdims", "True"}});
  x = x / static_cast<double>(divisor);
  x = Symbol::Apply("FullyConnected", {x}, {{"num_hidden", "3"}}, "fc");
  return Symbol::Apply("SoftmaxOutput", {x}, {}, "softmax");
}

/// Two sequences of that length.
DataBatch Sequences(index_t length) {
  std::vector<float> values(static_cast<size_t>(2 * length), 0.5f);
  values[0] = static_cast<float>(length);
  DataBatch batch;
  batch.data = {NDArray::FromVector(values, {2, length})};
  batch.label = {NDArray::FromVector(std::vector<float>{0, 2}, {2})};
  batch.bucket_key = length;
  return batch;
}

void Step(Module* module, const DataBatch& batch) {
  module->Forward(batch, /*is_train=*/true);
  module->Backward();
  module->Update();
}

TEST(ModuleBucketsTest, EachLengthHasItsNetworkAndAllShareParameters) {
  for (const bool has_symbols : {false, true}) {
    ModuleOptions options;
    if (has_symbols) options.bucket_symbol = OfSequences;
    const auto network_of = [&](index_t length) { return OfSequences(has_symbols ? length : 7); };
    const auto sgd = [] {
      return std::make_shared<Sgd>(SgdOptions{{.learning_rate = 0.25, .rescale_grad = 1}});
    };
    Module module(network_of(7), options);
    module.Bind({{"data", {2, 7}}}, {{"softmax_label", {2}}});
    module.InitParams(Xavier(), 1);
    module.InitOptimizer(sgd());
    EvalMetric metric = CrossEntropy(), expected_metric = CrossEntropy();
    for (const index_t length : {3, 7, 5, 3, 5, 7}) {
      // A module for this length alone, with the parameters of now.
      Module reference(network_of(length));
      reference.Bind({{"data", {2, length}}}, {{"softmax_label", {2}}});
      reference.SetParams(module.GetParams());
      reference.InitOptimizer(sgd());
      DataBatch batch = Sequences(length);
      Step(&module, batch);
      module.UpdateMetric(&metric, batch);
      batch.bucket_key = 0;
      Step(&reference, batch);
      reference.UpdateMetric(&expected_metric, batch);
      EXPECT_EQ(module.GetOutputs()[0].ToVector(), reference.GetOutputs()[0].ToVector());
      EXPECT_EQ(ValuesOf(module), ValuesOf(reference)) << length;
    }
    EXPECT_EQ(module.optimizer()->num_update(), 6);
    EXPECT_EQ(metric.Get()[0].value, expected_metric.Get()[0].value);
  }
}

TEST(ModuleBucketsTest, WrongBucketsAreRefused) {
  ModuleOptions options;
  options.bucket_symbol = [](index_t length) {
    const Symbol net = OfSequences(1);
    if (length == 3) return Symbol::FromJson(net.ToJson());
    const Symbol more = Symbol::Apply("FullyConnected", {Symbol::Variable("data")},
                                      {{"num_hidden", "3"}}, length == 4 ? "other" : "fc");
    return Symbol::Apply("SoftmaxOutput", {more}, {}, "softmax");
  };
  Module module(OfSequences(1), options);
  module.Bind({{"data", {2, 7}}}, {{"softmax_label", {2}}});
  module.InitParams(Xavier(), 1);
  module.InitOptimizer(Momentum());
  Step(&module, Sequences(3));
  EXPECT_THAT(ErrorOf([&] { Step(&module, Sequences(4)); }).what(), HasSubstr("other_weight"));
  EXPECT_THAT(ErrorOf([&] { Step(&module, Sequences(5)); }).what(),
              AllOf(HasSubstr("fc"), HasSubstr("weight")));
  DataBatch wrong = Sequences(3);
  wrong.data = Sequences(2).data;
  EXPECT_THAT(ErrorOf([&] { Step(&module, wrong); }).what(),
              AllOf(HasSubstr("(2,2)"), HasSubstr("expected (2,3)")));
  DataBatch no_label = Sequences(2);
  no_label.label.clear();
  EXPECT_THAT(ErrorOf([&] { module.Forward(no_label, false); }).what(), HasSubstr("0 label"));
  Step(&module, Sequences(3));
  Module two(OfSequences(1), OnDevices(2));
  two.Bind({{"data", {2, 7}}}, {{"softmax_label", {2}}});
  two.InitParams(Xavier(), 1);
  EXPECT_EQ(ErrorOf([&] { two.Forward(Sequences(3), false); }).code(), Error::kUnimplemented);
}

}  // namespace
}  // namespace tessera
