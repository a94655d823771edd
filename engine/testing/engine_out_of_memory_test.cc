// Operations, errors and traces without memory, one allocation after another, on NaiveEngine: in
// the thread that pushes, which alone is short of it.

#include <cstdint>
#include <functional>
#include <limits>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/observe/trace_recorder.h"
#include "tessera/tools/testing/counted_new.h"

namespace tessera {
namespace {

using engine_internal::TracedEnd;
using engine_internal::TracedPush;
using engine_internal::TracedRun;
using engine_internal::TraceEvents;
using engine_internal::TraceRecorder;

constexpr Device kCpu = Device::Cpu();

// An allocation that fails at an operation's turn fails the operation as its function would.
TEST(AsyncMemoryTest, AnAsynchronousOperationThatFindsNoMemoryFails) {
  bool failed = true;
  int errors = 0;
  for (int64_t call = 0; failed; ++call) {
    const auto engine = Engine::Create({.kind = EngineKind::kNaive});
    Variable* const variable = engine->NewVariable();
    engine->PushSync([](RunContext) {}, kCpu, {}, {variable});  // a record for the pool
    int runs = 0, refused = 0;
    {
      const FailingNew failing(call);
      try {
        engine->PushAsync([&](RunContext, OnComplete done) { ++runs, done(); }, kCpu, {},
                          {variable});
      } catch (const std::bad_alloc&) {
        ++refused;
      }
      failed = failing.has_failed();
    }
    int error = 0;
    try {
      engine->WaitForVar(variable);  // would not end if it were lost
    } catch (const std::bad_alloc&) {
      ++error;
    }
    EXPECT_EQ(runs + refused + error, 1) << "allocation " << call;
    EXPECT_EQ(engine->counters().pending, 0u) << "allocation " << call;
    errors += error;
  }
  EXPECT_GT(errors, 0);
}

// Records are made many at a time, so that one which is lost does not show.
TEST(RecordMemoryTest, WhatFindsNoMemoryLeavesNoRecordBehind) {
  const auto engine = Engine::Create({.kind = EngineKind::kNaive});
  std::vector<Variable*> variables;
  for (int i = 0; i < 40; ++i) variables.push_back(engine->NewVariable());  // more than one holds
  EngineOperator* const op = engine->NewOperator([](RunContext) {}, variables, {});
  const std::string name(1000, 'n');
  struct Case {
    const char* name;
    std::function<void()> failing, succeeding;
  };
  const Case cases[] = {
      {"Push", [&] { engine->Push(op, kCpu); }, [&] { engine->Push(op, kCpu); }},
      {"NewVariable", [&] { engine->NewVariable(name); },
       [&] { engine->DeleteVariable(engine->NewVariable()); }},
  };
  for (const Case& each : cases) {
    int64_t before = 0;
    for (int i = 0; i < 1000; ++i) {
      {
        const FailingNew failing(0);
        EXPECT_THROW(each.failing(), std::bad_alloc) << each.name;
      }
      each.succeeding();
      if (i == 0) before = OutstandingNews();
    }
    EXPECT_EQ(OutstandingNews(), before) << each.name;
  }
  engine->DeleteOperator(op);
}

TEST(ErrorMemoryDeathTest, AnErrorThatFindsNoMemoryEndsTheProcessWithALine) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto fail = [] {
    const auto engine = Engine::Create({.kind = EngineKind::kNaive});
    engine->PushSync(
        [](RunContext) {
          static const FailingNew failing(0, /*failures=*/1000);
          throw 1;
        },
        kCpu, {}, {});
  };
  EXPECT_DEATH(fail(), "tessera engine: no memory");
}

TEST(TraceMemoryTest, EventsForWhichThereIsNoMemoryAreCounted) {
  const std::string name(100, 'n');
  bool failed = true;
  for (int64_t call = 0; failed; ++call) {
    // No engine has come as far as that.
    TraceRecorder recorder(std::numeric_limits<uint64_t>::max() - static_cast<uint64_t>(call));
    recorder.Start();
    const int64_t now = recorder.Now();
    TracedPush push{.sequence = 1, .time_ns = now, .name = name};
    {
      const FailingNew failing(call);
      recorder.Add(std::move(push));
      recorder.Add(TracedRun{.sequence = 1, .begin_ns = now, .end_ns = now}, name, /*worker=*/0);
      recorder.Add(TracedEnd{.sequence = 1, .end_ns = now}, name);
      failed = failing.has_failed();
    }
    const TraceEvents events = recorder.Stop();
    EXPECT_EQ(events.dropped, failed ? 1u : 0u) << "allocation " << call;
    EXPECT_EQ(events.pushes.size() + events.runs.size() + events.ends.size(), 3 - events.dropped);
    for (const TracedRun& run : events.runs) EXPECT_EQ(run.name, name);
    for (const TracedEnd& end : events.ends) EXPECT_EQ(end.name, name);
  }
}

}  // namespace
}  // namespace tessera
