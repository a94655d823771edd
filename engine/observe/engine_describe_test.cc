// Counters, DebugString, and reports of waits that last.

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/testing/engine_configurations.h"
#include "tessera/engine/testing/simulated_device.h"
#include "tessera/engine/testing/thread_sleep.h"

namespace tessera {
namespace {

using engine_internal::AllConfigurations;
using engine_internal::AwaitSleep;
using engine_internal::ConfigurationName;
using engine_internal::EngineConfigurationTest;
using engine_internal::PushOpen;
using engine_internal::SimulatedDevice;
using engine_internal::ThisThread;
using engine_internal::ThreadedConfigurations;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr Device kCpu = Device::Cpu();

/// Receives the reports of an engine's waits, and keeps the first that begins with `beginning`
/// behind the engine's name. It must outlive the engine.
class FirstReport {
 public:
  explicit FirstReport(const std::string& beginning = "")
      : beginning_("tessera engine: " + beginning) {}

  /// Each wait that lasts longer than a millisecond is reported here.
  EngineOptions Options() {
    return {.stall_report_ms = 1, .stall_report = [this](const std::string& text) {
              if (text.starts_with(beginning_) && !reported_.exchange(true)) first_.set_value(text);
            }};
  }
  /// To be called once. Returns when there is one: what ends the wait comes after that.
  std::string Await() { return first_.get_future().get(); }

