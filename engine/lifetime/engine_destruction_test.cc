// Destructors of errors and of functions' captures may push and wait when the engine runs them.

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/schedule.h"
#include "tessera/engine/testing/engine_configurations.h"

namespace tessera {
namespace {

using engine_internal::AllConfigurations;
using engine_internal::ConfigurationName;
using engine_internal::EngineConfigurationTest;
using engine_internal::MessageOf;
using engine_internal::PushOpen;

constexpr Device kCpu = Device::Cpu();

/// An error that holds something of the program's.
struct Guarded : std::runtime_error {
  explicit Guarded(std::shared_ptr<void> guard_in)
      : std::runtime_error("guarded"), guard(std::move(guard_in)) {}
  std::shared_ptr<void> guard;
};

class EngineDestructionTest : public EngineConfigurationTest {
 protected:
  /// Returns an object whose destruction waits for `awaited`. The message of the error that the
  /// wait throws goes to message_. A test calls this once.
  std::shared_ptr<void> WaitsWhenDestroyed(Variable *awaited) {
    return {nullptr, [this, awaited, message = message_](void *) {
              message->set_value(MessageOf([&] { engine_->WaitForVar(awaited); }));
            }};
  }
  /// Returns the message of the error at the destruction of WaitsWhenDestroyed(), which this
  /// awaits: it may come after the operation is complete, because a worker on its way back from an
  /// asynchronous function still has that function.
  std::string Message() {
    std::future<std::string> message = message_->get_future();
    return message.wait_for(std::chrono::seconds(30)) == std::future_status::ready
               ? message.get()
               : "not destroyed";
  }
  /// Leaves `failed` with an error that nobody else holds, and whose end waits for `awaited`.
  void Fail(Variable *failed, Variable *awaited) {
    engine_->PushSync([guard = WaitsWhenDestroyed(awaited)](RunContext) { throw Guarded(guard); },
                      kCpu, {}, {failed});
    EXPECT_THROW(engine_->WaitForAll(), Guarded);
  }
  /// An asynchronous function that passes its OnComplete on, and ends with its operation.
  AsyncFn Open(std::promise<OnComplete> &handle, std::shared_ptr<void> guard) {
    return [&handle, guard = std::move(guard)](RunContext, OnComplete done) {
      handle.set_value(std::move(done));
    };
  }
  void PushAfter(Variable *before, Variable *written) {
    engine_->PushSync([](RunContext) {}, kCpu, {before}, {written},
                      {.property = FnProperty::kNoSkip});
  }
  /// Where one worker runs everything, no function that has been called is still on its way back.
  void LetFunctionsReturn() {
    Variable *const other = New();
    engine_->PushSync([](RunContext) {}, kCpu, {}, {other});
    engine_->WaitForVar(other);
  }

