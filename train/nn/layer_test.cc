#include "tessera/train/nn/layer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/safetensors.h"
#include "tessera/ndarray/serialization.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/resource/resource_manager.h"
#include "tessera/train/nn/dense.h"
#include "tessera/train/nn/dropout.h"
#include "tessera/train/nn/norm.h"
#include "tessera/train/nn/sequential.h"

namespace tessera::nn {
namespace {

using base_testing::ExpectError;
using ndarray_testing::Vector;
using testing::Each;
using testing::ElementsAre;

NDArray Matrix(const std::vector<float>& values, const TShape& shape) {
  return NDArray::FromVector(values, shape);
}

std::vector<std::string> NamesOf(const Layer& layer) {
  std::vector<std::string> names;
  for (const NamedParameter& named : layer.Parameters()) names.push_back(named.name);
  return names;
}

Parameter Find(const Layer& layer, std::string_view name) {
  for (const NamedParameter& named : layer.Parameters()) {
    if (named.name == name) return named.parameter;
  }
  throw NotFound("no parameter ", name);
}

/// The network of the file that Gluon has saved.
Sequential Network() {
  return Sequential(Sequential(Dense(2), BatchNorm()), Dense(1, {.use_bias = false}));
}

TEST(LayerTest, ParametersHaveGluonsNames) {
  EXPECT_THAT(NamesOf(Network()), ElementsAre("0.0.weight", "0.0.bias", "0.1.gamma", "0.1.beta",
                                              "0.1.running_mean", "0.1.running_var", "1.weight"));
}

TEST(LayerTest, TheFirstCallDeterminesShapes) {
  Sequential net(Dense(3), Dense(1));
  const Parameter weight = Find(net, "0.weight"), bias = Find(net, "1.bias");
  const NDArray x = Matrix({1, 2, 3, 4}, {2, 2});
  ExpectError(Error::kFailedPrecondition, "not initialized", [&] { net(x); });
  net.Initialize(Constant(0.5f));
  EXPECT_EQ(weight.name(), "0.weight");
  EXPECT_FALSE(weight.has_data());
  ExpectError(Error::kFailedPrecondition, "0.weight has shape (3,None)", [&] { weight.Data(); });
  EXPECT_THAT(net(x).ToVector(), ElementsAre(2.25f, 5.25f));  // 3 * 0.5 * 0.5 * the row's sum
  EXPECT_EQ(weight.shape(), TShape({3, 2}));
  EXPECT_THAT(weight.Data().ToVector(), Each(0.5f));
  EXPECT_THAT(bias.Data().ToVector(), ElementsAre(0));
  ExpectError(Error::kInvalidArgument, "0.weight has shape (3,2), but the layer's input asks for ",
              [&] {
                net(Matrix({1, 2, 3}, {1, 3}));
              });
}

TEST(LayerTest, ValuesDependOnSeedAndNameAlone) {
  const NDArray x = Matrix({1, 2}, {1, 2});
  const auto weight = [&x](uint64_t seed, bool first) {
    Sequential net(Dense(2), Dense(3));
    net.Initialize(Uniform(1), {.seed = seed});
    // The layers of another network are initialized in another order.
    first ? net(x) : (*net.layers()[1])(x);
    return Find(net, "1.weight").Data().ToVector();
  };
  EXPECT_EQ(weight(1, true), weight(1, false));
  EXPECT_NE(weight(1, true), weight(2, true));
}

TEST(LayerTest, InitializeKeepsValuesUnlessForced) {
  Dense layer(1, {.in_units = 2});
  const NDArray x = Matrix({1, 1}, {1, 2});
  layer.Initialize(One());
  EXPECT_THAT(layer(x).ToVector(), ElementsAre(2));
  layer.Initialize(Zero());
  EXPECT_THAT(layer(x).ToVector(), ElementsAre(2));
  layer.Initialize(Zero(), {.force = true});
  EXPECT_THAT(layer(x).ToVector(), ElementsAre(0));
  ExpectError(Error::kInvalidArgument, "null",
              [&] { layer.Initialize(std::shared_ptr<const Initializer>()); });
  ExpectError(Error::kInvalidArgument, "no devices",
              [&] { layer.Initialize(Zero(), {.devices = {}, .force = true}); });
}

TEST(LayerTest, ALayerMayHaveItsOwnInitializer) {
  Sequential net(Dense(1, {.weight_initializer = std::make_shared<Constant>(3)}));
  net.Initialize(Zero());
  EXPECT_THAT(net(Vector({2}).Reshape({1, 1})).ToVector(), ElementsAre(6));
}

TEST(LayerTest, ParametersLieOnEachDevice) {
  Dense layer(1);
  layer.Initialize(One(), {.devices = {Device::Cpu(0), Device::Cpu(1)}});
  for (const int id : {0, 1}) {
    const NDArray x = Matrix({1, 2}, {1, 2}).Copy(Device::Cpu(id));
    NDArray y;
    {
      const autograd::Record record;
      y = layer(x);
    }
    y.Backward();
    EXPECT_EQ(y.device(), Device::Cpu(id));
    EXPECT_THAT(y.ToVector(), ElementsAre(3));
    EXPECT_THAT(Find(layer, "weight").Grad(Device::Cpu(id)).ToVector(), ElementsAre(1, 2));
  }
  ExpectError(Error::kFailedPrecondition, "no copy on cpu(2)", [&] {
    layer(Matrix({1, 2}, {1, 2}).Copy(Device::Cpu(2)));
  });
}

/// A layer of one's own, whose function depends on its input's shape.
class Scale final : public UnaryLayer {
 public:
  Scale() : scale_(AddParameter("scale_weight")) {}

