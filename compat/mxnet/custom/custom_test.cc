#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/testing/errors.h"
#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/custom/client_functions.h"
#include "tessera/compat/mxnet/profiling/profiler.h"
#include "tessera/engine/engine.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/symbol/executor.h"
#include "tessera/symbol/symbol.h"

namespace tessera::mxnet {
namespace {

using base_testing::ErrorOf;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

NDArray Vector(const std::vector<float>& values) {
  return NDArray::FromVector(values, {static_cast<index_t>(values.size())});
}

void Set(const NDArray& target, const NDArray& value) { CopyFromTo(value, target); }

/// data * data, computed with arrays' operators, whose gradient uses an array that forward keeps.
void MakeSquare(ClientOp* op) {
  op->forward = [](const ClientCall& call) {
    Set(call.out_data()[0], call.in_data()[0] * call.in_data()[0]);
    *call.kept = call.in_data()[0].Copy(Device::Cpu());
    return true;
  };
  op->backward = [](const ClientCall& call) {
    Set(call.in_grad()[0], *call.kept * call.out_grad()[0] * 2.0f);
    return true;
  };
}

TEST(CustomTest, ComputesImperativelyAndOnTheTape) {
  ClientOp op;
  MakeSquare(&op);
  op.Register("square");
  {
    NDArray x = Vector({1, 2, 3});
    EXPECT_THAT(Invoke("Custom", {x}, {{"op_type", "square"}})[0].ToVector(), ElementsAre(1, 4, 9));
    EXPECT_EQ(op.num_parameters, 0);
    x.AttachGrad();
    NDArray y;
    {
      const autograd::Record record;
      y = Invoke("Custom", {x * 2.0f}, {{"op_type", "square"}, {"scale", "3"}})[0];
    }
    EXPECT_EQ(op.num_parameters, 1);
    y.Backward();
    EXPECT_THAT(x.grad().ToVector(), ElementsAre(8, 16, 24));
  }
  NDArray::WaitAll();
  EXPECT_EQ(op.objects, 0);
  EXPECT_EQ(op.descriptions, 0);
}

TEST(CustomTest, EachCallHasAnObjectOfItsOwn) {
  ClientOp op;
  MakeSquare(&op);
  op.Register("square");
  const auto square = [](const NDArray& x) {
    return Invoke("Custom", {x}, {{"op_type", "square"}})[0];
  };
  const CachedOp compiled(
      Symbol::Apply("Custom", {Symbol::Variable("x")}, {{"op_type", "square"}}, "custom"));
  const auto hybrid = [&compiled](const NDArray& x) { return compiled({x})[0]; };
  for (const auto& call : {std::function(square), std::function<NDArray(const NDArray&)>(hybrid)}) {
    NDArray a = Vector({1, 2}), b = Vector({3, 4});
    a.AttachGrad();
    b.AttachGrad();
    std::vector<NDArray> heads;
    {
      const autograd::Record record;
      heads = {call(a), call(b)};
    }
    autograd::Backward(heads);
    EXPECT_THAT(a.grad().ToVector(), ElementsAre(2, 4));
    EXPECT_THAT(b.grad().ToVector(), ElementsAre(6, 8));
  }
}

TEST(CustomTest, ArraysThatTheClientKeepsAreCopies) {
  ClientOp op;
  NDArray kept, part;
  op.forward = [&](const ClientCall& call) {
    Set(call.out_data()[0], call.in_data()[0]);
    kept = call.in_data()[0];
    part = kept.Slice(1, 2);
    return true;
  };
  op.Register("keeps");
  NDArray x = Vector({1, 2});
  Invoke("Custom", {x}, {{"op_type", "keeps"}})[0].WaitToRead();
  x = 7.0f;  // the memory that the client has seen
  x.WaitToRead();
  EXPECT_THAT(kept.ToVector(), ElementsAre(1, 2));
  kept = 3.0f;
  EXPECT_THAT(part.ToVector(), ElementsAre(3));
  EXPECT_THAT(x.ToVector(), Each(7));
}

TEST(CustomTest, RunsInAnExecutorWithAuxiliaryStatesAndRequests) {
  ClientOp op{.arguments = {"data", "label"}, .aux_states = {"count"}};
  std::atomic<int> training = 0;
  op.forward = [&](const ClientCall& call) {
    training += call.is_train ? 1 : 0;
    EXPECT_EQ(autograd::IsTraining(), call.is_train);
    EXPECT_FALSE(autograd::IsRecording());
    EXPECT_THAT(call.requests, ElementsAre(kWriteTo));
    NDArray count = call.aux()[0];
    count += 1.0f;
    Set(call.out_data()[0], call.in_data()[0] - call.in_data()[1]);
    return true;
  };
  op.backward = [](const ClientCall& call) {
    EXPECT_THAT(call.requests, ElementsAre(kWriteTo, kNullOp));
    EXPECT_THAT(call.aux()[0].ToVector(), Each(2));
    // Clients often ignore requests.
    for (const NDArray& gradient : call.in_grad()) Set(gradient, call.out_grad()[0] * 3.0f);
    return true;
  };
  op.Register("difference");
  const Symbol x = Symbol::Variable("x");
  const Symbol net = Symbol::Apply("Custom", {x * 1.0f}, {{"op_type", "difference"}}, "custom");
  EXPECT_THAT(net.ListArguments(), ElementsAre("x", "custom_label"));
  EXPECT_THAT(net.ListAuxiliaryStates(), ElementsAre("custom_count"));
  const auto executor = SimpleBind(
      net, Device::Cpu(),
      {.shapes = {{"x", TShape{2}}}, .grad_req = kAddTo, .no_gradient = {"custom_label"}});
  Set(executor->arg_dict().at("x"), Vector({5, 7}));
  Set(executor->arg_dict().at("custom_label"), Vector({1, 2}));
  Set(executor->aux_dict().at("custom_count"), Vector({0, 0}));
  Set(executor->grad_dict().at("x"), Vector({100, 200}));
  executor->Forward(/*is_train=*/false);
  EXPECT_THAT(executor->outputs()[0].ToVector(), ElementsAre(4, 5));
  executor->Forward(/*is_train=*/true);
  executor->Backward({Vector({1, 2})});
  EXPECT_THAT(executor->grad_dict().at("x").ToVector(), ElementsAre(103, 206));
  EXPECT_THAT(executor->aux_dict().at("custom_count").ToVector(), Each(2));
  EXPECT_EQ(training, 1);
}

TEST(CustomTest, OutputsThatNobodyReadsAreWrittenNowhere) {
  ClientOp op{.outputs = {"first", "second"}};
  op.forward = [](const ClientCall& call) {
    EXPECT_THAT(call.requests, ElementsAre(kWriteTo, kNullOp));
    for (const NDArray& output : call.out_data()) Set(output, call.in_data()[0]);
    return true;
  };
  op.Register("twice");
  const Symbol net =
      Symbol::Apply("Custom", {Symbol::Variable("x")}, {{"op_type", "twice"}}, "custom");
  const auto executor =
      SimpleBind(net[0], Device::Cpu(), {.shapes = {{"x", TShape{2}}}, .grad_req = kNullOp});
  Set(executor->arg_dict().at("x"), Vector({5, 7}));
  executor->Forward(false);
  EXPECT_THAT(executor->outputs()[0].ToVector(), ElementsAre(5, 7));
}

TEST(CustomTest, FailuresAreErrorsAtTheWait) {
  ClientOp op;
  op.forward = [](const ClientCall&) { return false; };
  op.Register("fails");
  const NDArray y = Invoke("Custom", {Vector({1})}, {{"op_type", "fails"}})[0];
  EXPECT_THAT(ErrorOf([&] { y.WaitToRead(); }).what(),
              AllOf(HasSubstr("op_type \"fails\""), HasSubstr("forward has failed")));

  // An operation of the client's that fails after its function has returned.
  op.forward = [](const ClientCall& call) {
    Engine::Get()->PushSync([](RunContext) { throw OutOfRange("a bad index"); }, Device::Cpu(), {},
                            {call.out_data()[0].var()});
    return true;
  };
  const NDArray z = Invoke("Custom", {Vector({1})}, {{"op_type", "fails"}})[0];
  EXPECT_THAT(ErrorOf([&] { z.WaitToRead(); }).what(),
              AllOf(HasSubstr("a bad index"), HasSubstr("Custom of float32(1,)")));

  op.forward = [](const ClientCall& call) {
    Set(call.out_data()[0], call.in_data()[0]);
    return true;
  };
  op.backward = [](const ClientCall&) { return false; };
  NDArray x = Vector({1});
  x.AttachGrad();
  {
    const autograd::Record record;
    Invoke("Custom", {x}, {{"op_type", "fails"}})[0].Backward();
  }
  EXPECT_THAT(ErrorOf([&] { x.grad().WaitToRead(); }).what(), HasSubstr("backward has failed"));
}

TEST(CustomTest, ClientsMayWaitForOtherClientsOperators) {
  ClientOp inner, outer;
  inner.forward = [](const ClientCall& call) {
    Set(call.out_data()[0], Vector(call.in_data()[0].ToVector()) + 1.0f);
    return true;
  };
  outer.forward = [](const ClientCall& call) {
    NDArray value = call.in_data()[0];
    for (int i = 0; i < 3; ++i) {
      value = Invoke("Custom", {value}, {{"op_type", "inner"}})[0];
      value.WaitToRead();
    }
    Set(call.out_data()[0], value);
    return true;
  };
  inner.Register("inner");
  outer.Register("outer");
  // More at once than there are workers.
  std::vector<NDArray> results;
  for (int i = 0; i < 40; ++i) {
    results.push_back(
        Invoke("Custom", {Vector({static_cast<float>(i)})}, {{"op_type", "outer"}})[0]);
  }
  for (int i = 0; i < 40; ++i) {
    EXPECT_THAT(results[static_cast<size_t>(i)].ToVector(), ElementsAre(i + 3));
  }
}

TEST(CustomTest, FewOfManyCallsRunAtOnce) {
  ClientOp op;
  std::atomic<int> running = 0, most = 0;
  op.forward = [&](const ClientCall& call) {
    const int now = ++running;
    for (int old = most; now > old && !most.compare_exchange_weak(old, now);) {
    }
    Set(call.out_data()[0], Vector((call.in_data()[0] + 1.0f).ToVector()));
    --running;
    return true;
  };
  op.Register("counts");
  const NDArray x = Vector({1});
  std::vector<NDArray> results;
  // More than the engine has compensating threads.
  for (int i = 0; i < 1500; ++i) {
    results.push_back(Invoke("Custom", {x}, {{"op_type", "counts"}})[0]);
  }
  for (const NDArray& result : results) EXPECT_THAT(result.ToVector(), ElementsAre(2));
  EXPECT_LE(most, 16);
}

TEST(CustomTest, ALossNeedsNoHeadGradient) {
  ClientOp op{.backward_reads_out_grad = false};
  op.forward = [](const ClientCall& call) {
    Set(call.out_data()[0], call.in_data()[0]);
    return true;
  };
  op.backward = [](const ClientCall& call) {
    EXPECT_EQ(call.out_grad()[0].shape(), TShape{0});
    Set(call.in_grad()[0], call.in_data()[0] * 5.0f);
    return true;
  };
  op.Register("loss");
  const Symbol net =
      Symbol::Apply("Custom", {Symbol::Variable("x")}, {{"op_type", "loss"}}, "custom");
  const auto executor = SimpleBind(net, Device::Cpu(), {.shapes = {{"x", TShape{2}}}});
  Set(executor->arg_dict().at("x"), Vector({1, 2}));
  executor->Forward(true);
  executor->Backward();
  EXPECT_THAT(executor->grad_dict().at("x").ToVector(), ElementsAre(5, 10));
}

TEST(CustomTest, ALaterRegistrationReplacesAnEarlierOne) {
  ClientOp first, second;
  first.forward = [](const ClientCall& call) {
    Set(call.out_data()[0], call.in_data()[0]);
    return true;
  };
  second.forward = [](const ClientCall& call) {
    Set(call.out_data()[0], call.in_data()[0] * 2.0f);
    return true;
  };
  const auto call = [] { return Invoke("Custom", {Vector({3})}, {{"op_type", "again"}})[0]; };
  first.Register("again");
  EXPECT_THAT(call().ToVector(), ElementsAre(3));
  second.Register("again");
  EXPECT_THAT(call().ToVector(), ElementsAre(6));
}

TEST(CustomTest, AProfileHasRowsForTheFunctionsAndWhatTheyCall) {
  ClientOp op;
  op.forward = [](const ClientCall& call) {
    Set(call.out_data()[0], call.in_data()[0] * 2.0f);
    return true;
  };
  op.backward = [](const ClientCall& call) {
    Set(call.in_grad()[0], call.out_grad()[0] * 2.0f);
    return true;
  };
  op.Register("profiled");
  Profiler& profiler = Profiler::Get();
  profiler.Configure({.filename = testing::TempDir() + "/custom.json", .aggregate_stats = true});
  profiler.SetRunning(true);
  NDArray x = Vector({1, 2});
  x.AttachGrad();
  {
    const autograd::Record record;
    Invoke("Custom", {x}, {{"op_type", "profiled"}})[0].Backward();
  }
  EXPECT_THAT(x.grad().ToVector(), ElementsAre(2, 2));
  profiler.Dump(/*finished=*/true);
  const std::string table = profiler.Statistics(StatisticsFormat::kTable, StatisticsOrder::kTotal,
                                                /*ascending=*/false, /*reset=*/true);
  for (const char* const row :
       {"\nprofiled::pure_python ", "\nprofiled::_mul_scalar ",
        "\n_backward_profiled::pure_python ", "\n_backward_profiled::_mul_scalar "}) {
    EXPECT_THAT(table, HasSubstr(row));
  }
  EXPECT_THAT(table, Not(HasSubstr("\nCustom  ")));  // "Custom Operator" is the heading
}

/// The functions of _Native and _NDArray for data * 3, whose gradient is out_grad * 3.
struct Legacy {
  static void Names(char*** list, const char* name) {
    static std::map<std::string, std::vector<char*>> lists;
    std::vector<char*>& names = lists[name];
    names = {const_cast<char*>(name), nullptr};
    *list = names.data();
  }
  static void InferShape(int, int* ranks, int** extents, void*) {
    ranks[1] = ranks[0];
    extents[1] = extents[0];
  }
  /// Tags: in_data 0, out_data 1, in_grad 2, out_grad 3.
  static void RunNative(int count, float** memory, int* ranks, unsigned** shapes, int* tags,
                        void*) {
    std::map<int, float*> by_tag;
    for (int i = 0; i < count; ++i) by_tag[tags[i]] = memory[i];
    EXPECT_EQ(ranks[0], 1);
    const bool is_backward = by_tag.contains(2);
    for (unsigned k = 0; k < shapes[0][0]; ++k) {
      by_tag[is_backward ? 2 : 1][k] = by_tag[is_backward ? 3 : 0][k] * 3;
    }
  }
  static bool RunArrays(int count, void** handles, int* tags, void*) {
    std::map<int, NDArray> by_tag;
    for (int i = 0; i < count; ++i) {
      by_tag[tags[i]] = ArrayOf(handles[i]);
      Arrays().Remove(handles[i]);
    }
    const bool is_backward = by_tag.contains(2);
    Set(by_tag[is_backward ? 2 : 1], by_tag[is_backward ? 3 : 0] * 3.0f);
    return true;
  }
};

struct NativeFunctions {
  void (*forward)(int, float**, int*, unsigned**, int*, void*) = Legacy::RunNative;
  void (*backward)(int, float**, int*, unsigned**, int*, void*) = Legacy::RunNative;
  void (*infer_shape)(int, int*, int**, void*) = Legacy::InferShape;
  void (*outputs)(char***, void*) = [](char*** list, void*) { Legacy::Names(list, "output"); };
  void (*arguments)(char***, void*) = [](char*** list, void*) { Legacy::Names(list, "data"); };
  void* data[5] = {};
};

struct ArrayFunctions {
  bool (*forward)(int, void**, int*, void*) = Legacy::RunArrays;
  bool (*backward)(int, void**, int*, void*) = Legacy::RunArrays;
  bool (*infer_shape)(int, int*, int**, void*) = [](int count, int* ranks, int** extents, void*) {
    Legacy::InferShape(count, ranks, extents, nullptr);
    return true;
  };
  bool (*outputs)(char***, void*) = [](char*** list, void*) {
    Legacy::Names(list, "output");
    return true;
  };
  bool (*arguments)(char***, void*) = [](char*** list, void*) {
    Legacy::Names(list, "data");
    return true;
  };
  bool (*depends)(const int*, const int*, const int*, int*, int**, void*) =
      [](const int* out_grad, const int*, const int*, int* count, int** deps, void*) {
        static int needed;
        needed = out_grad[0];
        *count = 1;
        *deps = &needed;
        return true;
      };
  void* data[6] = {};
};

TEST(CustomTest, RunsOperatorsOfTheOlderKinds) {
  const NativeFunctions native;
  const ArrayFunctions arrays;
  for (const auto& [name, address] : {std::pair<std::string, const void*>("_Native", &native),
                                      std::pair<std::string, const void*>("_NDArray", &arrays)}) {
    std::ostringstream info;
    info << std::hex << reinterpret_cast<uintptr_t>(address);
    const Symbol net =
        Symbol::Apply(name, {Symbol::Variable("x")}, {{"info", info.str()}}, "custom");
    const auto executor =
        SimpleBind(net, Device::Cpu(), {.shapes = {{"x", TShape{2}}}, .grad_req = kAddTo});
    Set(executor->arg_dict().at("x"), Vector({1, 2}));
    Set(executor->grad_dict().at("x"), Vector({100, 100}));
    executor->Forward(true);
    EXPECT_THAT(executor->outputs()[0].ToVector(), ElementsAre(3, 6)) << name;
    executor->Backward({Vector({1, 10})});
    EXPECT_THAT(executor->grad_dict().at("x").ToVector(), ElementsAre(103, 130)) << name;
  }
}

TEST(CustomTest, WrongParametersAreErrorsAtTheCall) {
  const NDArray x = Vector({1});
  EXPECT_THAT(ErrorOf([&] { Invoke("Custom", {x}); }).what(), HasSubstr("op_type is missing"));
  ClientOp op{.can_create = false};
  op.Register("reluctant");
  EXPECT_THAT(ErrorOf([&] {
                Invoke("Custom", {x}, {{"op_type", "reluctent"}});
              }).what(),
              HasSubstr("did you mean \"reluctant\""));
  EXPECT_THAT(ErrorOf([&] {
                Invoke("Custom", {x}, {{"op_type", "reluctant"}});
              }).what(),
              HasSubstr("failed to create"));
  EXPECT_THAT(ErrorOf([&] {
                Invoke("_Native", {x}, {{"info", "xyz"}});
              }).what(),
              HasSubstr("expected an address"));
  EXPECT_THAT(ErrorOf([&] { Invoke("_NDArray", {x}); }).what(), HasSubstr("info is missing"));
}

}  // namespace
}  // namespace tessera::mxnet