  std::shared_ptr<std::promise<std::string>> message_ =
      std::make_shared<std::promise<std::string>>();
};
INSTANTIATE_TEST_SUITE_P(All, EngineDestructionTest, testing::ValuesIn(AllConfigurations()),
                         ConfigurationName);

// As an operation that has ended gives a variable back.
TEST_P(EngineDestructionTest, AnErrorMayPushAndWaitAsItsVariableIsDeleted) {
  constexpr int kPushes = 1000;  // one of them could have the record of that operation
  Variable *failed = New(), *last = New(), *pushed = New();
  std::atomic<int> runs{0};
  std::string message = "not destroyed";
  std::shared_ptr<void> guard(nullptr, [&](void *) {
    message = MessageOf([&] {
      for (int i = 0; i < kPushes; ++i) {
        engine_->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {pushed});
      }
      engine_->WaitForVar(pushed);
    });
  });
  engine_->PushSync([guard = std::move(guard)](RunContext) { throw Guarded(guard); }, kCpu, {},
                    {failed});
  EXPECT_THROW(engine_->WaitForAll(), Guarded);
  engine_->PushSync([&](RunContext) { engine_->DeleteVariable(failed); }, kCpu, {failed}, {last},
                    {.property = FnProperty::kNoSkip});
  engine_->WaitForAll();
  EXPECT_EQ(message, "");
  EXPECT_EQ(runs, kPushes);
}

TEST_P(EngineDestructionTest, AnErrorMayWaitForWhatIsReadyWithTheDeletionOfItsVariable) {
  Variable *failed = New(), *gate = New(), *awaited = New();
  Fail(failed, awaited);
  std::promise<OnComplete> handle;
  engine_->PushAsync(Open(handle, nullptr), kCpu, {failed}, {gate},
                     {.property = FnProperty::kNoSkip});
  engine_->DeleteVariable(failed);
  PushAfter(gate, awaited);
  handle.get_future().get()();
  engine_->WaitForAll();
  EXPECT_EQ(Message(), "");
}

TEST_P(EngineDestructionTest, AnErrorMayWaitForWhatIsReadyAsItsVariableIsWritten) {
  Variable *failed = New(), *gate = New(), *awaited = New();
  Fail(failed, awaited);
  std::promise<OnComplete> handle;
  engine_->PushAsync(Open(handle, nullptr), kCpu, {}, {failed, gate});
  PushAfter(failed, awaited);
  PushAfter(gate, awaited);
  handle.get_future().get()();
  engine_->WaitForAll();
  EXPECT_EQ(Message(), "");
}

// Then the function still runs when the variables are given up.
TEST_P(EngineDestructionTest, AnErrorMayWaitAsAFunctionThatGoesOnWritesItsVariable) {
  Variable *failed = New(), *gate = New(), *awaited = New();
  Fail(failed, awaited);
  OnComplete before = PushOpen(*engine_, gate);
  engine_->PushAsync([](RunContext, OnComplete done) { done(); }, kCpu, {}, {failed, gate});
  PushAfter(failed, awaited);
  PushAfter(gate, awaited);
  before();
  engine_->WaitForAll();
  EXPECT_EQ(Message(), "");
}

TEST_P(EngineDestructionTest, AnErrorMayWaitForWhatIsReadyAfterAReplay) {
  Variable *failed = New(), *gate = New(), *awaited = New();
  Fail(failed, awaited);
  std::promise<OnComplete> handle;
  const auto schedule = engine_->Record([&] {
    engine_->PushAsync(Open(handle, nullptr), kCpu, {}, {failed, gate});
  });
  schedule->Replay();
  PushAfter(failed, awaited);
  PushAfter(gate, awaited);
  handle.get_future().get()();
  engine_->WaitForAll();
  EXPECT_EQ(Message(), "");
}

TEST_P(EngineDestructionTest, WhatAnAsynchronousFunctionHasCapturedMayWaitForWhatIsReady) {
  Variable *gate = New(), *awaited = New();
  std::promise<OnComplete> handle;
  engine_->PushAsync(Open(handle, WaitsWhenDestroyed(awaited)), kCpu, {}, {gate});
  PushAfter(gate, awaited);
  OnComplete done = handle.get_future().get();
  LetFunctionsReturn();
  done();
  engine_->WaitForAll();
  EXPECT_EQ(Message(), "");
}

// Who waits for room by the bound might be the one that it waits for.
TEST_P(EngineDestructionTest, WhatACompletionMakesReadyRunsWhenItIsCounted) {
  Variable *gate = New(), *other = New(), *after = New();
  std::promise<OnComplete> handle;
  engine_->PushAsync(Open(handle, nullptr), kCpu, {}, {gate});
  OnComplete open = PushOpen(*engine_, other);
  uint64_t pending = 0;
  engine_->PushSync(
      [&](RunContext) {
        // The one that is complete may be on its way to be counted in another thread.
        const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        do {
          pending = engine_->counters().pending;
        } while (GetParam().threaded() && pending > 2 && std::chrono::steady_clock::now() < end);
      },
      kCpu, {gate}, {after});
  OnComplete done = handle.get_future().get();
  LetFunctionsReturn();
  done();
  engine_->WaitForVar(after);
  EXPECT_EQ(pending, 2u);
  open();
}

TEST_P(EngineDestructionTest, WhatADeletedOperatorHasCapturedMayWaitForWhatIsReady) {
  Variable *gate = New(), *awaited = New();
  OnComplete before = PushOpen(*engine_, gate);
  Opr *const op = engine_->NewOperator(SyncFn([guard = WaitsWhenDestroyed(awaited)](RunContext) {}),
                                       {}, {gate});
  engine_->Push(op, kCpu);
  engine_->DeleteOperator(op);
  PushAfter(gate, awaited);
  before();
  engine_->WaitForAll();
  EXPECT_EQ(Message(), "");
}

TEST_P(EngineDestructionTest, WhatADestroyedScheduleHasCapturedMayWaitForWhatIsReady) {
  Variable *gate = New(), *awaited = New();
  std::promise<OnComplete> handle;
  auto schedule = engine_->Record(
      [&] { engine_->PushAsync(Open(handle, WaitsWhenDestroyed(awaited)), kCpu, {}, {gate}); });
  schedule->Replay();
  schedule.reset();
  PushAfter(gate, awaited);
  OnComplete done = handle.get_future().get();
  LetFunctionsReturn();
  done();
  engine_->WaitForAll();
  EXPECT_EQ(Message(), "");
}

}  // namespace
}  // namespace tessera