 private:
  const std::string beginning_;
  std::atomic<bool> reported_{false};
  std::promise<std::string> first_;
};

/// A way to wait, and what its report says.
struct KindOfWait {
  const char* reported_as;
  std::function<void(Engine&, Variable*)> wait;
};

class EngineDescribeTest : public EngineConfigurationTest {};
INSTANTIATE_TEST_SUITE_P(All, EngineDescribeTest, testing::ValuesIn(AllConfigurations()),
                         ConfigurationName);

class ThreadedEngineDescribeTest : public EngineConfigurationTest {};
INSTANTIATE_TEST_SUITE_P(All, ThreadedEngineDescribeTest,
                         testing::ValuesIn(ThreadedConfigurations()), ConfigurationName);

TEST_P(EngineDescribeTest, CountersAddUp) {
  Variable* good = engine_->NewVariable();
  Variable* bad = engine_->NewVariable();
  engine_->PushSync([](RunContext) { throw std::runtime_error("no"); }, kCpu, {}, {bad});
  engine_->PushSync([](RunContext) {}, kCpu, {bad}, {});
  engine_->PushSync([](RunContext) {}, kCpu, {bad}, {});
  engine_->PushSync([](RunContext) {}, kCpu, {good}, {});
  EXPECT_THROW(engine_->WaitForAll(), std::runtime_error);
  const EngineCounters counters = engine_->counters();
  EXPECT_EQ(counters.pushed, 4u);
  EXPECT_EQ(counters.run, 2u);
  EXPECT_EQ(counters.skipped, 2u);
  EXPECT_EQ(counters.pending, 0u);
}

TEST_P(EngineDescribeTest, CountersNeverGoBackAndAddUp) {
  constexpr uint64_t kPairs = 20000;
  Variable *bad = engine_->NewVariable(), *good = engine_->NewVariable();
  const EngineCounters before = engine_->counters();
  std::atomic<bool> done{false};
  std::thread reader([&] {
    for (EngineCounters last = before; !done;) {
      const EngineCounters now = engine_->counters();
      EXPECT_GE(now.pushed, last.pushed);
      EXPECT_GE(now.run, last.run);
      EXPECT_GE(now.skipped, last.skipped);
      EXPECT_EQ(now.run + now.skipped + now.pending, now.pushed);
      last = now;
    }
  });
  engine_->PushSync([](RunContext) { throw InvalidArgument("bad"); }, kCpu, {}, {bad});
  for (uint64_t i = 0; i < kPairs; ++i) {
    engine_->PushSync([](RunContext) {}, kCpu, {bad}, {});
    engine_->PushSync([](RunContext) {}, kCpu, {}, {good});
  }
  EXPECT_THROW(engine_->WaitForAll(), Error);
  done = true;
  reader.join();
  const EngineCounters after = engine_->counters();
  EXPECT_EQ(after.skipped - before.skipped, kPairs);
  EXPECT_EQ(after.run - before.run, kPairs + 1);
}

TEST_P(EngineDescribeTest, DebugStringNamesWhatPendsAndWhatHoldsIt) {
  Variable* variable = engine_->NewVariable("disk");
  std::promise<OnComplete> handle;
  engine_->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {},
                     {variable}, {.name = "fetch"});
  engine_->PushSync([](RunContext) {}, kCpu, {variable}, {}, {.name = "decode"});
  const OnComplete done = handle.get_future().get();
  EXPECT_THAT(engine_->DebugString(),
              AllOf(HasSubstr("pending 2"), HasSubstr("disk"), HasSubstr("held for writing"),
                    HasSubstr("fetch"), HasSubstr("decode"), HasSubstr("engine_describe_test.cc")));
  done();
  engine_->WaitForAll();
  EXPECT_THAT(engine_->DebugString(), HasSubstr("pending 0"));
}

TEST_P(EngineDescribeTest, DebugStringNamesEveryReader) {
  Variable* variable = engine_->NewVariable("table");
  std::mutex mutex;
  std::vector<OnComplete> handles;
  std::latch reading(3);
  for (const char* name : {"first", "second", "third"}) {
    engine_->PushAsync(
        [&](RunContext, OnComplete done) {
          std::lock_guard<std::mutex> hold(mutex);
          handles.push_back(done);
          reading.count_down();
        },
        kCpu, {variable}, {}, {.name = name});
  }
  engine_->PushSync([](RunContext) {}, kCpu, {}, {}, {.name = "rewrite", .updates = {variable}});
  reading.wait();
  EXPECT_THAT(engine_->DebugString(),
              AllOf(HasSubstr("\"first\""), HasSubstr("\"second\""), HasSubstr("\"third\""),
                    HasSubstr("held by read"), HasSubstr("queued: update \"rewrite\"")));
  std::lock_guard<std::mutex> hold(mutex);
  handles[1]();  // in any order
  // The operation is pending until its function, too, has returned.
  while (engine_->counters().pending > 3) std::this_thread::yield();
  EXPECT_THAT(engine_->DebugString(), AllOf(HasSubstr("\"rewrite\""), HasSubstr("pending 3")));
  handles[0]();
  handles[2]();
  engine_->WaitForAll();
  EXPECT_THAT(engine_->DebugString(), Not(HasSubstr("table")));
}

// An operation that has begun is in no queue, nor is one without variables.
TEST_P(EngineDescribeTest, DebugStringNamesARunningOperationWithoutVariables) {
  std::latch running(1), end(1);
  // In a thread of its own, in which NaiveEngine runs it.
  std::thread pusher([&] {
    engine_->PushSync([&](RunContext) { running.count_down(), end.wait(); }, kCpu, {}, {},
                      {.name = "compute"});
  });
  running.wait();
  EXPECT_THAT(engine_->DebugString(),
              AllOf(HasSubstr("begun, on no variable's queue: \"compute\" (push 1 at "),
                    HasSubstr("engine_describe_test.cc:")));
  end.count_down();
  pusher.join();
  engine_->WaitForAll();
  EXPECT_THAT(engine_->DebugString(), Not(HasSubstr("compute")));
}

TEST_P(EngineDescribeTest, DebugStringNamesAsynchronousOperationsWithoutVariables) {
  constexpr int kListed = 8;  // by a report, of each kind
  std::vector<OnComplete> open;
  const auto push = [&](const std::string& name) {
    std::promise<OnComplete> handle;
    engine_->PushAsync([&](RunContext, OnComplete done) { handle.set_value(std::move(done)); },
                       kCpu, {}, {}, {.name = name});
    open.push_back(handle.get_future().get());
  };
  for (int i = 0; i < kListed; ++i) push("request " + std::to_string(i));
  const std::string all = engine_->DebugString();
  for (int i = 0; i < kListed; ++i) {
    EXPECT_THAT(all, HasSubstr("\"request " + std::to_string(i) + "\" (push "));
  }
  EXPECT_THAT(all, Not(HasSubstr("…")));
  for (int i = 0; i < 100; ++i) push("another");
  EXPECT_THAT(engine_->DebugString(),
              AllOf(HasSubstr("\"another\""), Not(HasSubstr("\"request 0\"")), HasSubstr(", …")));
  // In any order, the first of all among them.
  for (size_t i = 0; i < open.size(); i += 2) open[i]();
  EXPECT_THAT(engine_->DebugString(), HasSubstr("\"another\""));
  for (size_t i = 1; i < open.size(); i += 2) open[i]();
  engine_->WaitForAll();
  EXPECT_THAT(engine_->DebugString(), AllOf(HasSubstr("pending 0"), Not(HasSubstr("begun"))));
}

TEST_P(EngineDescribeTest, DebugStringNamesAFunctionThatGoesOnAfterItsOperationIsComplete) {
  Variable* variable = engine_->NewVariable("result");
  std::latch complete(1), end(1);
  std::thread pusher([&] {
    engine_->PushAsync(
        [&](RunContext, OnComplete done) {
          done();
          complete.count_down();
          end.wait();
        },
        kCpu, {}, {variable}, {.name = "tidy"});
  });
  complete.wait();
  engine_->WaitForVar(variable);
  EXPECT_THAT(engine_->DebugString(), AllOf(HasSubstr("pending 1"), HasSubstr("begun, "),
                                            HasSubstr("\"tidy\""), Not(HasSubstr("result"))));
  end.count_down();
  pusher.join();
  engine_->WaitForAll();
  EXPECT_THAT(engine_->DebugString(), Not(HasSubstr("tidy")));
}

TEST_P(EngineDescribeTest, DebugStringNamesTheStepOfAReplayThatRuns) {
  Variable* variable = engine_->NewVariable("state");
  std::latch running(1), end(1);
  const auto schedule = engine_->Record(
      [&] {
        engine_->PushSync([](RunContext) {}, kCpu, {}, {variable}, {.name = "load"});
        engine_->PushSync([&](RunContext) { running.count_down(), end.wait(); }, kCpu, {},
                          {variable}, {.name = "solve"});
        engine_->PushSync([](RunContext) {}, kCpu, {}, {variable}, {.name = "store"});
      },
      {.name = "epoch"});
  std::thread replayer([&] { schedule->Replay(); });
  running.wait();
  const std::string text = engine_->DebugString();
  EXPECT_THAT(text, AllOf(HasSubstr("\"solve\" (push 2 at "), HasSubstr("engine_describe_test.cc:"),
                          Not(HasSubstr("\"load\"")), Not(HasSubstr("\"store\""))));
  if (GetParam().threaded()) {
    EXPECT_THAT(text, AllOf(HasSubstr(") in a replay of \"epoch\""),
                            HasSubstr("held for writing by replay of \"epoch\"")));
  }
  end.count_down();
  replayer.join();
  engine_->WaitForAll();
  EXPECT_THAT(engine_->DebugString(), AllOf(Not(HasSubstr("solve")), Not(HasSubstr("epoch"))));
}

TEST_P(EngineDescribeTest, DebugStringNamesTheStepOfAReplayThatIsNotComplete) {
  for (const bool with_variable : {true, false}) {
    std::vector<Variable*> written;
    if (with_variable) written.push_back(engine_->NewVariable("state"));
    std::promise<OnComplete> handle;
    const auto schedule = engine_->Record(
        [&] {
          engine_->PushSync([](RunContext) {}, kCpu, {}, written, {.name = "load"});
          engine_->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {},
                             written, {.name = "fetch"});
        },
        {.name = "epoch"});
    schedule->Replay();
    const OnComplete done = handle.get_future().get();
    const std::string text = engine_->DebugString();
    EXPECT_THAT(text, HasSubstr("\"fetch\" (push "));
    if (GetParam().threaded()) {
      EXPECT_THAT(text, HasSubstr(") in a replay of \"epoch\""));
    }
    done();
    engine_->WaitForAll();
    EXPECT_THAT(engine_->DebugString(), AllOf(Not(HasSubstr("fetch")), Not(HasSubstr("epoch"))));
  }
}