 private:
  NDArray Forward(const NDArray& x) const override {
    const NDArray scaled = x * scale_.Use(x.device(), {1});
    return x.shape()[0] > 1 ? scaled + 1.0f : scaled;
  }

  Parameter scale_;
};

TEST(LayerTest, ResidualAddsTheShortcut) {
  Residual net(Scale{});
  Residual both(Scale{}, Scale{});
  net.Initialize(Constant(3));
  both.Initialize(Constant(3));
  EXPECT_THAT(NamesOf(both), ElementsAre("body.scale_weight", "shortcut.scale_weight"));
  EXPECT_THAT(net(Vector({2})).ToVector(), ElementsAre(8));
  EXPECT_THAT(both(Vector({2})).ToVector(), ElementsAre(12));
}

TEST(LayerTest, LayersMayBeShared) {
  const auto shared = std::make_shared<Scale>();
  Sequential net(shared, shared);
  net.Initialize(Constant(3));
  EXPECT_THAT(NamesOf(net), ElementsAre("0.scale_weight", "1.scale_weight"));
  EXPECT_TRUE(Find(net, "0.scale_weight") == Find(net, "1.scale_weight"));
  EXPECT_THAT(net(Vector({2})).ToVector(), ElementsAre(18));
  net.Compile();
  for (int call = 0; call < 2; ++call) EXPECT_THAT(net(Vector({2})).ToVector(), ElementsAre(18));
}

TEST(LayerTest, WrongCallsAreErrors) {
  Sequential net(Dense(2));
  net.Initialize();
  ExpectError(Error::kInvalidArgument, "no inputs", [&] { net.Call({}); });
  ExpectError(Error::kInvalidArgument, "input 0 is no array", [&] { net(NDArray()); });
  ExpectError(Error::kInvalidArgument, "2 inputs were given, expected 1",
              [&] { net(Vector({1}), Vector({2})); });
  ExpectError(Error::kInvalidArgument, "units is 0", [] { Dense(0); });
  ExpectError(Error::kInvalidArgument, "relu, sigmoid", [] { Dense(1, {.activation = "rely"}); });
  ExpectError(Error::kInvalidArgument, "rate is 1", [] { Dropout(1); });
  ExpectError(Error::kInvalidArgument, "null", [&] { net.Add(std::shared_ptr<Layer>()); });
  ExpectError(Error::kInvalidArgument, "max_signatures is 0",
              [&] { net.Compile({.max_signatures = 0}); });
  class Twice final : public UnaryLayer {
   public:
    Twice() {
      AddParameter("a");
      AddLayer("a", Dense(1));
    }

   private:
    NDArray Forward(const NDArray& x) const override { return x; }
  };
  ExpectError(Error::kInvalidArgument, "two parts are called a", [] { Twice(); });
}

TEST(CompileTest, EachSignatureHasAGraph) {
  Scale layer;
  layer.Initialize(Constant(3));
  layer.Compile();
  for (int call = 0; call < 3; ++call) {
    EXPECT_THAT(layer(Vector({2})).ToVector(), ElementsAre(6));
    EXPECT_THAT(layer(Vector({2, 4})).ToVector(), ElementsAre(7, 13));
    EXPECT_THAT(layer(Vector({1, 2, 3})).ToVector(), ElementsAre(4, 7, 10));
  }
  // Later values of the parameter count.
  Find(layer, "scale_weight").SetData(Vector({5}));
  EXPECT_THAT(layer(Vector({2})).ToVector(), ElementsAre(10));
}

TEST(CompileTest, TheLeastRecentlyUsedGraphIsDropped) {
  /// Counts the calls of its function.
  class Counting final : public UnaryLayer {
   public:
    explicit Counting(int* calls) : calls_(calls) {}

   private:
    NDArray Forward(const NDArray& x) const override {
      ++*calls_;
      return x * 2.0f;
    }
    int* calls_;
  };
  int calls = 0;
  Counting layer(&calls);
  layer.Compile({.max_signatures = 2});
  const NDArray inputs[] = {Vector({1}), Vector({1, 2}), Vector({1, 2, 3})};
  for (const int i : {0, 1, 0, 1, 0}) layer(inputs[i]);
  EXPECT_EQ(calls, 2);
  layer(inputs[2]);  // drops 1
  layer(inputs[0]);
  EXPECT_EQ(calls, 3);
  layer(inputs[1]);
  EXPECT_EQ(calls, 4);
  {
    const autograd::TrainMode train;
    layer(inputs[1]);
  }
  EXPECT_EQ(calls, 5);
}

TEST(CompileTest, RandomNumbersAreThoseOfImperativeCalls) {
  const NDArray x = Vector(std::vector<float>(100, 1.0f));
  std::vector<std::vector<float>> expected;
  for (const bool compiled : {false, true}) {
    Dropout layer(0.5);
    if (compiled) layer.Compile();
    ResourceManager::Get()->SeedRandom(7);
    const autograd::TrainMode train;
    for (size_t call = 0; call < 3; ++call) {
      const std::vector<float> values = layer(x).ToVector();
      if (!compiled) {
        expected.push_back(values);
      } else {
        EXPECT_EQ(values, expected[call]) << "call " << call;
      }
    }
  }
  EXPECT_NE(expected[0], expected[1]);
}

TEST(CompileTest, RunningStatisticsChangeOncePerCall) {
  std::vector<std::vector<float>> expected;
  for (const bool compiled : {false, true}) {
    Sequential net(BatchNorm(), Dense(1));
    net.Initialize(One());
    if (compiled) net.Compile();
    for (size_t call = 0; call < 3; ++call) {
      const autograd::TrainMode train;
      net(Matrix({1, 2, 5, 8}, {4, 1}));
      const std::vector<float> mean = Find(net, "0.running_mean").Data().ToVector();
      if (!compiled) {
        expected.push_back(mean);
      } else {
        EXPECT_EQ(mean, expected[call]) << "call " << call;
      }
    }
  }
  EXPECT_THAT(expected[0], ElementsAre(testing::FloatNear(0.4f, 1e-6f)));
}

TEST(CompileTest, GradientsFlowToParametersAndInputs) {
  Sequential net(Dense(2, {.activation = "tanh"}), Dense(1));
  net.Initialize(Uniform(1), {.seed = 3});
  NDArray x = Matrix({0.5f, -1, 2, 0.25f}, {2, 2});
  x.AttachGrad();
  std::vector<std::vector<float>> expected;
  for (const bool compiled : {false, true}) {
    if (compiled) net.Compile();
    for (int call = 0; call < 3; ++call) {
      NDArray y;
      {
        const autograd::Record record;
        y = net(x * 2.0f);
        y = y * y;
      }
      y.Backward();
      std::vector<std::vector<float>> gradients = {x.grad().ToVector()};
      for (const NamedParameter& named : net.Parameters()) {
        gradients.push_back(named.parameter.Grad().ToVector());
      }
      if (!compiled) expected = gradients;
      ASSERT_EQ(gradients.size(), 5u);
      for (size_t i = 0; i < gradients.size(); ++i) {
        EXPECT_THAT(gradients[i], testing::Pointwise(testing::FloatNear(1e-5f), expected[i]));
      }
    }
  }
}

TEST(CompileTest, TheTraceLeavesNothingOnTheTape) {
  Scale layer;
  layer.Initialize(One());
  layer.Compile();
  const NDArray y = layer(Vector({2}));
  ExpectError(Error::kFailedPrecondition, "not on the tape", [&] { y.Backward(); });
  EXPECT_FALSE(autograd::IsRecording());
}

TEST(CompileTest, CompiledLayersMayBePartsOfOthers) {
  const auto inner = std::make_shared<Scale>();
  inner->Compile();
  Sequential net(inner, Dense(1));
  net.Initialize(Constant(3));
  net.Compile();
  for (int call = 0; call < 3; ++call) {
    EXPECT_THAT(net(Matrix({1, 2}, {1, 2})).ToVector(), ElementsAre(27));
    EXPECT_THAT((*inner)(Vector({1})).ToVector(), ElementsAre(3));
  }
}

TEST(CompileTest, AFunctionThatIsNoGraphIsRefused) {
  class Square final : public autograd::Function {
    std::vector<NDArray> Forward(const std::vector<NDArray>& x) override { return {x[0] * x[0]}; }
    std::vector<NDArray> Backward(const std::vector<NDArray>& g) override { return g; }
    std::string name() const override { return "Square"; }
  };
  class Own final : public UnaryLayer {
    NDArray Forward(const NDArray& x) const override {
      return autograd::Call(std::make_shared<Square>(), {x})[0];
    }
  };
  Own layer;
  EXPECT_THAT(layer(Vector({3})).ToVector(), ElementsAre(9));
  layer.Compile();
  ExpectError(Error::kUnimplemented, "Square", [&] { layer(Vector({3})); });
  EXPECT_FALSE(autograd::IsRecording());
}

/// The bytes that Gluon 1.9.1's save_parameters has written for Network(), as hexadecimal digits:
/// parameter i has the elements 10 i, 10 i + 1, …
constexpr std::string_view kGluonFile =
    "120100000000000000000000000000000700000000000000"
    "c9fa93f900000000020000000200000000000000030000000000000001000000000000000000000000000000"
    "0000803f0000004000004040000080400000a040"
    "c9fa93f9000000000100000002000000000000000100000000000000000000000000204100003041"
    "c9fa93f9000000000100000002000000000000000100000000000000000000000000a0410000a841"
    "c9fa93f9000000000100000002000000000000000100000000000000000000000000f0410000f841"
    "c9fa93f9000000000100000002000000000000000100000000000000000000000000204200002442"
    "c9fa93f9000000000100000002000000000000000100000000000000000000000000484200004c42"
    "c9fa93f900000000020000000100000000000000020000000000000001000000000000000000000000007042000074"
    "42"
    "0700000000000000"
    "0a00000000000000302e302e7765696768740800000000000000302e302e62696173"
    "0900000000000000302e312e67616d6d610800000000000000302e312e62657461"
    "1000000000000000302e312e72756e6e696e675f6d65616e"
    "0f00000000000000302e312e72756e6e696e675f7661720800000000000000312e776569676874";

std::string BytesOf(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

TEST(ParameterFileTest, GluonsFilesLoad) {
  const std::string path = testing::TempDir() + "/gluon.params";
  std::ofstream(path, std::ios::binary) << BytesOf(kGluonFile);
  Sequential net = Network();
  net.LoadParameters(path);
  EXPECT_EQ(Find(net, "0.0.weight").shape(), TShape({2, 3}));
  EXPECT_THAT(Find(net, "0.1.running_var").Data().ToVector(), ElementsAre(50, 51));
  // Gluon's output.
  EXPECT_THAT(
      net(Matrix({1, 2, 3, 4, 5, 6}, {2, 3})).ToVector(),
      ElementsAre(testing::FloatNear(-760.02686f, 2e-3f), testing::FloatNear(7224.8545f, 2e-2f)));
}

TEST(ParameterFileTest, FilesOfBothFormatsRestoreTheNetwork) {
  const NDArray x = Matrix({1, 2, 3, 4, 5, 6}, {2, 3});
  Sequential net = Network();
  net.Initialize(Uniform(1), {.seed = 5});
  ExpectError(Error::kFailedPrecondition, "0.0.weight",
              [&] { net.SaveParameters(testing::TempDir() + "/early.params"); });
  const std::vector<float> expected = net(x).ToVector();
  for (const char* const name : {"/net.params", "/net.safetensors"}) {
    const std::string path = testing::TempDir() + name;
    net.SaveParameters(path);
    Sequential other = Network();
    other.LoadParameters(path);
    EXPECT_EQ(other(x).ToVector(), expected) << name;
    Sequential changed = Network();
    changed.Initialize(Zero());
    changed(x);
    changed.LoadParameters(path);
    EXPECT_EQ(changed(x).ToVector(), expected) << name;
  }
  EXPECT_EQ(LoadNDArrays(testing::TempDir() + "/net.params").size(), 7u);
  EXPECT_EQ(LoadSafetensors(testing::TempDir() + "/net.safetensors").arrays.size(), 7u);
}

TEST(ParameterFileTest, AFileThatDoesNotFitChangesNothing) {
  const std::string path = testing::TempDir() + "/other.params";
  Sequential net(Dense(2, {.in_units = 3}), Dense(1));
  net.Initialize(One());
  const NDArray x = Matrix({1, 2, 3}, {1, 3});
  const auto expect_refused = [&](const std::map<std::string, NDArray>& arrays,
                                  const std::string& words) {
    SaveNDArrays(path, arrays);
    ExpectError(Error::kInvalidArgument, words, [&] { net.LoadParameters(path); });
    EXPECT_THAT(net(x).ToVector(), ElementsAre(12));
  };
  std::map<std::string, NDArray> arrays = {{"0.weight", NDArray({2, 3})},
                                           {"0.bias", NDArray({2})},
                                           {"1.weight", NDArray({1, 2})},
                                           {"1.bias", NDArray({1})}};
  for (auto& [name, array] : arrays) array = 7.0f;
  expect_refused({{"0.weights", arrays.at("0.weight")}},
                 path + ": there is no parameter 0.weight; did you mean 0.weights?");
  std::map<std::string, NDArray> changed = arrays;
  changed["2.bias"] = arrays.at("0.bias");
  expect_refused(changed, "the network has no parameter 2.bias");
  net.LoadParameters(path, {.ignore_extra = true});
  EXPECT_THAT(net(x).ToVector(), ElementsAre(7 * 2 * (6 * 7 + 7) + 7));
  Find(net, "0.weight").SetData(Matrix(std::vector<float>(6, 1), {2, 3}));
  for (const char* const name : {"0.bias", "1.bias"}) {
    const Parameter bias = Find(net, name);
    bias.SetData(Matrix(std::vector<float>(static_cast<size_t>(bias.shape()[0])), bias.shape()));
  }
  Find(net, "1.weight").SetData(Matrix({1, 1}, {1, 2}));
  changed = arrays;
  changed["1.weight"] = NDArray({2, 1});
  expect_refused(changed, "parameter 1.weight: found (2,1) of float32, expected (1,2) of float32");
  changed["1.weight"] = NDArray({1, 2}, Device::Cpu(), DType::kFloat64);
  expect_refused(changed, "found (1,2) of float64, expected (1,2) of float32");
  SaveNDArrays(path, {{"1.bias", arrays.at("1.bias")}});
  net.LoadParameters(path, {.allow_missing = true});
  EXPECT_THAT(net(x).ToVector(), ElementsAre(19));
  ExpectError(Error::kNotFound, "missing.params",
              [&] { net.LoadParameters(testing::TempDir() + "/missing.params"); });
}

}  // namespace
}  // namespace tessera::nn
