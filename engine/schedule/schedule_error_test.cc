// Errors in recordings and replays: see schedule.h.

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/schedule.h"
#include "tessera/engine/testing/engine_configurations.h"
#include "tessera/engine/testing/schedule_fixture.h"

namespace tessera {
namespace {

using engine_internal::MessageWith;
using engine_internal::ScheduleFixture;
using testing::AllOf;
using testing::HasSubstr;

constexpr Device kCpu = Device::Cpu();

class ScheduleErrorTest : public ScheduleFixture {};
INSTANTIATE_TEST_SUITE_P(All, ScheduleErrorTest,
                         testing::ValuesIn(engine_internal::AllConfigurations()),
                         engine_internal::ConfigurationName);

/// Engines that replay a schedule as a whole; NaiveEngine pushes its operations one by one.
class ThreadedScheduleErrorTest : public ScheduleFixture {};
INSTANTIATE_TEST_SUITE_P(All, ThreadedScheduleErrorTest,
                         testing::ValuesIn(engine_internal::ThreadedConfigurations()),
                         engine_internal::ConfigurationName);

TEST_P(ScheduleErrorTest, AReplayThatThrewLeavesNothingToTheNext) {
  Variable* const a = New();
  Variable* const b = New();
  Variable* const deleted = engine_->NewVariable("gone");
  int count = 0;
  const auto schedule = engine_->Record([&] {
    Push([&] { ++count; }, {}, {a}, {.priority = 1});
    Push([&] { ++count; }, {a}, {b});
  });
  engine_->DeleteVariable(deleted);
  const VariableBinding bound[] = {{.recorded = b, .actual = deleted}};
  EXPECT_THAT(MessageWith(Error::kInvalidArgument, [&] { schedule->Replay({.variables = bound}); }),
              AllOf(HasSubstr("gone"), HasSubstr("deleted")));
  engine_->WaitForAll();
  EXPECT_EQ(count, 0);
  schedule->Replay();
  engine_->WaitForAll();
  EXPECT_EQ(count, 2);
}

TEST_P(ScheduleErrorTest, AnErrorSkipsWhatReadsItAndIsReportedOnceAtItsName) {
  Variable* const a = New("a");
  Variable* const b = New("b");
  Variable* const c = New("c");
  bool fail = true;
  int from_a = 0, from_c = 0;
  const auto schedule = engine_->Record([&] {
    Push(
        [&] {
          if (fail) throw DataLoss("bad block");
        },
        {}, {a}, {.name = "load"});
    Push([&] { ++from_a; }, {a}, {b}, {.name = "use"});
    Push([&] { ++from_c; }, {}, {c}, {.name = "other"});
  });
  schedule->Replay();
  engine_->WaitForVar(c);
  EXPECT_EQ(from_c, 1);
  EXPECT_THAT(MessageWith(Error::kDataLoss, [&] { engine_->WaitForVar(b); }),
              AllOf(HasSubstr("bad block"), HasSubstr("load"), HasSubstr("schedule_fixture.h")));
  engine_->WaitForVar(a);  // one report for the chain
  engine_->WaitForAll();
  EXPECT_EQ(from_a, 0);
  EXPECT_EQ(engine_->counters().skipped, 1u);

  fail = false;
  schedule->Replay();
  engine_->WaitForAll();
  EXPECT_EQ(from_a, 1);
  EXPECT_EQ(from_c, 2);
}

TEST_P(ScheduleErrorTest, AnErrorFromBeforeSkipsWhatReadsItUnlessItIsWrittenFirst) {
  Variable* const a = New("a");
  Variable* const b = New("b");
  int reads = 0, writes = 0;
  const auto reader = engine_->Record([&] { Push([&] { ++reads; }, {a}, {b}); });
  const auto writer = engine_->Record([&] {
    Push([&] { ++writes; }, {}, {a});
    Push([&] { ++reads; }, {a}, {b});
  });
  Push([] { throw DataLoss("bad block"); }, {}, {a});
  reader->Replay();
  EXPECT_THAT(MessageWith(Error::kDataLoss, [&] { engine_->WaitForVar(b); }),
              HasSubstr("bad block"));
  EXPECT_EQ(reads, 0);
  reader->Replay();  // was not told of: reported once more
  EXPECT_THAT(MessageWith(Error::kDataLoss, [&] { engine_->WaitForVar(b); }),
              HasSubstr("bad block"));
  writer->Replay();
  engine_->WaitForAll();
  EXPECT_EQ(writes, 1);
  EXPECT_EQ(reads, 1);
}

TEST_P(ScheduleErrorTest, NoSkipRunsOnMarkedInputs) {
  Variable* const a = New();
  Variable* const b = New();
  bool ran = false;
  const auto schedule = engine_->Record([&] {
    Push([] { throw DataLoss("bad block"); }, {}, {a});
    Push([&] { ran = true; }, {a}, {b}, {.property = FnProperty::kNoSkip});
  });
  schedule->Replay();
  engine_->WaitForVar(b);
  EXPECT_TRUE(ran);
  MessageWith(Error::kDataLoss, [&] { engine_->WaitForAll(); });
}

TEST_P(ScheduleErrorTest, AnAsynchronousFailureMarksWhatItWrites) {
  Variable* const a = New();
  Variable* const b = New();
  bool ran = false;
  const auto schedule = engine_->Record([&] {
    engine_->PushAsync(
        [](RunContext, OnComplete done) { done(std::make_exception_ptr(DataLoss("late"))); }, kCpu,
        {}, {a});
    Push([&] { ran = true; }, {a}, {b});
  });
  schedule->Replay();
  EXPECT_THAT(MessageWith(Error::kDataLoss, [&] { engine_->WaitForVar(b); }), HasSubstr("late"));
  EXPECT_FALSE(ran);
}

TEST_P(ThreadedScheduleErrorTest, AWaitInsideForWhatTheScheduleUsesThrows) {
  Variable* const a = New("a");
  Variable* const b = New("b");
  std::string message;
  const auto schedule = engine_->Record([&] {
    Push([] {}, {}, {a});
    Push(
        [&] {
          // Behind the replay, on its own variable: it needs this operation to end.
          Push([] {}, {}, {a});
          message = MessageWith(Error::kFailedPrecondition, [&] { engine_->WaitForVar(a); });
        },
        {}, {b}, {.name = "waits"});
  });
  schedule->Replay();
  engine_->WaitForAll();
  EXPECT_THAT(message, AllOf(HasSubstr("waits"), HasSubstr("\"a\"")));
}

TEST_P(ScheduleErrorTest, AReplayOnADeletedVariableIsAnError) {
  Variable* const a = engine_->NewVariable("gone");
  int count = 0;
  const auto schedule = engine_->Record([&] { Push([&] { ++count; }, {}, {a}); });
  schedule->Replay();
  engine_->DeleteVariable(a);  // after the replay
  engine_->WaitForAll();
  EXPECT_EQ(count, 1);
  EXPECT_THAT(MessageWith(Error::kInvalidArgument, [&] { schedule->Replay(); }),
              AllOf(HasSubstr("gone"), HasSubstr("deleted")));
  // Its memory may be that of a new one by now.
  std::vector<Variable*> others;
  for (int i = 0; i < 200; ++i) others.push_back(engine_->NewVariable());
  EXPECT_THAT(MessageWith(Error::kInvalidArgument, [&] { schedule->Replay(); }), HasSubstr("gone"));
  for (Variable* other : others) engine_->DeleteVariable(other);
  engine_->WaitForAll();
  EXPECT_EQ(count, 1);
}

TEST_P(ScheduleErrorTest, ARecordingHasNoPlaceForWaits) {
  Variable* const a = New();
  const auto nothing = engine_->Record([] {});
  nothing->Replay();
  EXPECT_EQ(nothing->size(), 0u);
  for (const auto& call : std::vector<std::function<void()>>{
           [&] { engine_->WaitForVar(a); }, [&] { engine_->WaitForAll(); },
           [&] { nothing->Replay(); }, [&] { engine_->Record([] {}); }}) {
    EXPECT_THAT(MessageWith(Error::kFailedPrecondition, [&] { engine_->Record(call); }),
                HasSubstr("records a schedule"));
  }
  bool ran = false;
  Push([&] { ran = true; }, {}, {a});
  engine_->WaitForVar(a);
  EXPECT_TRUE(ran) << "the thread still records";
}

TEST_P(ScheduleErrorTest, ARecordingThatThrowsLeavesNothing) {
  bool ran = false;
  EXPECT_THROW(engine_->Record([&] {
    Variable* const temporary = engine_->NewVariable();
    Push([&] { ran = true; }, {}, {temporary});
    engine_->DeleteVariable(temporary);
    throw std::runtime_error("no");
  }),
               std::runtime_error);
  engine_->WaitForAll();
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace tessera