// Between its operations none of them is there to be named.
TEST_P(ThreadedEngineDescribeTest, DebugStringNamesAReplayWithoutVariables) {
  std::latch running(1), end(1);
  const auto schedule = engine_->Record(
      [&] {
        engine_->PushSync([&](RunContext) { running.count_down(), end.wait(); }, kCpu, {}, {},
                          {.name = "compute"});
      },
      {.name = "epoch"});
  schedule->Replay();
  running.wait();
  EXPECT_THAT(engine_->DebugString(),
              AllOf(HasSubstr("replay of \"epoch\" (push 1"), HasSubstr("\"compute\" (push 1"),
                    HasSubstr(") in a replay of \"epoch\"")));
  end.count_down();
  engine_->WaitForAll();
  EXPECT_THAT(engine_->DebugString(), Not(HasSubstr("begun")));
}

// Whatever a look at them finds, it must be there.
TEST_P(EngineDescribeTest, DebugStringMayLookAtAnyMoment) {
  constexpr int kRounds = 2000;
  Variable *variable = engine_->NewVariable(), *other = engine_->NewVariable();
  const auto schedule = engine_->Record([&] {
    for (int i = 0; i < 4; ++i) {
      engine_->PushSync([](RunContext) {}, kCpu, {}, {variable}, {.name = "step"});
      engine_->PushAsync([](RunContext, OnComplete done) { done(); }, kCpu, {}, {other},
                         {.name = "asynchronous step"});
    }
  });
  std::atomic<bool> over{false};
  std::thread reader([&] {
    while (!over) EXPECT_THAT(engine_->DebugString(), HasSubstr("pushed "));
  });
  for (int i = 0; i < kRounds; ++i) {
    engine_->PushSync([](RunContext) {}, kCpu, {}, {}, {.name = "compute"});
    engine_->PushAsync([](RunContext, OnComplete done) { done(); }, kCpu, {}, {variable},
                       {.name = "fetch"});
    schedule->Replay();
  }
  engine_->WaitForAll();
  EXPECT_THAT(engine_->DebugString(), Not(HasSubstr("begun")));
  over = true;
  reader.join();
}

