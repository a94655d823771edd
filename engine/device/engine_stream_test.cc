// The promises of an engine about operations of devices, on a simulated one: see "Devices" in
// engine.h.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

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
using engine_internal::SimulatedDevice;
using engine_internal::StreamFixture;
using engine_internal::ThreadedConfigurations;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr Device kCpu = Device::Cpu();
constexpr Device kGpu = Device::Gpu(0);

class EngineStreamTest : public StreamFixture {};
INSTANTIATE_TEST_SUITE_P(All, EngineStreamTest, testing::ValuesIn(ThreadedConfigurations()),
                         ConfigurationName);

constexpr FnProperty kProperties[] = {FnProperty::kNormal, FnProperty::kCopyToGpu,
                                      FnProperty::kCopyFromGpu, FnProperty::kGpuPrioritized};

TEST_P(EngineStreamTest, AFunctionKeepsItsCurrentDeviceWhateverRunsOnTopOfIt) {
  Variable *inner = New(), *outer = New();
  std::vector<int> current;
  engine_->PushSync(
      [&](RunContext context) {
        current.push_back(SimulatedDevice::Current());
        context.engine->PushSync([&](RunContext) { current.push_back(SimulatedDevice::Current()); },
                                 kGpu, {}, {inner});
        context.engine->WaitForVar(inner);
        current.push_back(SimulatedDevice::Current());
      },
      Device::Gpu(1), {}, {outer});
  engine_->WaitForVar(outer);
  EXPECT_EQ(current, (std::vector<int>{1, 0, 1}));
  EXPECT_EQ(SimulatedDevice::Current(), 0);
}

TEST_P(EngineStreamTest, EachKindOfWorkHasItsStreamOnEachDevice) {
  std::vector<void*> streams;
  std::mutex mutex;
  for (const Device device : {Device::Gpu(0), Device::Gpu(1)}) {
    for (const FnProperty property : kProperties) {
      Variable* variable = New();
      for (int i = 0; i < 3; ++i) {
        engine_->PushSync(
            [&](RunContext context) {
              std::lock_guard<std::mutex> hold(mutex);
              if (std::find(streams.begin(), streams.end(), context.stream) == streams.end()) {
                streams.push_back(context.stream);
              }
            },
            device, {}, {variable}, {.property = property});
      }
    }
  }
  engine_->WaitForAll();
  EXPECT_EQ(streams.size(), 8u);
}

TEST_P(EngineStreamTest, DependentsOnAnyStreamAreIssuedWhileTheDeviceHasDoneNothing) {
  device_.Hold();
  Variable* variable = New();
  std::atomic<int> done{0};
  std::latch issued(40);
  for (int i = 0; i < 40; ++i) {
    engine_->PushSync(
        [&](RunContext context) {
          SimulatedDevice::Enqueue(context.stream, [&] { ++done; });
          issued.count_down();
        },
        kGpu, {}, {variable}, {.property = kProperties[i % 4]});
  }
  issued.wait();  // would never end if a host thread waited for the device
  EXPECT_EQ(done, 0);
  EXPECT_EQ(engine_->counters().pending, 40u);
  device_.Resume();
  engine_->WaitForVar(variable);
  EXPECT_EQ(done, 40);
}

TEST_P(EngineStreamTest, StreamsKeepTheOrderOfWritesAndReads) {
  Variable* data = New();
  int value = -1;  // only the order of the streams protects it
  std::vector<int> seen(300, -2);
  for (int i = 0; i < 300; i += 3) {
    PushWork([&value, i] { value = i; }, {}, {data}, {.property = kProperties[i % 4]});
    for (int reader = 0; reader < 3; ++reader) {  // the next write waits for all of them
      PushWork([&value, out = &seen[i + reader]] { *out = value; }, {data}, {},
               {.property = kProperties[reader]});
    }
  }
  engine_->WaitForAll();
  for (int i = 0; i < 300; ++i) EXPECT_EQ(seen[i], i / 3 * 3);
}

