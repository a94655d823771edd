// The promises of an engine about errors of operations of devices, on a simulated one: see
// "Devices" in engine.h.

#include <atomic>
#include <future>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/engine/device/device_stream.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/testing/engine_configurations.h"
#include "tessera/engine/testing/simulated_device.h"
#include "tessera/engine/testing/stream_fixture.h"

namespace tessera {
namespace {

using engine_internal::ConfigurationName;
using engine_internal::MessageOf;
using engine_internal::SimulatedDevice;
using engine_internal::StreamFixture;
using engine_internal::ThreadedConfigurations;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr Device kCpu = Device::Cpu();
constexpr Device kGpu = Device::Gpu(0);

class EngineStreamErrorTest : public StreamFixture {};
INSTANTIATE_TEST_SUITE_P(All, EngineStreamErrorTest, testing::ValuesIn(ThreadedConfigurations()),
                         ConfigurationName);

TEST_P(EngineStreamErrorTest, AFunctionThatThrowsMarksWhatItWouldHaveWritten) {
  Variable *a = New(), *b = New(), *c = New();
  std::atomic<int> runs{0};
  engine_->PushSync([](RunContext) { throw DataLoss("bad launch"); }, kGpu, {}, {a},
                    {.name = "kernel"});
  PushWork([&] { ++runs; }, {a}, {b}, {.property = FnProperty::kCopyFromGpu});
  engine_->PushSync([&](RunContext) { ++runs; }, kCpu, {b}, {c});
  EXPECT_THAT(MessageOf([&] { engine_->WaitForVar(c); }),
              AllOf(StartsWith("bad launch"), HasSubstr("\"kernel\"")));
  EXPECT_EQ(MessageOf([&] { engine_->WaitForVar(a); }), "");
  PushWork([&] { ++runs; }, {}, {a});
  PushWork([&] { ++runs; }, {a}, {b});
  EXPECT_EQ(MessageOf([&] { engine_->WaitForVar(b); }), "") << "written afresh";
  EXPECT_EQ(runs, 2);
}

TEST_P(EngineStreamErrorTest, WhatTheDeviceReportsLaterSurfacesAtTheWaitAndSkipsTheHost) {
  Variable *a = New(), *b = New(), *other = New();
  std::atomic<int> runs{0};
  device_.Fail("illegal address");
  PushWork([] {}, {}, {a}, {.name = "kernel"});
  engine_->PushSync([&](RunContext) { ++runs; }, kCpu, {a}, {b});
  engine_->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {b, other}, {.updates = {a}});
  EXPECT_THAT(MessageOf([&] { engine_->WaitForVar(b); }),
              AllOf(StartsWith("illegal address"), HasSubstr("\"kernel\"")));
  EXPECT_EQ(MessageOf([&] { engine_->WaitForVar(a); }), "") << "one chain";
  EXPECT_EQ(MessageOf([&] { engine_->WaitForAll(); }), "");
  EXPECT_EQ(runs, 0);
  device_.Repair();
  PushWork([&] { ++runs; }, {}, {a});
  engine_->PushSync([&](RunContext) { ++runs; }, kCpu, {a}, {b});
  EXPECT_EQ(MessageOf([&] { engine_->WaitForVar(b); }), "");
  EXPECT_EQ(runs, 2);
}

TEST_P(EngineStreamErrorTest, AnErrorOfTheDeviceIsThatOfAllWhoDependOnIt) {
  Variable *a = New("a"), *b = New("b"), *c = New("c"), *other = New("other");
  device_.Hold();
  std::latch issued(4);
  const auto push = [&](const char *name, VariableList reads, VariableList writes,
                        FnProperty property) {
    engine_->PushSync(
        [&](RunContext context) {
          SimulatedDevice::Enqueue(context.stream, [] {});
          issued.count_down();
        },
        kGpu, reads, writes, {.property = property, .name = name});
  };
  device_.FailOnce("illegal address");
  push("first", {}, {a}, FnProperty::kCopyToGpu);
  push("second", {a}, {b}, FnProperty::kNormal);
  push("third", {b}, {c}, FnProperty::kCopyFromGpu);
  issued.arrive_and_wait();  // all are with the device before it fails
  device_.Resume();
  EXPECT_THAT(MessageOf([&] { engine_->WaitForVar(c); }),
              AllOf(StartsWith("illegal address"), HasSubstr("\"first\"")));
  EXPECT_EQ(MessageOf([&] { engine_->WaitForVar(b); }), "") << "one chain";
  EXPECT_EQ(MessageOf([&] { engine_->WaitForVar(a); }), "");
  PushWork([] {}, {}, {other});
  EXPECT_EQ(MessageOf([&] { engine_->WaitForAll(); }), "");
}

TEST_P(EngineStreamErrorTest, AnErrorBetweenTheCallAndTheCompletionIsTakenOn) {
  Variable *a = New("a"), *b = New("b"), *c = New("c");
  device_.Hold();
  device_.FailOnce("illegal address");
  PushWork([] {}, {}, {a}, {.property = FnProperty::kCopyToGpu, .name = "first"});
  std::promise<OnComplete> called;
  engine_->PushAsync(
      [&](RunContext, OnComplete on_complete) { called.set_value(std::move(on_complete)); }, kGpu,
      {a}, {b}, {.name = "second"});
  const OnComplete complete = called.get_future().get();
  device_.Resume();
  engine_->PushSync([](RunContext) {}, kCpu, {a}, {c});
  while (engine_->counters().skipped == 0) std::this_thread::yield();  // the error is known
  complete();
  engine_->PushSync([](RunContext) {}, kCpu, {b}, {c});
  EXPECT_THAT(MessageOf([&] { engine_->WaitForVar(b); }),
              AllOf(StartsWith("illegal address"), HasSubstr("\"first\"")));
  EXPECT_EQ(MessageOf([&] { engine_->WaitForAll(); }), "") << "one chain";
  EXPECT_EQ(engine_->counters().skipped, 2u);
}

// Who watches the first stream is held up at its first operation while the device does the rest.
TEST_P(EngineStreamErrorTest, AnErrorPassesAnyNumberOfOperationsThatNobodyHasHeardOf) {
  Variable *a = New("a"), *b = New("b");
  std::latch go_on(1);
  auto holds_up = std::shared_ptr<void>(nullptr, [&](void *) { go_on.wait(); });
  device_.Hold();
  engine_->PushSync(
      [holds_up](RunContext context) { SimulatedDevice::Enqueue(context.stream, [] {}); }, kGpu, {},
      {a}, {.property = FnProperty::kCopyToGpu});
  holds_up.reset();
#if defined(__SANITIZE_THREAD__)
  constexpr int kOperations = 3000;  // takes minutes with more
#else
  constexpr int kOperations = 30000;
#endif
  for (int i = 0; i < kOperations; ++i) {
    PushWork([] {}, {}, {}, {.property = FnProperty::kCopyToGpu, .name = "write", .updates = {a}});
  }
  engine_->PushSync(
      [this](RunContext context) {
        device_.FailOnce("illegal address");
        SimulatedDevice::Enqueue(context.stream, [] {});
      },
      kGpu, {}, {}, {.property = FnProperty::kCopyToGpu, .name = "last", .updates = {a}});
  PushWork([] {}, {a}, {b}, {.name = "read"});
  device_.Resume();
  EXPECT_THAT(MessageOf([&] { engine_->WaitForVar(b); }), StartsWith("illegal address"));
  go_on.count_down();
  EXPECT_EQ(MessageOf([&] { engine_->WaitForAll(); }), "") << "one chain";
}

TEST_P(EngineStreamErrorTest, AnErrorThatWasClearedHidesNoOther) {
  Variable *a = New("a"), *b = New("b"), *c = New("c");
  int runs = 0;
  device_.FailOnce("one");
  PushWork([] {}, {}, {a});
  while (engine_->counters().pending > 0) std::this_thread::yield();
  device_.FailOnce("two");
  PushWork([] {}, {}, {b});
  EXPECT_THAT(MessageOf([&] { engine_->WaitForAll(); }), StartsWith("one"));
  engine_->PushSync([&](RunContext) { ++runs; }, kCpu, {a, b}, {c});
  EXPECT_THAT(MessageOf([&] { engine_->WaitForVar(c); }), StartsWith("two"));
  EXPECT_EQ(runs, 0);
  EXPECT_EQ(MessageOf([&] { engine_->WaitForAll(); }), "");
}

TEST_P(EngineStreamErrorTest, WhatIsSkippedHasNoErrorOfItsOwn) {
  Variable *a = New("a"), *b = New("b");
  device_.Fail("device lost");
  PushWork([] {}, {}, {a}, {.name = "first"});
  while (engine_->counters().pending > 0) std::this_thread::yield();
  PushWork([] {}, {a}, {b}, {.name = "second"});
  EXPECT_THAT(MessageOf([&] { engine_->WaitForVar(b); }),
              AllOf(StartsWith("device lost"), HasSubstr("\"first\"")));
  EXPECT_EQ(MessageOf([&] { engine_->WaitForAll(); }), "") << "one chain";
}

TEST_P(EngineStreamErrorTest, WaitForAllAndThrowFindWhatTheDeviceReported) {
  Variable *a = New(), *b = New();
  device_.Fail("one");
  PushWork([] {}, {}, {a});
  EXPECT_THAT(MessageOf([&] { engine_->WaitForAll(); }), StartsWith("one"));
  PushWork([] {}, {}, {b});
  while (engine_->counters().pending > 0) std::this_thread::yield();
  EXPECT_THAT(MessageOf([&] { engine_->Throw(b); }), StartsWith("one"));
}

TEST_P(EngineStreamErrorTest, ADeviceThatIsNotThereIsAnErrorAtThePush) {
  Variable *data = New();
  const std::string message = MessageOf(
      [&] { engine_->PushSync([](RunContext) {}, Device::Gpu(7), {}, {data}, {.name = "lost"}); });
  EXPECT_THAT(message, AllOf(HasSubstr("\"lost\""), HasSubstr("gpu(7)")));
  EXPECT_EQ(engine_->counters().pushed, 0u);
}

TEST(DeviceBackendTest, WithoutOneAPushNamesTheBuildThatHasIt) {
  using engine_internal::SetDeviceBackend;
  engine_internal::DeviceBackend *const backend = SetDeviceBackend(DeviceType::kGpu, nullptr);
  const auto engine = Engine::Create();
  try {
    engine->PushSync([](RunContext) {}, kGpu, {}, {});
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.code(), Error::kUnimplemented);
    EXPECT_THAT(error.what(), HasSubstr("--config=cuda"));
  }
  SetDeviceBackend(DeviceType::kGpu, backend);
}

TEST(NaiveEngineStreamTest, AnErrorOfTheDeviceSurfacesAtTheWait) {
  SimulatedDevice device;
  const auto engine = Engine::Create({.kind = EngineKind::kNaive});
  Variable *data = engine->NewVariable();
  device.Fail("broken");
  engine->PushSync([](RunContext) {}, kGpu, {}, {data});
  EXPECT_THAT(MessageOf([&] { engine->WaitForVar(data); }), StartsWith("broken"));
}

}  // namespace
}  // namespace tessera
