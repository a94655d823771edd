// Values that a CachedOp computes from weights once, and again when they change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/call_observer.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/storage/storage.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"
#include "tessera/tensor/tblob.h"

namespace tessera {
namespace {

using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pointwise;
using ::testing::StartsWith;

class OperatorNames final : public CallObserver {
 public:
  void OnCall(std::string_view op, std::string_view, int64_t, int64_t) noexcept override {
    const std::lock_guard<std::mutex> lock(mutex_);
    names_.emplace_back(op);
  }
  std::vector<std::string> Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(names_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> names_ ABSL_GUARDED_BY(mutex_);
};

/// Returns the names of the operators that run while `run`, which waits for them, does.
std::vector<std::string> OperatorsOf(const std::function<void()>& run) {
  static auto* const names = new OperatorNames;  // calls may use it until the process ends
  SetCallObserver(names);
  run();
  SetCallObserver(nullptr);
  return names->Take();
}

Symbol NormalizedLayers() {
  const ParameterMap learns_gamma = {{"fix_gamma", "0"}};
  Symbol net = Symbol::Apply("Convolution", {Symbol::Variable("data")},
                             {{"kernel", "(3, 3)"}, {"num_filter", "4"}, {"no_bias", "1"}}, "conv");
  net = Symbol::Apply("BatchNorm", {net}, learns_gamma, "bn")[0];
  net = Symbol::Apply("Activation", {net}, {{"act_type", "relu"}}, "relu");
  net = Symbol::Apply("FullyConnected", {net}, {{"num_hidden", "3"}}, "fc");
  return Symbol::Apply("BatchNorm", {net}, learns_gamma, "fc_bn")[0];
}

/// Returns an array of elements of either sign, or of positive ones.
NDArray Ramp(const TShape& shape, bool positive = false) {
  std::vector<float> values(static_cast<size_t>(shape.Size()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = (positive ? 0.5f : -0.4f) + 0.1f * static_cast<float>(7 * i % 11);
  }
  return NDArray::FromVector(values, shape);
}

/// The layers compiled and node by node, on the same arrays.
class CachedWeightsTest : public testing::Test {
 protected:
  CachedWeightsTest() {
    const auto add = [this](const std::vector<std::string>& names,
                            const std::vector<TShape>& shapes) {
      for (size_t i = 0; i < names.size(); ++i) {
        arrays_.emplace(names[i], Ramp(shapes[i], names[i].ends_with("var")));
      }
    };
    const InferredShapes shapes = net_.InferShape({{"data", {2, 3, 5, 5}}});
    add(net_.ListArguments(), shapes.arguments);
    add(net_.ListAuxiliaryStates(), shapes.aux_states);
  }

  std::vector<NDArray> Inputs() const {
    std::vector<NDArray> inputs;
    for (const std::string& name : compiled_.input_names()) inputs.push_back(arrays_.at(name));
    return inputs;
  }
  std::vector<float> Call() const { return compiled_(Inputs())[0].ToVector(); }
  void ExpectRight() const {
    EXPECT_THAT(Call(), Pointwise(FloatNear(1e-4f), plain_(Inputs())[0].ToVector()));
  }

  const Symbol net_ = NormalizedLayers();
  const CachedOp compiled_{net_};
  const CachedOp plain_{net_, {.node_by_node = true}};
  std::map<std::string, NDArray> arrays_;
};

TEST_F(CachedWeightsTest, NormalizationIsFoldedIntoWeightsOnce) {
  const std::vector<std::string> first = OperatorsOf([this] { Call(); });
  EXPECT_THAT(first, Contains(AnyOf("rsqrt", "FusedMap")));  // of the variance
  EXPECT_THAT(first, Not(Contains("BatchNorm")));
  ExpectRight();
  EXPECT_THAT(OperatorsOf([this] { Call(); }),
              ElementsAre(StartsWith("Convolution+FusedMap"), "FullyConnected"));
}

TEST_F(CachedWeightsTest, TheWeightsFollowEachWayOfWriting) {
  NDArray weight = arrays_.at("conv_weight");
  const std::pair<const char*, std::function<void()>> writes[] = {
      {"a number", [&] { weight = 0.25f; }},
      {"arithmetic", [&] { weight *= 2.0f; }},
      {"a part", [&] { arrays_.at("bn_gamma").Assign({AxisSlice{.begin = 1}}, 3.0f); }},
      {"a view",
       [&] {
         NDArray row = arrays_.at("fc_weight").At(1);
         row *= 2.0f;
       }},
      {"a copy", [&] { CopyFromTo(Ramp(weight.shape()), weight); }},
      {"host memory",
       [&] {
         const float values[] = {1, 2, 3};
         arrays_.at("fc_bias").SyncCopyFromCPU(values, 3);
       }},
      {"an operator",
       [&] {
         NDArray var = arrays_.at("bn_moving_var");
         Invoke("sgd_update", {var, Ramp(var.shape())}, {var}, {{"lr", "0.5"}});
       }},
  };
  std::vector<float> before = Call();
  for (const auto& [name, write] : writes) {
    SCOPED_TRACE(name);
    write();
    ExpectRight();
    const std::vector<float> now = Call();
    EXPECT_NE(now, before);
    before = now;
  }
}

TEST_F(CachedWeightsTest, TrainingUsesNoFoldedWeightsAndIsFollowed) {
  for (auto& [name, array] : arrays_) {
    if (name.ends_with("weight")) array.AttachGrad();
  }
  std::vector<float> before = Call();
  for (const bool train_mode : {false, true, false}) {
    NDArray output;
    EXPECT_THAT(OperatorsOf([&] {
                  const autograd::Record record(train_mode);
                  output = compiled_(Inputs())[0];
                  output.WaitToRead();
                }),
                Contains(HasSubstr("BatchNorm")).Times(2));
    output.Backward();
    for (auto& [name, array] : arrays_) {
      if (!name.ends_with("weight")) continue;
      Invoke("sgd_update", {array, array.grad()}, {array}, {{"lr", "0.01"}});
    }
    ExpectRight();
    const std::vector<float> now = Call();
    EXPECT_NE(now, before);
    before = now;
  }
  EXPECT_THAT(OperatorsOf([this] {
                const autograd::TrainMode train;
                Call();
              }),
              Contains(HasSubstr("BatchNorm")).Times(2));
  ExpectRight();
  EXPECT_NE(Call(), before);  // training has changed the moving statistics
}

TEST_F(CachedWeightsTest, AnotherArrayIsNotMistakenForTheOneBefore) {
  for (int i = 1; i < 20; ++i) {
    // The new array may have the memory and the variable of the old one.
    NDArray& weight = arrays_.at("conv_weight");
    const TShape shape = weight.shape();
    weight = NDArray();
    weight = Ramp(shape) * (0.1f * static_cast<float>(i));
    ExpectRight();
  }
  // Two parts of one array.
  const NDArray both = Ramp({2, 4});
  for (const index_t part : {0, 1, 0}) {
    arrays_.at("bn_beta") = both.At(part);
    ExpectRight();
  }
}

TEST_F(CachedWeightsTest, MemoryOfTheCallerIsReadEachTime) {
  std::vector<float> beta = {1, 2, 3, 4};
  arrays_.at("bn_beta") = NDArray(TBlob(beta.data(), {4}, DType::kFloat32, Device::Cpu()));
  ExpectRight();
  beta = {5, 0, 1, 2};
  ExpectRight();
}

TEST_F(CachedWeightsTest, SignaturesShareTheWeights) {
  Call();
  arrays_.at("data") = Ramp({5, 3, 5, 5});
  EXPECT_THAT(OperatorsOf([this] { Call(); }),
              ElementsAre(StartsWith("Convolution+FusedMap"), "FullyConnected"));
  ExpectRight();
  EXPECT_EQ(compiled_.num_signatures(), 2);
}

TEST(PreparedWeightsTest, LayersHaveTheSameBitsWithThem) {
  Symbol net = Symbol::Apply("Convolution", {Symbol::Variable("data")},
                             {{"kernel", "(3, 3)"}, {"num_filter", "34"}, {"num_group", "2"}}, "c");
  net = Symbol::Apply("FullyConnected", {net}, {{"num_hidden", "33"}}, "f");
  const InferredShapes shapes = net.InferShape({{"data", {17, 4, 7, 6}}});
  std::vector<NDArray> arrays;
  for (const TShape& shape : shapes.arguments) arrays.push_back(Ramp(shape));
  const auto prepared_bytes = [] {
    for (const StorageTagStats& stats : Storage::Get()->TagStats(Device::Cpu())) {
      if (stats.tag == "prepared") return stats.live_bytes;
    }
    return int64_t{0};
  };
  const CachedOp op(net);
  const auto executor = Bind(net, Device::Cpu(), {.arguments = arrays});
  const std::vector<float> expected = op(arrays)[0].ToVector();
  executor->Forward(false);
  EXPECT_EQ(executor->outputs()[0].ToVector(), expected);
  EXPECT_EQ(prepared_bytes(), 0);
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(op(arrays)[0].ToVector(), expected);
    executor->Forward(false);
    EXPECT_EQ(executor->outputs()[0].ToVector(), expected);
    // The layers' weights, for each of the two.
    EXPECT_GE(prepared_bytes(), 2 * int64_t{sizeof(float)} * (34 * 2 * 9 + 33 * 34 * 20));
  }
}

TEST_F(CachedWeightsTest, ThreadsCallAtOnce) {
  const std::vector<float> expected = CachedOp(net_)(Inputs())[0].ToVector();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < 20; ++call) EXPECT_EQ(Call(), expected);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tessera