TEST_P(EngineStreamTest, TheHostComesAfterTheDeviceAndHoldsNoWorkerMeanwhile) {
  device_.Hold();
  Variable *data = New(), *result = New(), *unrelated = New();
  int value = 0, seen = 0;
  PushWork([&] { value = 7; }, {}, {data});
  for (int i = 0; i < 20; ++i) engine_->PushSync([](RunContext) {}, kCpu, {data}, {});
  engine_->PushSync([&](RunContext) { seen = value; }, kCpu, {data}, {result});
  engine_->PushSync([](RunContext) {}, kCpu, {}, {unrelated}, {.priority = -1});
  engine_->WaitForVar(unrelated);
  EXPECT_GE(engine_->counters().pending, 22u);
  device_.Resume();
  engine_->WaitForVar(result);
  EXPECT_EQ(seen, 7);
}

TEST_P(EngineStreamTest, AHostWriteWaitsForTheDevicesReadersOnAllStreams) {
  device_.Hold();
  Variable* data = New();
  int value = 1;
  std::vector<int> seen(8, 0);
  std::latch issued(8);
  for (int i = 0; i < 8; ++i) {
    engine_->PushSync(
        [&, i](RunContext context) {
          SimulatedDevice::Enqueue(context.stream, [&, i] { seen[i] = value; });
          issued.count_down();
        },
        kGpu, {data}, {}, {.property = kProperties[i % 4]});
  }
  engine_->PushSync([&](RunContext) { value = 2; }, kCpu, {}, {data});
  issued.wait();
  device_.Resume();
  engine_->WaitForVar(data);
  EXPECT_EQ(value, 2);
  EXPECT_EQ(seen, std::vector<int>(8, 1));
}

TEST_P(EngineStreamTest, AWaitDoesNotWaitForTheDevicesReaders) {
  Variable* data = New();
  PushWork([] {}, {}, {data});
  engine_->WaitForVar(data);
  device_.Hold();
  std::latch issued(1);
  engine_->PushSync(
      [&](RunContext context) {
        SimulatedDevice::Enqueue(context.stream, [] {});
        issued.count_down();
      },
      kGpu, {data}, {});
  issued.wait();
  engine_->WaitForVar(data);
  EXPECT_GE(engine_->counters().pending, 1u);
  device_.Resume();
}

TEST_P(EngineStreamTest, AnOperationMayWaitForTheDevice) {
  Variable *data = New(), *outer = New();
  int value = 0, seen = 0;
  engine_->PushSync(
      [&](RunContext) {
        PushWork([&] { value = 9; }, {}, {data});
        engine_->WaitForVar(data);
        seen = value;
      },
      kCpu, {}, {outer});
  engine_->WaitForVar(outer);
  EXPECT_EQ(seen, 9);
}

