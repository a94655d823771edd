// Every layer and loss has the outputs, gradients and states of Gluon's, and the same outputs when
// it is compiled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ndarray/autograd.h"
#include "tessera/train/nn/nn.h"
#include "tessera/train/nn/testing/gluon_values.h"

namespace tessera::nn {
namespace {

using nn_testing::Fill;
using nn_testing::GluonValues;
using nn_testing::Values;

/// A layer with its inputs, which are named data0, data1, …
struct LayerCase {
  std::string name;
  std::shared_ptr<Layer> layer;
  std::vector<NDArray> inputs;
  bool train = true;
};

template <typename T>
std::shared_ptr<Layer> Make(T layer) {
  return std::make_shared<T>(std::move(layer));
}

NDArray Data(const TShape& shape) { return Fill(shape, "data0"); }
NDArray Label(const TShape& shape) { return Fill(shape, "data1"); }

NDArray Mapped(const NDArray& array, const std::function<float(float)>& function) {
  std::vector<float> values = array.ToVector();
  std::transform(values.begin(), values.end(), values.begin(), function);
  return NDArray::FromVector(values, array.shape());
}

NDArray Positive(const TShape& shape, const char* name) {
  return Mapped(Fill(shape, name), [](float value) { return std::fabs(value) + 0.125f; });
}

NDArray Signs(const TShape& shape) {
  return Mapped(Label(shape), [](float value) { return value > 0 ? 1.0f : -1.0f; });
}

NDArray Integers(const TShape& shape, int below) {
  std::vector<float> values;
  for (index_t i = 0; i < shape.Size(); ++i) values.push_back(static_cast<float>(i * 5 % below));
  return NDArray::FromVector(values, shape);
}

NDArray Array(const std::vector<float>& values, const TShape& shape) {
  return NDArray::FromVector(values, shape);
}

std::vector<LayerCase> Cases() {
  const NDArray images = Data({2, 2, 3, 2}), rows = Data({3, 4});
  std::vector<LayerCase> cases = {
      {"dense", Make(Dense(3)), {Data({2, 2, 2})}},
      {"dense_rows",
       Make(Dense(3, {.activation = "tanh", .use_bias = false, .flatten = false})),
       {Data({2, 2, 4})}},
      {"flatten", Make(Flatten()), {Data({2, 3, 2})}},
      {"gelu", Make(GELU()), {rows}},
      {"silu", Make(SiLU()), {rows}},
      {"selu", Make(Activation("selu")), {rows}},
      {"elu", Make(ELU(0.7)), {rows}},
      {"leaky_relu", Make(LeakyReLU(0.2)), {rows}},
      {"prelu", Make(PReLU()), {rows}},
      {"dropout", Make(Dropout(0.5)), {rows}, /*train=*/false},
      {"embedding", Make(Embedding(5, 3)), {Integers({2, 4}, 5)}},
      {"conv1d", Make(Conv1D(4, {3}, {.pad = {1}, .groups = 2})), {Data({2, 2, 5})}},
      {"conv2d",
       Make(Conv2D(3, {3, 2}, {.stride = {2, 1}, .dilate = {1, 2}, .activation = "relu"})),
       {Data({2, 2, 5, 6})}},
      {"conv3d", Make(Conv3D(2, {2}, {.use_bias = false})), {Data({1, 2, 3, 3, 4})}},
      {"conv1d_transpose",
       Make(Conv1DTranspose(3, {3}, {.stride = {2}, .pad = {1}, .output_pad = {1}})),
       {Data({2, 2, 4})}},
      {"conv2d_transpose", Make(Conv2DTranspose(2, {2, 3}, {.groups = 2})), {Data({1, 4, 3, 2})}},
      {"conv3d_transpose", Make(Conv3DTranspose(2, {2})), {Data({1, 1, 2, 2, 3})}},
      {"max_pool1d", Make(MaxPool1D()), {Data({2, 2, 5})}},
      {"max_pool2d",
       Make(MaxPool2D({.size = {3}, .stride = {2}, .pad = {1}})),
       {Data({1, 2, 5, 6})}},
      {"max_pool3d", Make(MaxPool3D({.stride = {1}})), {Data({1, 1, 3, 3, 3})}},
      {"avg_pool1d", Make(AvgPool1D({.ceil_mode = true})), {Data({2, 2, 5})}},
      {"avg_pool2d",
       Make(AvgPool2D({.size = {3, 2}, .stride = {2}, .pad = {1}, .count_include_pad = false})),
       {Data({1, 2, 5, 6})}},
      {"avg_pool3d", Make(AvgPool3D()), {Data({1, 1, 4, 2, 2})}},
      {"global_max_pool1d", Make(GlobalMaxPool1D()), {Data({2, 2, 5})}},
      {"global_max_pool2d", Make(GlobalMaxPool2D()), {images}},
      {"global_max_pool3d", Make(GlobalMaxPool3D()), {Data({1, 2, 2, 3, 2})}},
      {"global_avg_pool1d", Make(GlobalAvgPool1D()), {Data({2, 2, 5})}},
      {"global_avg_pool2d", Make(GlobalAvgPool2D()), {images}},
      {"global_avg_pool3d", Make(GlobalAvgPool3D()), {Data({1, 2, 2, 3, 2})}},
      {"batch_norm", Make(BatchNorm()), {Data({3, 2, 4})}},
      {"batch_norm_predict",
       Make(BatchNorm({.axis = 2, .epsilon = 1e-3})),
       {Data({3, 2, 4})},
       /*train=*/false},
      {"batch_norm_fixed",
       Make(BatchNorm({.momentum = 0.5, .center = false, .scale = false})),
       {Data({3, 2, 4})}},
      {"layer_norm", Make(LayerNorm()), {Data({3, 2, 4})}},
      {"layer_norm_axis", Make(LayerNorm({.epsilon = 1e-3}, 1)), {Data({3, 2, 4})}},
      {"group_norm", Make(GroupNorm(2)), {Data({3, 4, 3})}},
      {"rms_norm", Make(RMSNorm()), {Data({3, 2, 4})}},
      {"rnn", Make(RNN(3)), {Data({4, 2, 3})}},
      {"rnn_tanh",
       Make(RNN(3, {.num_layers = 2, .batch_first = true}, RNN::Function::kTanh)),
       {Data({2, 4, 3})}},
      {"lstm", Make(LSTM(3, {.num_layers = 2})), {Data({4, 2, 3})}},
      {"lstm_both", Make(LSTM(2, {.bidirectional = true})), {Data({3, 2, 3})}},
      {"lstm_states", Make(LSTM(3)), {Data({3, 2, 2}), Label({1, 2, 3}), Fill({1, 2, 3}, "data2")}},
      {"gru", Make(GRU(3, {.num_layers = 2, .bidirectional = true})), {Data({3, 2, 2})}},
      {"rotary", Make(RotaryPositions()), {Data({2, 3, 4})}},
      {"attention", Make(MultiHeadAttention(4, 2)), {Data({2, 3, 3})}},
      {"attention_causal",
       Make(MultiHeadAttention(8, 2, {.causal = true, .rotary = true})),
       {Data({2, 4, 3})}},
      {"attention_cross",
       Make(MultiHeadAttention(4, 1)),
       {Data({2, 2, 3}), Label({2, 3, 3}), Fill({2, 3, 3}, "data2")}},
      {"l1", Make(L1Loss()), {rows, Label({3, 4})}},
      {"l2", Make(L2Loss({.weight = 0.5})), {rows, Label({3, 4}), Positive({3, 1}, "data2")}},
      {"huber", Make(HuberLoss(0.25)), {rows, Label({3, 4})}},
      {"hinge", Make(HingeLoss()), {rows, Signs({3, 4})}},
      {"softmax_ce", Make(SoftmaxCrossEntropyLoss()), {rows, Integers({3}, 4)}},
      {"sigmoid_ce", Make(SigmoidCrossEntropyLoss()), {rows, Positive({3, 4}, "data1")}},
      {"sigmoid_ce_p",
       Make(SigmoidCrossEntropyLoss(/*from_sigmoid=*/true)),
       {Positive({3, 4}, "data0"), Positive({3, 4}, "data1")}},
      {"kl", Make(KLDivLoss()), {rows, Positive({3, 4}, "data1")}},
      {"kl_numbers", Make(KLDivLoss(/*from_logits=*/false)), {rows, Positive({3, 4}, "data1")}},
      {"ctc", Make(CTCLoss()), {Data({2, 5, 4}), Array({0, 1, 2, 2, 2, -1}, {2, 3})}},
      {"ctc_lengths",
       Make(CTCLoss()),
       {Data({2, 5, 4}), Array({0, 1, 2, 2, 2, 0}, {2, 3}), Array({5, 4}, {2}),
        Array({3, 2}, {2})}},
      {"triplet", Make(TripletLoss()), {rows, Label({3, 4}), Fill({3, 4}, "data2")}},
  };
  for (const char* const name : {"relu", "sigmoid", "tanh", "softrelu", "softsign"}) {
    cases.push_back({"activation_" + std::string(name), Make(Activation(name)), {rows}});
  }
  SoftmaxCrossEntropyOptions classes;
  classes.axis = 1;
  cases.push_back({"softmax_ce_axis",
                   Make(SoftmaxCrossEntropyLoss(classes)),
                   {Data({2, 3, 4}), Integers({2, 4}, 3)}});
  classes = {};
  classes.sparse_label = false;
  cases.push_back({"softmax_ce_dense",
                   Make(SoftmaxCrossEntropyLoss(classes)),
                   {rows, Positive({3, 4}, "data1")}});
  return cases;
}

/// Sets the parameters to the values that Gluon's had.
void SetParameters(const Layer& layer) {
  for (const NamedParameter& named : layer.Parameters()) {
    NDArray values = Fill(named.parameter.shape(), named.name);
    if (named.name == "running_var") {
      values = Mapped(values, [](float value) { return std::fabs(value) + 0.5f; });
    }
    named.parameter.SetData(values);
  }
}

/// Calls the layer and returns its outputs, gradients and states.
std::map<std::string, Values> RunCase(const LayerCase& test) {
  SetParameters(*test.layer);
  std::vector<NDArray> inputs = test.inputs;
  inputs[0] = inputs[0].Copy(Device::Cpu());
  if (test.name != "embedding") inputs[0].AttachGrad();
  std::vector<NDArray> outputs, heads;
  {
    const autograd::Record record(test.train);
    outputs = test.layer->Call(inputs);
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    heads.push_back(Fill(outputs[i].shape(), "head" + std::to_string(i)));
  }
  autograd::Backward(outputs, heads);
  std::map<std::string, Values> results;
  const auto add = [&results](const std::string& name, const NDArray& array) {
    if (!array.is_none()) results[name] = {array.shape(), array.ToVector()};
  };
  for (size_t i = 0; i < outputs.size(); ++i) add("output " + std::to_string(i), outputs[i]);
  add("gradient data0", inputs[0].grad());
  for (const NamedParameter& named : test.layer->Parameters()) {
    add("gradient " + named.name, named.parameter.Grad());
    if (named.name.starts_with("running")) add("state " + named.name, named.parameter.Data());
  }
  return results;
}

/// Expects values that differ by a few roundings.
void ExpectNear(const Values& values, const Values& expected, float tolerance) {
  ASSERT_EQ(values.shape, expected.shape);
  for (size_t i = 0; i < expected.elements.size(); ++i) {
    EXPECT_NEAR(values.elements[i], expected.elements[i],
                tolerance * std::max(1.0f, std::fabs(expected.elements[i])))
        << "element " << i;
  }
}

TEST(LayersTest, OutputsAndGradientsAreGluonsAlsoCompiled) {
  const GluonValues gluon = nn_testing::ReadGluonValues();
  std::set<std::string> tested;
  for (const LayerCase& test : Cases()) {
    SCOPED_TRACE(test.name);
    tested.insert(test.name);
    ASSERT_TRUE(gluon.contains(test.name));
    const std::map<std::string, Values>& expected = gluon.at(test.name);
    test.layer->Initialize(One());
    test.layer->Call(test.inputs);  // determines the shapes
    const std::map<std::string, Values> imperative = RunCase(test);
    EXPECT_EQ(imperative.size(), expected.size());
    for (const auto& [name, values] : expected) {
      SCOPED_TRACE(name);
      ASSERT_TRUE(imperative.contains(name));
      // MXNet computes SELU's from the output, without the scale; differences check it below.
      if (test.name == "selu" && name == "gradient data0") continue;
      ExpectNear(imperative.at(name), values, 2e-5f);
    }
    test.layer->Compile();
    for (const char* const call : {"traced", "compiled", "compiled again"}) {
      SCOPED_TRACE(call);
      for (const auto& [name, values] : RunCase(test)) {
        SCOPED_TRACE(name);
        ASSERT_TRUE(imperative.contains(name));
        // The order of a gradient's sums may be another one in a graph.
        const bool is_gradient = name.starts_with("gradient");
        ExpectNear(values, imperative.at(name), is_gradient ? 2e-6f : 0);
      }
    }
  }
  EXPECT_EQ(tested.size(), gluon.size());
}

/// Cosine has other shapes in Gluon, whose definition this is.
TEST(LayersTest, TheCosineLossComparesDirections) {
  const CosineEmbeddingLoss loss(0.25);
  const NDArray a = Array({3, 4, 1, 0, 1, 1}, {3, 2}), b = Array({4, 3, 0, 2, 1, 1}, {3, 2});
  EXPECT_THAT(loss(a, b, Array({1, -1, -1}, {3})).ToVector(),
              testing::Pointwise(testing::FloatNear(1e-6f), {1 - 24.0f / 25, 0.0f, 0.75f}));
}

TEST(LayersTest, GradientsAreDifferencesOfTheOutputs) {
  for (const char* const name : {"rms_norm", "attention_causal", "gru", "kl_numbers", "selu"}) {
    SCOPED_TRACE(name);
    const std::vector<LayerCase> cases = Cases();
    const LayerCase& test = *std::find_if(
        cases.begin(), cases.end(), [&](const LayerCase& other) { return other.name == name; });
    test.layer->Initialize(One());
    test.layer->Call(test.inputs);
    const Values gradient = RunCase(test).at("gradient data0");
    // Along one direction, by central differences of the outputs' sum with the heads.
    const NDArray direction = Fill(test.inputs[0].shape(), "direction");
    double expected = 0;
    for (size_t i = 0; i < gradient.elements.size(); ++i) {
      expected += static_cast<double>(gradient.elements[i]) * direction.ToVector()[i];
    }
    const auto value = [&](float step) {
      std::vector<NDArray> inputs = test.inputs;
      inputs[0] = inputs[0] + direction * step;
      const autograd::TrainMode train;
      const NDArray output = test.layer->Call(inputs)[0];
      const std::vector<float> elements = output.ToVector(),
                               heads = Fill(output.shape(), "head0").ToVector();
      double sum = 0;
      for (size_t i = 0; i < elements.size(); ++i) {
        sum += static_cast<double>(elements[i]) * heads[i];
      }
      return sum;
    };
    constexpr float kStep = 1.0f / 256;
    EXPECT_NEAR((value(kStep) - value(-kStep)) / (2 * kStep), expected,
                2e-3 * std::max(1.0, std::fabs(expected)));
  }
}

}  // namespace
}  // namespace tessera::nn
