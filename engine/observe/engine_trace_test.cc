// Traces and their files: see Engine::StopTrace.

#include <chrono>
#include <future>
#include <latch>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tbb/task_arena.h"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/testing/engine_configurations.h"
#include "tessera/engine/testing/simulated_device.h"

namespace tessera {
namespace {

using engine_internal::AllConfigurations;
using engine_internal::ConfigurationName;
using engine_internal::EngineConfigurationTest;
using engine_internal::SimulatedDevice;
using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr Device kCpu = Device::Cpu();

/// The parts of a trace that tests ask for.
struct Trace {
  explicit Trace(const std::string& text) : all(json::parse(text)) {
    for (const json& event : all["traceEvents"]) {
      if (event["name"] == "thread_name") rows[event["tid"]] = event["args"]["name"];
      if (event["ph"] == "X") slices.push_back(event);
    }
  }
  std::vector<json> Slices(const std::string& name) const {
    std::vector<json> found;
    for (const json& slice : slices) {
      if (slice["name"] == name) found.push_back(slice);
    }
    return found;
  }
  /// The name of the slice in the row at that time.
  std::string At(const json& event) const {
    const double time = event["ts"];
    std::string name = "(none)";
    for (const json& slice : slices) {
      const double begin = slice["ts"], duration = slice["dur"];
      if (slice["tid"] == event["tid"] && begin <= time && time <= begin + duration) {
        name = slice["name"];
        if (event["ph"] == "s" && time < begin + duration) break;
      }
    }
    return name;
  }
  /// Arrows as (from, to).
  std::multiset<std::pair<std::string, std::string>> Arrows() const {
    std::map<int, std::string> from;
    std::multiset<std::pair<std::string, std::string>> arrows;
    for (const json& event : all["traceEvents"]) {
      if (event["ph"] == "s") from[event["id"]] = At(event);
      if (event["ph"] == "f") arrows.emplace(from.at(event["id"]), At(event));
    }
    return arrows;
  }