TEST(ThreadedEngineLentTest, DebugStringTellsOfThreadsThatBlock) {
  constexpr int kBlocked = 10;
  const auto engine = Engine::Create({.kind = EngineKind::kThreaded, .workers = 1});
  std::latch blocked(kBlocked), end(1);
  for (int i = 0; i < kBlocked; ++i) {
    engine->PushSync([&](RunContext) { blocked.count_down(), end.wait(); }, kCpu, {}, {},
                     {.property = FnProperty::kAsync});
  }
  blocked.wait();
  EXPECT_THAT(engine->DebugString(), HasSubstr(", 10 of them asleep or blocked"));
  end.count_down();
  engine->WaitForAll();
  EXPECT_THAT(engine->DebugString(), Not(HasSubstr("asleep or blocked")));
}

TEST_P(EngineDescribeTest, AWaitThatLastsIsReported) {
  FirstReport report;
  const auto engine = GetParam().Make(report.Options());
  Variable* variable = engine->NewVariable("slow");
  std::promise<OnComplete> handle;
  engine->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {},
                    {variable}, {.name = "download"});
  const OnComplete done = handle.get_future().get();
  std::thread waiter([&] { engine->WaitForVar(variable); });
  // The report is what lets the download end: no report, no end.
  EXPECT_THAT(report.Await(),
              AllOf(HasSubstr("WaitForVar has lasted longer than 1 ms"), HasSubstr("slow"),
                    HasSubstr("download"), HasSubstr("engine_describe_test.cc")));
  done();
  waiter.join();
}

TEST_P(EngineDescribeTest, AReportNamesWhatStandsOnNoVariable) {
  FirstReport report;
  const auto engine = GetParam().Make(report.Options());
  std::promise<OnComplete> handle;
  engine->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {}, {},
                    {.name = "download"});
  const OnComplete done = handle.get_future().get();
  std::thread waiter([&] { engine->WaitForAll(); });
  EXPECT_THAT(report.Await(), AllOf(HasSubstr("a wait for all operations has lasted longer"),
                                    HasSubstr("\"download\" (push 1 at ")));
  done();
  waiter.join();
}

TEST_P(EngineDescribeTest, TheReportBeginsWithWhatTheWaitNeeds) {
  constexpr int kOthers = 300;  // more than a report lists
  FirstReport report;
  const auto engine = GetParam().Make(report.Options());
  std::vector<OnComplete> open;
  const auto push_open = [&](Variable* variable, const char* name) {
    std::promise<OnComplete> handle;
    engine->PushAsync([&](RunContext, OnComplete done) { handle.set_value(std::move(done)); }, kCpu,
                      {}, {variable}, {.name = name});
    open.push_back(handle.get_future().get());
  };
  for (int i = 0; i < kOthers; ++i) push_open(engine->NewVariable(), "other");
  Variable *cause = engine->NewVariable("cause"), *result = engine->NewVariable("result");
  push_open(cause, "download");
  engine->PushSync([](RunContext) {}, kCpu, {cause}, {result}, {.name = "unpack"});
  std::thread waiter([&] { engine->WaitForVar(result); });
  const std::string text = report.Await();
  const std::string first = text.substr(0, text.find("pushed "));
  EXPECT_THAT(first, AllOf(HasSubstr("awaited:"), HasSubstr("result"), HasSubstr("unpack"),
                           HasSubstr("which needs its turn on:"), HasSubstr("cause"),
                           HasSubstr("download")));
  EXPECT_THAT(first, Not(HasSubstr("other")));
  for (const OnComplete& done : open) done();
  waiter.join();
}

