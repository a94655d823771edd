// What becomes of operations, errors and traces where there is no memory, one allocation after
// another, on NaiveEngine: in the thread that pushes, which alone is short of it.

#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/engine/core/failure.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/observe/trace_recorder.h"
#include "tessera/engine/testing/engine_configurations.h"
#include "tessera/tools/testing/counted_new.h"

namespace tessera {
namespace {

using engine_internal::ClaimReport;
using engine_internal::FailureLog;
using engine_internal::FailureRef;
using engine_internal::PushOpen;
using engine_internal::TracedEnd;
using engine_internal::TracedPush;
using engine_internal::TracedRun;
using engine_internal::TraceEvents;
using engine_internal::TraceRecorder;

constexpr Device kCpu = Device::Cpu();

// What is missing when its turn has come fails it as if its function had.
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

// The destructor of the last handle finds it out, and has nobody to throw to.
TEST(AsyncMemoryTest, ALostCompletionIsAnErrorThoughThereIsNoMemoryToSaySo) {
  bool failed = true;
  for (int64_t call = 0; failed; ++call) {
    const auto engine = Engine::Create({.kind = EngineKind::kNaive});
    Variable* const variable = engine->NewVariable();
    std::optional<OnComplete> open = PushOpen(*engine, variable);
    {
      const FailingNew failing(call, /*failures=*/1000);
      open.reset();
      failed = failing.has_failed();
    }
    EXPECT_ANY_THROW(engine->WaitForVar(variable)) << "allocation " << call;
    EXPECT_EQ(engine->counters().pending, 0u) << "allocation " << call;
  }
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

// The marks that it replaces cannot be kept until the end: they are destroyed at once, where no
// lock is held.
TEST(AsyncMemoryTest, ACompletionInsideTheFunctionUnmarksWithoutMemory) {
  const auto engine = Engine::Create({.kind = EngineKind::kNaive});
  std::vector<Variable*> variables;
  for (int i = 0; i < 3; ++i) variables.push_back(engine->NewVariable());
  for (Variable* const variable : variables) {
    engine->PushSync([](RunContext) { throw 1; }, kCpu, {}, {variable});
  }
  bool failed = false;
  engine->PushAsync(
      [&](RunContext, OnComplete done) {
        const FailingNew failing(0, /*failures=*/1000);
        done();
        failed = failing.has_failed();
      },
      kCpu, {}, variables);
  EXPECT_TRUE(failed);
  for (Variable* const variable : variables) EXPECT_NO_THROW(engine->WaitForVar(variable));
}

TEST(ErrorMemoryTest, WhatAnOperationThrowsIsKeptWhereThereIsNoMemoryToNoteIt) {
  const std::string name(100, 'n');
  bool failed = true;
  for (int64_t call = 0; failed; ++call) {
    const auto engine = Engine::Create({.kind = EngineKind::kNaive});
    Variable *const bad = engine->NewVariable(), *const next = engine->NewVariable();
    int refused = 0;
    const auto push = [&](VariableList reads, VariableList writes) {
      try {
        engine->PushSync([](RunContext) { throw 1; }, kCpu, reads, writes, {.name = name});
      } catch (const std::bad_alloc&) {
        ++refused;
      }
    };
    push({}, {bad});  // a record for the pool
    EXPECT_THROW(engine->WaitForVar(bad), int);
    {
      const FailingNew failing(call);
      push({bad}, {next});  // skipped, and nobody has been told that it would be
      push({}, {bad});
      failed = failing.has_failed();
    }
    ASSERT_EQ(engine->counters().pending, 0u) << "allocation " << call;
    const int chains = static_cast<int>(engine->counters().pushed) - 1;
    EXPECT_EQ(chains + refused, 2) << "allocation " << call;
    for (int i = 0; i < chains; ++i) {
      EXPECT_THROW(engine->WaitForAll(), int) << "allocation " << call;
    }
    EXPECT_NO_THROW(engine->WaitForAll()) << "allocation " << call;
  }
}

TEST(ErrorMemoryTest, AChainWithoutMemoryAndReserveJoinsTheOneThatHasIt) {
  const std::string name(100, 'n');
  const auto number = [](const std::exception_ptr& error) {
    try {
      std::rethrow_exception(error);
    } catch (int thrown) {
      return thrown;
    }
  };
  std::vector<std::exception_ptr> errors;
  for (int i = 0; i < 20; ++i) errors.push_back(std::make_exception_ptr(i));
  FailureLog log;
  FailureRef first;
  {
    const FailingNew failing(0, /*failures=*/1000);
    first = log.Begin(errors[0], name, {}, /*sequence=*/1);
    EXPECT_TRUE(ClaimReport(*first, 1));
    // More than there is room for.
    for (size_t i = 1; i < errors.size(); ++i) {
      const FailureRef joined = log.Begin(errors[i], name, {}, /*sequence=*/1 + i);
      EXPECT_EQ(joined, first);
      EXPECT_EQ(joined->reported_at, 0u) << "somebody hears of it";
    }
  }
  EXPECT_EQ(number(first->error), 0);
  EXPECT_EQ(first->name, name.substr(0, 64));
  const FailureRef second = log.Begin(errors[1], name, {}, /*sequence=*/21);
  EXPECT_NE(second, first);
  {
    const FailingNew failing(0);
    const FailureRef third = log.Begin(errors[2], name, {}, /*sequence=*/22);
    EXPECT_NE(third, first) << "there is a reserve again";
    EXPECT_EQ(number(third->error), 2);
  }
  EXPECT_EQ(number(log.ReportOldest(1)->error), 0);
  EXPECT_EQ(number(log.ReportOldest(1)->error), 1);
  EXPECT_EQ(number(log.ReportOldest(1)->error), 2);
  EXPECT_THROW(std::rethrow_exception(log.ReportOldest(1)->error), Error) << "for the lack of room";
  EXPECT_EQ(log.ReportOldest(1), nullptr);
}

TEST(ErrorMemoryTest, AReportThatFindsNoMemoryIsThereAtTheNextCall) {
  const auto error = std::make_exception_ptr(1);
  bool failed = true;
  const auto reports = [&](int64_t call) {
    FailureLog log;
    {
      const FailingNew failing(0, /*failures=*/1000);
      for (uint64_t i = 1; i <= 20; ++i) log.Begin(error, "operation", {}, i);  // too many to keep
    }
    failed = false;
    for (int count = 0;; ++count) {
      FailureRef report;
      try {
        const FailingNew failing(call);
        report = log.ReportOldest(1);
        failed |= failing.has_failed();
      } catch (const std::bad_alloc&) {
        failed = true;
        report = log.ReportOldest(1);
      }
      if (report == nullptr) return count;
    }
  };
  const int all = reports(/*call=*/1000);
  failed = true;
  for (int64_t call = 0; failed; ++call) EXPECT_EQ(reports(call), all) << "allocation " << call;
}

TEST(ErrorMemoryTest, AChainThatIsReportedGivesItsReserveUp) {
  const auto error = std::make_exception_ptr(1);
  FailureLog log;
  const auto begin_without_memory = [&](uint64_t sequence) {
    const FailingNew failing(0, /*failures=*/1000);
    return log.Begin(error, "operation", {}, sequence);
  };
  const FailureRef first = begin_without_memory(1);
  EXPECT_EQ(log.ReportOldest(1), first);
  log.Renew();
  const FailureRef second = begin_without_memory(2);
  EXPECT_NE(second, first);
  EXPECT_TRUE(first->cleared);
  EXPECT_EQ(log.ReportOldest(2), second);
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

TEST(TraceMemoryTest, AnOperationWhoseTraceFindsNoMemoryRunsAllTheSame) {
  const std::string name(100, 'n');
  bool failed = true;
  for (int64_t call = 0; failed; ++call) {
    const auto engine = Engine::Create({.kind = EngineKind::kNaive});
    Variable *const variable = engine->NewVariable(), *const bad = engine->NewVariable();
    // Both records come from a pool that has some.
    engine->PushSync([](RunContext) { throw 1; }, kCpu, {}, {bad});
    engine->StartTrace();
    int runs = 0, refused = 0;
    {
      const FailingNew failing(call);
      for (Variable* const read : {variable, bad}) {  // the second is skipped
        try {
          engine->PushSync([&runs](RunContext) { ++runs; }, kCpu, {read}, {}, {.name = name});
        } catch (const std::bad_alloc&) {
          ++refused;
        }
      }
      failed = failing.has_failed();
    }
    const EngineCounters counters = engine->counters();
    EXPECT_EQ(counters.pending, 0u) << "allocation " << call;
    EXPECT_EQ(counters.pushed, 3u - static_cast<uint64_t>(refused)) << "allocation " << call;
    EXPECT_EQ(counters.run, static_cast<uint64_t>(1 + runs)) << "allocation " << call;
    EXPECT_LE(refused, failed ? 1 : 0) << "allocation " << call;
    const bool recorded = engine->StopTrace().find("\"dropped_events\":0}") != std::string::npos;
    EXPECT_EQ(recorded, !failed || refused > 0) << "allocation " << call;
    EXPECT_THROW(engine->WaitForAll(), int) << "the one that was to fail";
    EXPECT_NO_THROW(engine->WaitForAll());
  }
}

}  // namespace
}  // namespace tessera