TEST_P(EngineStreamTest, AnAsyncOperationIsIssuedByItsCallback) {
  Variable* data = New();
  std::promise<std::pair<void*, OnComplete>> handle;
  std::vector<int> order;  // only the stream protects it
  engine_->PushAsync(
      [&](RunContext context, OnComplete done) {
        handle.set_value({context.stream, done});
      },
      kGpu, {}, {data}, {.property = FnProperty::kCopyToGpu});
  PushWork([&] { order.push_back(2); }, {data}, {});
  std::thread foreign([&] {
    const auto [stream, done] = handle.get_future().get();
    SimulatedDevice::Enqueue(stream, [&] { order.push_back(1); });
    done();
  });
  engine_->WaitForAll();
  foreign.join();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST_P(EngineStreamTest, WhatAFunctionHoldsLivesUntilTheDeviceIsDone) {
  device_.Hold();
  Variable* data = New();
  auto buffer = std::make_shared<int>(5);
  const std::weak_ptr<int> watch = buffer;
  std::latch issued(1);
  engine_->PushSync(
      [buffer, &issued](RunContext context) {
        SimulatedDevice::Enqueue(context.stream, [raw = buffer.get()] { ++*raw; });
        issued.count_down();
      },
      kGpu, {}, {data});
  buffer.reset();
  issued.wait();
  engine_->DeleteVariable(data);  // returns at once, whatever the device is at
  EXPECT_FALSE(watch.expired());
  device_.Resume();
  engine_->WaitForAll();
  EXPECT_TRUE(watch.expired());
}

// A destructor that pushes, in the thread that watches the device: NDArrays do so.
TEST_P(EngineStreamTest, WhatFunctionsHoldMayPushWhenItGoes) {
  const auto engine = GetParam().Make({.max_pending = 8});
  Variable *data = engine->NewVariable(), *given_back = engine->NewVariable();
  int pushes = 0;
  device_.Hold();
  std::thread pusher([&] {
    for (int i = 0; i < 100; ++i) {
      const auto pushes_at_end = std::shared_ptr<void>(nullptr, [&](void*) {
        engine->PushSync([&](RunContext) { ++pushes; }, kCpu, {}, {given_back});
      });
      engine->PushSync(
          [pushes_at_end](RunContext context) { SimulatedDevice::Enqueue(context.stream, [] {}); },
          kGpu, {}, {data});
    }
  });
  while (engine->counters().pending < 8) std::this_thread::yield();
  device_.Resume();
  pusher.join();
  engine->WaitForAll();
  EXPECT_EQ(pushes, 100);
}

TEST_P(EngineStreamTest, StopAndShutdownWaitForTheDevice) {
  Variable* data = New();
  std::atomic<int> done{0};
  std::latch issued(1);
  device_.Hold();
  engine_->PushSync(
      [&](RunContext context) {
        SimulatedDevice::Enqueue(context.stream, [&] { ++done; });
        issued.count_down();
      },
      kGpu, {}, {data});
  issued.wait();
  std::thread resumes([&] { device_.Resume(); });
  engine_->Stop();
  EXPECT_EQ(done, 1);
  resumes.join();
  engine_->Start();
  for (int i = 0; i < 100; ++i) {
    PushWork([&] { ++done; }, {}, {data}, {.property = kProperties[i % 4]});
  }
  engine_->Shutdown();
  EXPECT_EQ(done, 101);
}

/// Holds up who asks it for a stream, once.
class HeldBackend final : public engine_internal::DeviceBackend {
 public:
  explicit HeldBackend(engine_internal::DeviceBackend& backend) : backend_(backend) {}

  std::unique_ptr<engine_internal::DeviceStream> NewStream(
      Device device, engine_internal::StreamRole role) override {
    asked.count_down();
    go_on.wait();
    return backend_.NewStream(device, role);
  }

  std::latch asked{1}, go_on{1};

 private:
  engine_internal::DeviceBackend& backend_;
};

// A push is checked, then it takes its place: in between the engine comes to its end.
TEST_P(EngineStreamTest, APushThatShutdownOvertakesThrows) {
  HeldBackend held(device_);
  engine_internal::SetDeviceBackend(DeviceType::kGpu, &held);
  Variable* data = New();
  bool refused = false, ran = false;
  std::thread pusher([&] {
    try {
      PushWork([&] { ran = true; }, {}, {data});
    } catch (const Error& error) {
      refused = error.code() == Error::kFailedPrecondition;
    }
  });
  held.asked.wait();
  engine_->Shutdown();
  held.go_on.count_down();
  pusher.join();
  engine_internal::SetDeviceBackend(DeviceType::kGpu, &device_);
  EXPECT_TRUE(refused);
  EXPECT_FALSE(ran);
  EXPECT_EQ(engine_->counters().pushed, 0u);
  engine_->WaitForVar(data);
  engine_->DeleteVariable(data);
}

TEST_P(EngineStreamTest, EnginesEndWithWorkOnTheDevice) {
  std::atomic<int> done{0};
  for (int i = 0; i < 30; ++i) {
    const auto engine = GetParam().Make();
    Variable* data = engine->NewVariable();
    for (int j = 0; j < 10; ++j) {
      engine->PushSync(
          [&](RunContext context) { SimulatedDevice::Enqueue(context.stream, [&] { ++done; }); },
          kGpu, {}, {data}, {.property = kProperties[j % 4]});
    }
  }
  EXPECT_EQ(done, 300);
}

TEST_P(EngineStreamTest, DebugStringNamesTheStreamThatAVariableIsOn) {
  device_.Hold();
  Variable* data = New("weights");
  std::latch issued(2);
  const auto push = [&](const char* name, VariableList reads, VariableList writes,
                        FnProperty property) {
    engine_->PushSync(
        [&](RunContext context) {
          SimulatedDevice::Enqueue(context.stream, [] {});
          issued.count_down();
        },
        kGpu, reads, writes, {.property = property, .name = name});
  };
  push("upload", {}, {data}, FnProperty::kCopyToGpu);
  push("multiply", {data}, {}, FnProperty::kNormal);
  issued.wait();
  // The second function has returned when this has gone through its thread or another.
  while (engine_->DebugString().find("multiply") == std::string::npos) std::this_thread::yield();
  std::string text = engine_->DebugString();
  while (text.find("gpu(0) compute") == std::string::npos) text = engine_->DebugString();
  EXPECT_THAT(text, AllOf(HasSubstr("weights"), HasSubstr("gpu(0) copy-in: write \"upload\""),
                          HasSubstr("gpu(0) compute: read \"multiply\"")));
  device_.Resume();
  engine_->WaitForAll();
  EXPECT_THAT(engine_->DebugString(), Not(HasSubstr("weights")));
}

uint64_t Mix(uint64_t a, uint64_t b) {
  return (a ^ (b + 0x9e3779b97f4a7c15u)) * 0xff51afd7ed558ccdu;
}

TEST_P(EngineStreamTest, RandomProgramsOfDeviceAndHostEndAsIfRunOneOperationAtATime) {
  constexpr int kVariables = 12, kOperations = 1500;
  std::mt19937_64 random(2015);
  std::vector<Variable*> variables;
  for (int i = 0; i < kVariables; ++i) variables.push_back(New());
  std::vector<uint64_t> values(kVariables, 1), expected(kVariables, 1);
  for (uint64_t i = 0; i < kOperations; ++i) {
    std::vector<size_t> chosen(kVariables);
    for (size_t v = 0; v < kVariables; ++v) chosen[v] = v;
    std::shuffle(chosen.begin(), chosen.end(), random);
    // Updates the first, reads the next two.
    const size_t a = chosen[0], b = chosen[1], c = chosen[2];
    const auto apply = [i, a, b, c](std::vector<uint64_t>& all) {
      all[a] = Mix(Mix(Mix(all[a], all[b]), all[c]), i);
    };
    apply(expected);
    const std::vector<Variable*> updates = {variables[a]};
    if (random() % 3 == 0) {
      engine_->PushSync([&values, apply](RunContext) { apply(values); }, kCpu,
                        {variables[b], variables[c]}, {}, {.updates = updates});
    } else {
      engine_->PushSync(
          [&values, apply](RunContext context) {
            SimulatedDevice::Enqueue(context.stream, [&values, apply] { apply(values); });
          },
          Device::Gpu(static_cast<int>(random() % 2)), {variables[b], variables[c]}, {},
          {.property = kProperties[random() % 4], .updates = updates});
    }
    if (random() % 50 == 0) {
      engine_->WaitForVar(variables[a]);
      ASSERT_EQ(values[a], expected[a]) << "operation " << i;
    }
  }
  engine_->WaitForAll();
  EXPECT_EQ(values, expected);
}

TEST(NaiveEngineStreamTest, ThePushReturnsWhenTheDeviceIsDone) {
  SimulatedDevice device;
  const auto engine = Engine::Create({.kind = EngineKind::kNaive});
  Variable* data = engine->NewVariable();
  int done = 0;
  for (int i = 0; i < 20; ++i) {
    engine->PushSync(
        [&](RunContext context) { SimulatedDevice::Enqueue(context.stream, [&] { ++done; }); },
        kGpu, {}, {data}, {.property = kProperties[i % 4]});
    EXPECT_EQ(done, i + 1);
  }
}

}  // namespace
}  // namespace tessera