  json all;
  std::map<int, std::string> rows;
  std::vector<json> slices;
};

/// Takes long enough to have a length in the trace.
void Spin() {
  const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(50);
  while (std::chrono::steady_clock::now() < end) {
  }
}

class EngineTraceTest : public EngineConfigurationTest {
 protected:
  void Push(const char* name, VariableList reads, VariableList writes) {
    engine_->PushSync([](RunContext) { Spin(); }, kCpu, reads, writes, {.name = name});
  }
};
INSTANTIATE_TEST_SUITE_P(All, EngineTraceTest, testing::ValuesIn(AllConfigurations()),
                         ConfigurationName);

TEST_P(EngineTraceTest, EachOperationIsASliceInTheRowOfWhoeverRanIt) {
  Variable* variable = New();
  engine_->StartTrace();
  for (int i = 0; i < 50; ++i) Push("step", {}, {variable});
  engine_->WaitForAll();
  const Trace trace(engine_->StopTrace());
  const std::vector<json> steps = trace.Slices("step");
  ASSERT_EQ(steps.size(), 50u);
  for (const json& step : steps) {
    EXPECT_GE(step["dur"].get<double>(), 50.0);
    EXPECT_GE(step["args"]["queued_us"].get<double>(), 0.0);
    EXPECT_THAT(step["args"]["pushed_at"].get<std::string>(), HasSubstr("engine_trace_test.cc:"));
    EXPECT_THAT(trace.rows.at(step["tid"]), HasSubstr(GetParam().threaded() ? "worker" : "thread"));
  }
  EXPECT_THAT(trace.rows, Contains(testing::Pair(0, "worker 0")));
}

TEST_P(EngineTraceTest, EachWorkerHasARowInWhichNothingOverlaps) {
  const int workers = GetParam().threaded() ? GetParam().workers : 1;
  std::latch all(workers);
  engine_->StartTrace();
  for (int i = 0; i < workers; ++i) {
    engine_->PushSync([&](RunContext) { all.arrive_and_wait(); }, Device::Cpu(), {}, {New()},
                      {.name = "meet"});
  }
  for (int i = 0; i < 100; ++i) Push("step", {}, {New()});
  engine_->WaitForAll();
  const Trace trace(engine_->StopTrace());
  std::set<int> rows;
  for (const json& meeting : trace.Slices("meet")) rows.insert(meeting["tid"].get<int>());
  EXPECT_EQ(rows.size(), static_cast<size_t>(workers));
  std::map<int, std::map<double, double>> ends;  // of each row, by when they began
  for (const json& slice : trace.slices) {
    const double begin = slice["ts"].get<double>();
    ends[slice["tid"].get<int>()][begin] = begin + slice["dur"].get<double>();
  }
  for (const auto& [row, slices] : ends) {
    double last_end = 0;
    for (const auto& [begin, end] : slices) {
      EXPECT_GE(begin, last_end - 0.002) << "row " << row;  // printed in thousandths
      last_end = end;
    }
  }
}

TEST_P(EngineTraceTest, TimeInTheQueueEndsWhenTheOperationBegins) {
  Variable* variable = New();
  double behind_for_us = 0;
  engine_->StartTrace();
  engine_->PushSync(
      [&](RunContext context) {
        if (GetParam().threaded()) {
          context.engine->PushSync([](RunContext) {}, Device::Cpu(), {}, {},
                                   {.name = "behind", .updates = {variable}});
        }
        const auto pushed = std::chrono::steady_clock::now();
        Spin();
        behind_for_us =
            std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - pushed)
                .count();
      },
      Device::Cpu(), {}, {variable}, {.name = "slow"});
  engine_->WaitForAll();
  const Trace trace(engine_->StopTrace());
  for (const json& behind : trace.Slices("behind")) {
    EXPECT_GE(behind["args"]["queued_us"].get<double>(), behind_for_us - 0.002);
  }
  EXPECT_EQ(trace.Slices("behind").size(), GetParam().threaded() ? 1u : 0u);
}

TEST_P(EngineTraceTest, ArrowsShowWhatEachOperationHadToComeAfter) {
  Variable *a = New(), *b = New();
  engine_->StartTrace();
  Push("write", {}, {a});
  Push("read one", {a}, {b});
  Push("read two", {a}, {});
  Push("rewrite", {}, {a});
  engine_->PushSync([](RunContext) { Spin(); }, kCpu, {}, {}, {.name = "update", .updates = {a}});
  Push("unrelated", {}, {New()});
  engine_->WaitForAll();
  const Trace trace(engine_->StopTrace());
  using Arrow = std::pair<std::string, std::string>;
  EXPECT_THAT(trace.Arrows(),
              UnorderedElementsAre(Arrow("write", "read one"), Arrow("write", "read two"),
                                   Arrow("read one", "rewrite"), Arrow("read two", "rewrite"),
                                   Arrow("rewrite", "update")));
}

TEST_P(EngineTraceTest, OnlyWhatHappensWhileItIsOnIsRecorded) {
  Variable* variable = New();
  Push("before", {}, {variable});
  engine_->WaitForAll();
  EXPECT_TRUE(Trace(engine_->StopTrace()).slices.empty());
  engine_->StartTrace();
  Push("first", {}, {variable});
  engine_->WaitForAll();
  engine_->StartTrace();  // drops the first
  Push("second", {}, {variable});
  engine_->WaitForAll();
  const Trace trace(engine_->StopTrace());
  ASSERT_EQ(trace.slices.size(), 1u);
  EXPECT_EQ(trace.slices[0]["name"], "second");
  Push("after", {}, {variable});
  engine_->WaitForAll();
  EXPECT_TRUE(Trace(engine_->StopTrace()).slices.empty());
}

TEST_P(EngineTraceTest, SkippedOperationsAndOddNamesAreShown) {
  Variable* variable = New();
  engine_->StartTrace();
  engine_->PushSync([](RunContext) { throw DataLoss("no"); }, kCpu, {}, {variable},
                    {.name = "quote \" slash \\ line \n"});
  engine_->PushSync([](RunContext) {}, kCpu, {variable}, {}, {.name = "skipped"});
  EXPECT_THROW(engine_->WaitForAll(), Error);
  const Trace trace(engine_->StopTrace());
  EXPECT_EQ(trace.Slices("quote \" slash \\ line \n").size(), 1u);
  ASSERT_EQ(trace.Slices("skipped").size(), 1u);
  EXPECT_EQ(trace.Slices("skipped")[0]["args"]["skipped"], true);
}

TEST_P(EngineTraceTest, AnAsyncOperationIsASpanUntilItsCallback) {
  Variable* variable = New();
  engine_->StartTrace();
  std::promise<OnComplete> handle;
  engine_->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {},
                     {variable}, {.name = "download"});
  const OnComplete done = handle.get_future().get();
  Variable* later = New();
  Push("later", {}, {later});
  engine_->WaitForVar(later);
  done();
  engine_->WaitForAll();
  const Trace trace(engine_->StopTrace());
  ASSERT_EQ(trace.Slices("download").size(), 1u);
  std::vector<std::string> phases;
  for (const json& event : trace.all["traceEvents"]) {
    if (event.value("cat", "") == "async") phases.push_back(event["ph"]);
  }
  if (GetParam().workers == 1) {  // where the function has certainly returned before the callback
    EXPECT_THAT(phases, ElementsAre("b", "e"));
  }
}