TEST_P(ThreadedEngineDescribeTest, EveryKindOfWaitThatLastsIsReported) {
  const KindOfWait kinds[] = {
      {"a wait for all operations", [](Engine& engine, Variable*) { engine.WaitForAll(); }},
      {"a wait for all operations", [](Engine& engine, Variable*) { engine.Shutdown(); }},
      {"a push waits for room",
       [](Engine& engine, Variable* variable) {
         for (int i = 0; i < 4; ++i) engine.PushSync([](RunContext) {}, kCpu, {}, {variable});
       }},
      {"a wait inside an operation",
       [](Engine& engine, Variable* variable) {
         engine.PushSync([variable](RunContext context) { context.engine->WaitForVar(variable); },
                         kCpu, {}, {engine.NewVariable()});
       }},
  };
  for (const KindOfWait& kind : kinds) {
    FirstReport report;
    EngineOptions options = report.Options();
    options.max_pending = 4;
    const auto engine = GetParam().Make(options);
    Variable* variable = engine->NewVariable("slow");
    std::promise<OnComplete> handle;
    engine->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {},
                      {variable}, {.name = "download"});
    const OnComplete done = handle.get_future().get();
    std::thread waiter([&] { kind.wait(*engine, variable); });
    EXPECT_THAT(report.Await(),
                AllOf(HasSubstr(kind.reported_as), HasSubstr("has lasted longer than 1 ms"),
                      HasSubstr("slow"), HasSubstr("held for writing by \"download\"")));
    done();
    waiter.join();
    engine->WaitForAll();
  }
}

TEST_P(EngineDescribeTest, AStopThatLastsIsReportedWithWhatStillRuns) {
  FirstReport report;
  const auto engine = GetParam().Make(report.Options());
  Variable* variable = engine->NewVariable("slow");
  std::latch running(1), end(1);
  // In a thread of its own, in which NaiveEngine runs it.
  std::thread pusher([&] {
    engine->PushSync([&](RunContext) { running.count_down(), end.wait(); }, kCpu, {}, {variable},
                     {.name = "compute"});
  });
  running.wait();
  std::thread stopper([&] { engine->Stop(); });
  EXPECT_THAT(report.Await(),
              AllOf(HasSubstr("Stop has lasted longer than 1 ms"), HasSubstr(", stopped: pushed 1"),
                    HasSubstr("slow"), HasSubstr("held for writing by \"compute\"")));
  end.count_down();
  stopper.join();
  pusher.join();
}

TEST_P(ThreadedEngineDescribeTest, ASecondShutdownThatLastsIsReported) {
  FirstReport report("Shutdown");  // the first one's tells what it waits for
  const auto engine = GetParam().Make(report.Options());
  Variable* variable = engine->NewVariable("slow");
  const OnComplete done = PushOpen(*engine, variable);
  std::thread first([&] { engine->Shutdown(); }), second([&] { engine->Shutdown(); });
  EXPECT_THAT(report.Await(),
              AllOf(HasSubstr("Shutdown has lasted longer than 1 ms"), HasSubstr("slow")));
  done();
  first.join();
  second.join();
}

TEST_P(ThreadedEngineDescribeTest, EveryKindOfWaitForADeviceIsReportedWithItsStream) {
  const KindOfWait kinds[] = {
      {"WaitForVar", [](Engine& engine, Variable* variable) { engine.WaitForVar(variable); }},
      {"a wait inside an operation",
       [](Engine& engine, Variable* variable) {
         engine.PushSync([variable](RunContext context) { context.engine->WaitForVar(variable); },
                         kCpu, {}, {engine.NewVariable()});
       }},
      {"a wait for all operations", [](Engine& engine, Variable*) { engine.WaitForAll(); }},
      {"a wait for all operations", [](Engine& engine, Variable*) { engine.Shutdown(); }},
      {"Stop", [](Engine& engine, Variable*) { engine.Stop(); }},
  };
  const std::string issued = "on stream gpu(0) compute: write \"multiply\"";
  SimulatedDevice device;
  for (const KindOfWait& kind : kinds) {
    FirstReport report;
    const auto engine = GetParam().Make(report.Options());
    Variable* variable = engine->NewVariable("weights");
    device.Hold();
    engine->PushSync([](RunContext context) { SimulatedDevice::Enqueue(context.stream, [] {}); },
                     Device::Gpu(0), {}, {variable}, {.name = "multiply"});
    // From there on the host has nothing to do with it.
    while (engine->DebugString().find(issued) == std::string::npos) std::this_thread::yield();
    std::thread waiter([&] { kind.wait(*engine, variable); });
    EXPECT_THAT(report.Await(),
                AllOf(HasSubstr(std::string(kind.reported_as) + " has lasted longer than 1 ms"),
                      HasSubstr("weights"), HasSubstr(issued)));
    device.Resume();
    waiter.join();
  }
}

}  // namespace
}  // namespace tessera
