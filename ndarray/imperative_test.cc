#include "tessera/ndarray/imperative.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/ops/kernel.h"
#include "tessera/ops/registry.h"
#include "tessera/storage/storage.h"

namespace tessera {
namespace {

using base_testing::ExpectError;
using ndarray_testing::Vector;
using ::testing::Each;
using ::testing::ElementsAre;

constexpr auto kInvalid = Error::kInvalidArgument;

/// Shapes and defaults that the operators below have in common.
template <typename Parameters>
class TestProperty : public ParameterizedProperty<Parameters> {
 public:
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override {
    for (auto* shapes : {in_shape, out_shape}) {
      for (TShape& shape : *shapes) MergeShape(*this, "array", &shape, (*in_shape)[0]);
    }
    return (*in_shape)[0].known();
  }
};

struct ThresholdParameters {
  double limit = 0;
  static void Declare(ParameterSchema<ThresholdParameters>& schema) {
    schema.Required("limit", &ThresholdParameters::limit, "the largest element allowed");
  }
};

/// output = data; fails if an element is above the limit.
class ThresholdProperty final : public TestProperty<ThresholdParameters> {};
template <typename Device, typename T>
class ThresholdOp final : public Operator {
 public:
  explicit ThresholdOp(const ThresholdParameters& param) : limit_(static_cast<T>(param.limit)) {}
  void Forward(const OpContext&, std::span<const TBlob> in_data, std::span<const OpReqType>,
               std::span<const TBlob> out_data) override {
    const auto data = in_data[0].FlatTo1D<Device, T>();
    for (index_t i = 0; i < data.size(0); ++i) {
      if (data[i] > limit_) throw OutOfRange("test_threshold: element ", i, " is too large");
    }
    out_data[0].FlatTo1D<Device, T>() = F<op::identity>(data);
  }