TEST_P(EngineTraceTest, PushesAndRunsWhileATraceBeginsAndEndsAreSafe) {
  std::vector<Variable*> variables;
  for (int i = 0; i < 4; ++i) variables.push_back(New());
  std::vector<std::thread> pushers;
  for (int t = 0; t < 2; ++t) {
    pushers.emplace_back([&, t] {
      for (int i = 0; i < 500; ++i) {
        engine_->PushSync([](RunContext) {}, kCpu, {variables[t]}, {variables[2 + i % 2]},
                          {.name = "busy"});
      }
    });
  }
  for (int i = 0; i < 20; ++i) {
    engine_->StartTrace();
    EXPECT_TRUE(Trace(engine_->StopTrace()).all.contains("traceEvents"));
  }
  for (std::thread& pusher : pushers) pusher.join();
  engine_->WaitForAll();
}

TEST_P(EngineTraceTest, NamesMayBeAnyBytes) {
  engine_->StartTrace();
  Push("caf\xC3\xA9 \xE2\x82\xAC", {}, {});
  Push("\xFF\xC3 \xED\xA0\x80 \xC0\x80", {}, {});
  engine_->WaitForAll();
  const Trace trace(engine_->StopTrace());
  EXPECT_EQ(trace.Slices("caf\xC3\xA9 \xE2\x82\xAC").size(), 1u);
  const std::string replaced = "\xEF\xBF\xBD";
  EXPECT_EQ(trace
                .Slices(replaced + replaced + " " + replaced + replaced + replaced + " " +
                        replaced + replaced)
                .size(),
            1u);
}

TEST(DeviceTraceTest, ATraceThatBeginsAgainHasTimesOfItsOwn) {
  SimulatedDevice device;
  const auto engine = Engine::Create({.kind = EngineKind::kThreaded, .workers = 1});
  Variable *data = engine->NewVariable(), *host = engine->NewVariable();
  engine->StartTrace();
  device.Hold();
  std::latch issued(1);
  engine->PushSync(
      [&](RunContext context) {
        SimulatedDevice::Enqueue(context.stream, Spin);
        issued.count_down();
      },
      Device::Gpu(0), {}, {data}, {.name = "upload"});
  std::promise<OnComplete> handle;
  engine->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {}, {host},
                    {.name = "download"});
  issued.wait();
  // The one worker has begun the download, so it is done with issuing the upload.
  const OnComplete done = handle.get_future().get();
  Spin();  // both began clearly before the second trace
  engine->StartTrace();
  device.Resume();
  done();
  engine->WaitForAll();
  const Trace trace(engine->StopTrace());
  for (const json& slice : trace.slices) {
    EXPECT_GE(slice["ts"].get<double>(), 0.0) << slice;
    EXPECT_GE(slice["dur"].get<double>(), 0.0) << slice;
  }
  EXPECT_EQ(trace.Slices("upload").size(), 1u) << "what the device did, which ended in this trace";
  EXPECT_EQ(trace.Slices("download").size(), 0u);
}

TEST(DeviceTraceTest, EachStreamHasARowWithWhatTheDeviceDid) {
  SimulatedDevice device;
  const auto engine = Engine::Create({.kind = EngineKind::kThreaded, .workers = 2});
  Variable *data = engine->NewVariable(), *result = engine->NewVariable();
  engine->StartTrace();
  const auto push = [&](const char* name, FnProperty property, VariableList reads,
                        VariableList writes) {
    engine->PushSync([](RunContext context) { SimulatedDevice::Enqueue(context.stream, Spin); },
                     Device::Gpu(0), reads, writes, {.property = property, .name = name});
  };
  push("upload", FnProperty::kCopyToGpu, {}, {data});
  push("multiply", FnProperty::kNormal, {data}, {result});
  push("download", FnProperty::kCopyFromGpu, {result}, {});
  engine->WaitForAll();
  const Trace trace(engine->StopTrace());
  std::map<std::string, std::string> row_of;
  for (const json& slice : trace.slices) {
    const std::string row = trace.rows.at(slice["tid"]);
    if (row.starts_with("stream")) row_of[slice["name"]] = row;
  }
  EXPECT_EQ(row_of, (std::map<std::string, std::string>{{"upload", "stream gpu(0) copy-in"},
                                                        {"multiply", "stream gpu(0) compute"},
                                                        {"download", "stream gpu(0) copy-out"}}));
  EXPECT_EQ(trace.slices.size(), 6u) << "a call on the host and the work on the stream for each";
}

}  // namespace
}  // namespace tessera