 private:
  const T limit_;
};
TESSERA_REGISTER_OPERATOR(test_threshold, ThresholdProperty, ThresholdOp);

/// Counts calls in an input, training ones apart: output = data + count; a hidden output has
/// 2 data. Uses workspace for the sum.
class CountingProperty final : public TestProperty<NoParameters> {
 public:
  std::vector<std::string> ListArguments() const override { return {"data", "count", "trained"}; }
  std::vector<std::string> ListOutputs() const override { return {"output", "twice"}; }
  std::vector<int> MutatedInputs() const override { return {1, 2}; }
  int NumVisibleOutputs() const override { return 1; }
  std::vector<ResourceRequest> ForwardResource(std::span<const TShape>) const override {
    return {{ResourceRequest::Type::kTempSpace}};
  }
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override {
    return {{in_data[0], out_data[0]}};
  }
};
template <typename Device, typename T>
class CountingOp final : public Operator {
 public:
  explicit CountingOp(const NoParameters&) {}
  void Forward(const OpContext& context, std::span<const TBlob> in_data,
               std::span<const OpReqType> req, std::span<const TBlob> out_data) override {
    const auto data = in_data[0].FlatTo1D<Device, T>();
    auto count = in_data[1].FlatTo1D<Device, T>();
    auto trained = in_data[2].FlatTo1D<Device, T>();
    count += T(1);
    if (context.is_train) trained += T(1);
    auto sum = context.requested[0]->get_space_typed<Device, 1, T>(data.shape_,
                                                                   context.get_stream<Device>());
    sum = data + count;
    AssignTo(out_data[1].FlatTo1D<Device, T>(), req[1], data * T(2));
    AssignTo(out_data[0].FlatTo1D<Device, T>(), req[0], F<op::identity>(sum));
  }
};
TESSERA_REGISTER_OPERATOR(test_counting, CountingProperty, CountingOp);

TEST(InvokeTest, CallsAnOperatorByName) {
  const NDArray a = Vector({1, 2});
  const NDArray b = Vector({10, 20});
  const std::vector<NDArray> sum = Invoke("elemwise_add", {a, b});
  ASSERT_EQ(sum.size(), 1u);
  EXPECT_THAT(sum[0].ToVector(), ElementsAre(11, 22));
  EXPECT_THAT(Invoke("_mul_scalar", {a}, {{"scalar", "3"}})[0].ToVector(), ElementsAre(3, 6));
}

TEST(InvokeTest, ReadsParameters) {
  const NDArray x = NDArray::FromVector(std::vector<float>{1, 2}, {1, 2});
  const NDArray w = NDArray::FromVector(std::vector<float>{1, 0, 0, 1, 1, 1}, {3, 2});
  const NDArray b = Vector({0, 0, 1});
  const NDArray y = Invoke("FullyConnected", {x, w, b}, {{"num_hidden", "3"}})[0];
  EXPECT_EQ(y.shape(), TShape({1, 3}));
  EXPECT_THAT(y.ToVector(), ElementsAre(1, 2, 4));
}

TEST(InvokeTest, WritesIntoGivenOutputs) {
  NDArray a = Vector({1, 2});
  NDArray out({2});
  Invoke("elemwise_add", {a, a}, {out});
  EXPECT_THAT(out.ToVector(), ElementsAre(2, 4));
  Invoke("elemwise_add", {a, a}, {out}, {}, kAddTo);
  EXPECT_THAT(out.ToVector(), ElementsAre(4, 8));
  Invoke("elemwise_add", {a, a}, {out}, {}, kNullOp);
  EXPECT_THAT(out.ToVector(), ElementsAre(4, 8));
  Invoke("elemwise_add", {out, a}, {a});
  EXPECT_THAT(a.ToVector(), ElementsAre(5, 10));
}

TEST(InvokeTest, EmptyBracesAreNoParametersAndNotNoOutputs) {
  const NDArray a = Vector({1, 2});
  EXPECT_THAT(Invoke("elemwise_add", {a, a}, {})[0].ToVector(), ElementsAre(2, 4));
  NDArray out({2});
  Invoke("elemwise_add", {a, a}, {out}, {});
  EXPECT_THAT(out.ToVector(), ElementsAre(2, 4));
}

TEST(InvokeTest, UpdatesAuxStates) {
  const NDArray count = Vector({0, 0});
  const NDArray trained = Vector({0, 0});
  const std::vector<NDArray> out = Invoke("test_counting", {Vector({5, 6}), count, trained});
  ASSERT_EQ(out.size(), 1u);  // the hidden output stays hidden
  EXPECT_THAT(out[0].ToVector(), ElementsAre(6, 7));
  EXPECT_THAT(count.ToVector(), ElementsAre(1, 1));
  EXPECT_THAT(trained.ToVector(), ElementsAre(0, 0));
}

TEST(InvokeTest, HiddenOutputsMayBeGiven) {
  const NDArray data = Vector({5, 6});
  const NDArray output({2});
  const NDArray twice({2});
  Invoke("test_counting", {data, Vector({0, 0}), Vector({0, 0})}, {output, twice});
  EXPECT_THAT(output.ToVector(), ElementsAre(6, 7));
  EXPECT_THAT(twice.ToVector(), ElementsAre(10, 12));
}

TEST(InvokeTest, NamesWhatIsWrong) {
  const NDArray a({2});
  const NDArray b({3});
  ExpectError(Error::kNotFound, "elemwise_add", [&] { Invoke("elemwise_ad", {a, a}); });
  ExpectError(kInvalid, "1 inputs given, expected 2 (lhs, rhs)",
              [&] { Invoke("elemwise_add", {a}); });
  ExpectError(kInvalid, "rhs", [&] { Invoke("elemwise_add", {a, b}); });
  ExpectError(kInvalid, "rhs is no array", [&] { Invoke("elemwise_add", {a, NDArray()}); });
  ExpectError(kInvalid, "num_hidden", [&] { Invoke("FullyConnected", {a, a, a}); });
  ExpectError(kInvalid, "2 outputs given, expected 1 (output)", [&] {
    Invoke("elemwise_add", {a, a}, {NDArray({2}), NDArray({2})});
  });
  ExpectError(kInvalid, "no outputs", [&] {
    Invoke("elemwise_add", {a, a}, std::initializer_list<NDArray>());
  });
  ExpectError(kInvalid, "output", [&] { Invoke("elemwise_add", {a, a}, {b}); });
  ExpectError(kInvalid, "output is no array", [&] { Invoke("elemwise_add", {a, a}, {NDArray()}); });
  ExpectError(kInvalid, "float64", [&] {
    Invoke("elemwise_add", {a, a}, {NDArray({2}, Device::Cpu(), DType::kFloat64)});
  });
}

TEST(InvokeTest, AnOperatorWithoutInputsWritesToTheDeviceThatItsContextNames) {
  const auto zeros = [](const std::string& context) {
    return Invoke("_zeros", {}, {{"shape", "(2,)"}, {"ctx", context}})[0];
  };
  EXPECT_EQ(zeros("cpu(3)").device(), Device::Cpu(3));
  EXPECT_EQ(zeros("cpu_shared(0)").device(), Device::CpuShared());
  EXPECT_EQ(zeros("").device(), Device::Cpu());
  EXPECT_THAT(zeros("cpu(3)").ToVector(), ElementsAre(0, 0));
  ExpectError(kInvalid, "_zeros: parameter ctx: device \"tpu\"", [&] { zeros("tpu"); });
  // The outputs decide where there are any.
  const NDArray given({2}, Device::Cpu(1));
  Invoke("_ones", {}, {given}, {{"shape", "(2,)"}, {"ctx", "cpu(2)"}});
  EXPECT_THAT(given.ToVector(), ElementsAre(1, 1));
}

TEST(InvokeTest, RefusesOutputsOverWhatIsStillNeeded) {
  const NDArray square({2, 2});
  const NDArray bias({2});
  ExpectError(kInvalid, "shares memory with input data", [&] {
    Invoke("FullyConnected", {square, NDArray({2, 2}), bias}, {square}, {{"num_hidden", "2"}});
  });
  const NDArray four({4});
  ExpectError(kInvalid, "shares memory with input lhs", [&] {
    Invoke("elemwise_add", {four.Slice(0, 2), bias}, {four.Slice(1, 3)});
  });
  const NDArray state({2});
  ExpectError(kInvalid, "outputs and changing inputs share memory", [&] {
    Invoke("test_counting", {bias, state, NDArray({2})}, {state});
  });
  ExpectError(kInvalid, "input data shares memory with input count", [&] {
    Invoke("test_counting", {state, state, NDArray({2})});
  });
}

TEST(InvokeTest, FailuresSurfaceAtTheFirstWaitAndOnce) {
  const NDArray data = Vector({1, 5, 2});
  const NDArray out = Invoke("test_threshold", {data}, {{"limit", "4"}})[0];
  const NDArray next = out + 1.0f;
  ExpectError(Error::kOutOfRange, "test_threshold: element 1", [&] { next.WaitToRead(); });
  NDArray::WaitAll();
  EXPECT_THAT(data.ToVector(), ElementsAre(1, 5, 2));
  EXPECT_THAT(Invoke("test_threshold", {data}, {{"limit", "9"}})[0].ToVector(),
              ElementsAre(1, 5, 2));
}

TEST(InvokeTest, AnErrorThatOnlyValuesTellNamesItsOperator) {
  const NDArray data = Vector({1, 5, 2});
  const auto op_of = [](const auto& fn) {
    try {
      fn();
    } catch (const Error& error) {
      return std::string(error.op());
    }
    return std::string("no error");
  };
  const NDArray next = Invoke("test_threshold", {data}, {{"limit", "4"}})[0] + 1.0f;
  EXPECT_EQ(op_of([&] { next.WaitToRead(); }), "test_threshold");
  EXPECT_EQ(op_of([&] { Invoke("test_threshold", {data}); }), "");
}

TEST(InvokeTest, OutputsAreCountedUnderTheOperatorsName) {
  const NDArray out = Vector({1, 2}) + Vector({3, 4});
  out.WaitToRead();
  std::map<std::string, int64_t> live;
  for (const StorageTagStats& tag : Storage::Get()->TagStats(Device::Cpu())) {
    live[tag.tag] = tag.live_bytes;
  }
  EXPECT_GE(live["elemwise_add"], 8);
}

TEST(BoundOperatorTest, RunsAgainOnTheContentsOfTheMoment) {
  const auto property = OperatorRegistry::Get().Create("elemwise_add", {});
  NDArray a = Vector({1, 2});
  NDArray b = Vector({10, 20});
  const NDArray out({2});
  const BoundOperator add(*property, {a, b}, {out});
  add.Run();
  EXPECT_THAT(out.ToVector(), ElementsAre(11, 22));
  a = 5.0f;
  add.Run();
  EXPECT_THAT(out.ToVector(), ElementsAre(15, 25));
}

TEST(BoundOperatorTest, StepsInPlace) {
  const auto property =
      OperatorRegistry::Get().Create("sgd_mom_update", {{"lr", "0.5"}, {"momentum", "0.5"}});
  const NDArray weight = Vector({1, 2});
  const NDArray grad = Vector({2, 4});
  const NDArray mom = Vector({0, 0});
  const BoundOperator step(*property, {weight, grad, mom}, {weight});
  step.Run();
  EXPECT_THAT(weight.ToVector(), ElementsAre(0, 0));
  EXPECT_THAT(mom.ToVector(), ElementsAre(-1, -2));
  step.Run();
  EXPECT_THAT(mom.ToVector(), ElementsAre(-1.5, -3));
  EXPECT_THAT(weight.ToVector(), ElementsAre(-1.5, -3));
}

TEST(BoundOperatorTest, TellsTheOperatorWhetherItTrains) {
  const auto property = OperatorRegistry::Get().Create("test_counting", {});
  const NDArray data = Vector({0});
  const NDArray count = Vector({0});
  const NDArray trained = Vector({0});
  BoundOperator counting(*property, {data, count, trained}, {NDArray({1})});
  counting.Run();
  counting.Run(/*is_train=*/true);
  counting.Run(/*is_train=*/true, /*priority=*/3);
  EXPECT_THAT(count.ToVector(), ElementsAre(3));
  EXPECT_THAT(trained.ToVector(), ElementsAre(2));
  BoundOperator moved = std::move(counting);
  moved.Run();
  EXPECT_THAT(count.ToVector(), ElementsAre(4));
  ExpectError(Error::kFailedPrecondition, "moved from",
              [&] { counting.Run(); });  // NOLINT: the use after the move is the test
}

TEST(BoundOperatorTest, OneOfTheParentSaysSoInTheChildOfAFork) {
  const auto property = OperatorRegistry::Get().Create("elemwise_add", {});
  const NDArray a = Vector({1, 2});
  const NDArray out({2});
  const BoundOperator add(*property, {a, a}, {out});
  NDArray::WaitAll();
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    try {
      add.Run();
    } catch (const Error& error) {
      const bool says_so = std::string(error.what()).find("fork") != std::string::npos;
      std::_Exit(error.code() == Error::kFailedPrecondition && says_so ? 0 : 1);
    }
    std::_Exit(2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(BoundOperatorTest, QueuedRunsOutliveIt) {
  const NDArray data = Vector({0});
  const NDArray count = Vector({0});
  {
    const auto property = OperatorRegistry::Get().Create("test_counting", {});
    const BoundOperator counting(*property, {data, count, Vector({0})}, {NDArray({1})});
    for (int i = 0; i < 100; ++i) counting.Run();
  }
  EXPECT_THAT(count.ToVector(), ElementsAre(100));
}

TEST(BoundOperatorTest, RunsFromManyThreadsAllCount) {
  const auto property = OperatorRegistry::Get().Create("test_counting", {});
  const NDArray count = Vector({0});
  const BoundOperator counting(*property, {Vector({0}), count, Vector({0})}, {NDArray({1})});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) counting.Run(i % 2 == 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(count.ToVector(), ElementsAre(200));
}

TEST(BoundOperatorTest, RunsWithoutStorageAfterTheFirst) {
  const auto property = OperatorRegistry::Get().Create("test_counting", {});
  const NDArray count = Vector({0});
  const BoundOperator counting(*property, {Vector({0}), count, Vector({0})}, {NDArray({1})});
  // Twice as many runs as there are workspaces to touch for the first time.
  for (int i = 0; i < 8; ++i) counting.Run();
  count.WaitToRead();
  const int64_t before = Storage::Get()->Stats(Device::Cpu()).allocations;
  for (int i = 0; i < 100; ++i) counting.Run();
  count.WaitToRead();
  EXPECT_EQ(Storage::Get()->Stats(Device::Cpu()).allocations, before);
}

TEST(BoundOperatorTest, ChecksWhenItIsBound) {
  const auto property = OperatorRegistry::Get().Create("elemwise_add", {});
  const NDArray a({2});
  ExpectError(kInvalid, "rhs", [&] { BoundOperator(*property, {a, NDArray({3})}, {a}); });
  ExpectError(kInvalid, "no outputs", [&] { BoundOperator(*property, {a, a}, {}); });
  ExpectError(kInvalid, "expected 2", [&] { BoundOperator(*property, {a}, {a}); });
}

TEST(BoundOperatorTest, AFailedRunDoesNotStopLaterOnes) {
  const auto property = OperatorRegistry::Get().Create("test_threshold", {{"limit", "4"}});
  NDArray data = Vector({9});
  const NDArray out({1});
  const BoundOperator bound(*property, {data}, {out});
  bound.Run();
  ExpectError(Error::kOutOfRange, "test_threshold", [&] { out.WaitToRead(); });
  data = 3.0f;
  bound.Run();
  EXPECT_THAT(out.ToVector(), ElementsAre(3));
}

/// A property that no registry has created.
class UnregisteredProperty final : public OperatorProperty {
 public:
  void Init(const ParameterMap&) override {}
  ParameterMap GetParams() const override { return {}; }
  bool InferShape(std::vector<TShape>*, std::vector<TShape>*) const override { return false; }
  const std::string& TypeString() const override { return name_; }

 private:
  const std::string name_ = "test_unregistered";
};

TEST(InvokeTest, CallsTheOperatorOfAProperty) {
  const std::shared_ptr<const OperatorProperty> other =
      OperatorRegistry::Get().Create("_plus_scalar", {{"scalar", "4"}});
  const NDArray x = Vector({1, 2});
  const std::shared_ptr<const OperatorProperty> property =
      OperatorRegistry::Get().Create("_plus_scalar", {{"scalar", "0.5"}});
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(Invoke(property, {&x, 1})[0].ToVector(), ElementsAre(1.5f, 2.5f));
    EXPECT_THAT(Invoke(other, {&x, 1})[0].ToVector(), ElementsAre(5, 6));
  }
  const std::vector<NDArray> two = {x, x};
  ExpectError(kInvalid, "2 inputs given, expected 1", [&] { Invoke(property, two); });
  ExpectError(Error::kNotFound, "test_unregistered", [&] {
    Invoke(std::make_shared<UnregisteredProperty>(), {&x, 1});
  });
}

}  // namespace
}  // namespace tessera
