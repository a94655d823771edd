// The promises of an engine about errors in operations: see "Errors" in engine.h.

#include <atomic>
#include <exception>
#include <future>
#include <memory>
#include <new>
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

namespace tessera {
namespace {

using engine_internal::AllConfigurations;
using engine_internal::ConfigurationName;
using engine_internal::EngineConfigurationTest;
using engine_internal::MessageOf;
using engine_internal::ParallelFor;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr Device kCpu = Device::Cpu();

/// An exception of a user's, with more in it than text.
struct DiskFull : std::runtime_error {
  explicit DiskFull(int disk_in) : std::runtime_error("disk full"), disk(disk_in) {}
  int disk;
};

class EngineErrorTest : public EngineConfigurationTest {
 protected:
  void PushWrite(Variable* variable) {
    engine_->PushSync([](RunContext) {}, kCpu, {}, {variable}, {.name = "write"});
  }
  void PushFailure(VariableList reads, VariableList writes, std::string text = "bad") {
    engine_->PushSync([text](RunContext) { throw DataLoss(text); }, kCpu, reads, writes,
                      {.name = "failing"});
  }
  /// Pushes an operation that counts its runs.
  void PushCounted(VariableList reads, VariableList writes,
                   FnProperty property = FnProperty::kNormal) {
    engine_->PushSync([this](RunContext) { ++runs_; }, kCpu, reads, writes,
                      {.property = property, .name = "counted"});
  }
  /// Pushes an operation that counts its runs and reads and writes `sum` in place.
  void PushUpdate(VariableList reads, Variable* sum) {
    engine_->PushSync([this](RunContext) { ++runs_; }, kCpu, reads, {},
                      {.name = "update", .updates = {sum}});
  }
  std::string WaitMessage(Variable* variable) {
    return MessageOf([&] { engine_->WaitForVar(variable); });
  }
  std::string WaitForAllMessage() {
    return MessageOf([&] { engine_->WaitForAll(); });
  }

  std::atomic<int> runs_{0};
};
INSTANTIATE_TEST_SUITE_P(All, EngineErrorTest, testing::ValuesIn(AllConfigurations()),
                         ConfigurationName);

TEST_P(EngineErrorTest, AWaitRethrowsWithOperationAndPushSiteAndTheSameCode) {
  Variable* variable = New();
  const int line = __LINE__ + 1;
  engine_->PushSync([](RunContext) { throw DataLoss("bad block"); }, kCpu, {}, {variable},
                    {.name = "load"});
  try {
    engine_->WaitForVar(variable);
    FAIL() << "expected the error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kDataLoss);
    EXPECT_THAT(error.what(), AllOf(StartsWith("bad block"), HasSubstr("\"load\""),
                                    HasSubstr("engine_error_test.cc:" + std::to_string(line))));
  }
  const auto failure = Engine::LastFailure();
  ASSERT_TRUE(failure.has_value());
  EXPECT_EQ(failure->name, "load");
  EXPECT_EQ(failure->pushed_at.line(), static_cast<unsigned>(line));
}

TEST_P(EngineErrorTest, ExceptionsKeepTheirType) {
  Variable* variable = New();
  const auto push_throwing = [&](auto exception) {
    engine_->PushSync([exception](RunContext) { throw exception; }, kCpu, {}, {variable},
                      {.name = "typed"});
  };
  push_throwing(std::out_of_range("index 7"));
  try {
    engine_->WaitForVar(variable);
    FAIL();
  } catch (const std::out_of_range& error) {
    EXPECT_THAT(error.what(), AllOf(StartsWith("index 7"), HasSubstr("typed")));
  }
  push_throwing(std::bad_alloc());
  EXPECT_THROW(engine_->WaitForVar(variable), std::bad_alloc);
  push_throwing(42);
  EXPECT_THROW(engine_->WaitForVar(variable), int);
  push_throwing(DiskFull(3));
  try {
    engine_->WaitForVar(variable);
    FAIL();
  } catch (const DiskFull& error) {
    EXPECT_EQ(error.disk, 3);
    EXPECT_STREQ(error.what(), "disk full");
    EXPECT_EQ(Engine::LastFailure()->name, "typed");
  }
}

TEST_P(EngineErrorTest, DependentsAreSkippedAndCarryTheError) {
  Variable *a = New(), *b = New(), *c = New(), *unrelated = New();
  PushFailure({}, {a}, "origin");
  PushCounted({a}, {b});
  PushCounted({b}, {c});
  PushCounted({}, {unrelated});
  engine_->WaitForVar(unrelated);
  try {
    engine_->WaitForVar(c);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(StartsWith("origin"), HasSubstr("\"failing\"")));
  }
  EXPECT_EQ(runs_, 1);
}

TEST_P(EngineErrorTest, AChainIsReportedOnceWhicheverVariableIsWaitedFor) {
  for (int first = 0; first < 3; ++first) {
    Variable* chain[] = {New(), New(), New()};
    PushFailure({}, {chain[0]});
    PushCounted({chain[0]}, {chain[1]});
    PushCounted({chain[1]}, {chain[2]});
    EXPECT_THROW(engine_->WaitForVar(chain[first]), Error);
    for (Variable* variable : chain) EXPECT_NO_THROW(engine_->WaitForVar(variable));
    EXPECT_NO_THROW(engine_->WaitForAll());
  }
}

TEST_P(EngineErrorTest, SeparateFailuresAreSeparateChains) {
  Variable *a = New(), *b = New();
  PushFailure({}, {a}, "first");
  PushFailure({}, {b}, "second");
  EXPECT_THROW(engine_->WaitForVar(b), Error);
  EXPECT_THROW(engine_->WaitForVar(a), Error);
  EXPECT_NO_THROW(engine_->WaitForAll());
}

TEST_P(EngineErrorTest, OfTwoBadInputsTheEarlierFailureIsInherited) {
  Variable *a = New(), *b = New(), *c = New();
  PushFailure({}, {b}, "early");
  PushFailure({}, {a}, "late");
  PushCounted({a, b}, {c});
  try {
    engine_->WaitForVar(c);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), StartsWith("early"));
  }
  EXPECT_THROW(engine_->WaitForVar(a), Error);
}

TEST_P(EngineErrorTest, AFreshWriteClearsAVariable) {
  Variable *a = New(), *b = New();
  PushFailure({}, {a, b});
  PushWrite(a);
  PushCounted({a}, {});
  EXPECT_NO_THROW(engine_->WaitForVar(a));
  EXPECT_THROW(engine_->WaitForVar(b), Error);
  EXPECT_NO_THROW(engine_->WaitForAll());
  EXPECT_EQ(runs_, 1);
}

TEST_P(EngineErrorTest, AnUpdateTakesOnTheErrorThatItsVariableCarries) {
  Variable *sum = New(), *read = New();
  PushFailure({}, {sum}, "origin");
  PushUpdate({}, sum);  // what would be added to was never computed
  PushUpdate({read}, sum);
  EXPECT_THAT(WaitMessage(sum), StartsWith("origin"));
  EXPECT_EQ(WaitMessage(sum), "") << "one chain";
  EXPECT_EQ(runs_, 0);
  PushUpdate({}, sum);
  EXPECT_THAT(WaitMessage(sum), StartsWith("origin")) << "pushed after the report";
  PushWrite(sum);
  PushUpdate({read}, sum);
  EXPECT_EQ(WaitMessage(sum), "");
  EXPECT_EQ(runs_, 1);
}

TEST_P(EngineErrorTest, AFailedUpdateMarksItsVariableAndAnUpdateInheritsFromItsReads) {
  Variable *input = New(), *sum = New(), *other = New();
  PushFailure({}, {input}, "input");
  PushUpdate({input}, sum);
  EXPECT_THAT(WaitMessage(sum), StartsWith("input"));
  engine_->PushSync([](RunContext) { throw DataLoss("in place"); }, kCpu, {}, {},
                    {.name = "failing", .updates = {other}});
  EXPECT_THAT(WaitMessage(other), StartsWith("in place"));
  EXPECT_EQ(runs_, 0);
}

TEST_P(EngineErrorTest, AnOperatorsUpdatesTakeOnErrorsToo) {
  Variable* sum = New();
  Opr* op = engine_->NewOperator([this](RunContext) { ++runs_; }, {}, {}, {.updates = {sum}});
  engine_->Push(op, kCpu);
  PushFailure({}, {sum}, "origin");
  engine_->Push(op, kCpu);
  engine_->DeleteOperator(op);
  EXPECT_THAT(WaitMessage(sum), StartsWith("origin"));
  EXPECT_EQ(runs_, 1);
}

TEST_P(EngineErrorTest, WhatIsPushedAfterTheReportIsSkippedAndReportedAgain) {
  Variable *a = New(), *b = New(), *c = New();
  PushFailure({}, {a}, "origin");
  EXPECT_THROW(engine_->WaitForVar(a), Error);
  PushCounted({a}, {b});
  PushCounted({b}, {c});
  EXPECT_THROW(engine_->WaitForVar(c), Error) << "its value was never computed";
  EXPECT_NO_THROW(engine_->WaitForVar(b));
  EXPECT_EQ(runs_, 0);
}

TEST_P(EngineErrorTest, WaitForAllReportsEachChainOnceOldestFirstThenUnmarksAll) {
  Variable *a = New(), *b = New(), *c = New();
  PushFailure({}, {a}, "one");
  PushFailure({}, {b}, "two");
  PushFailure({}, {c}, "three");
  EXPECT_THROW(engine_->WaitForVar(b), Error);
  EXPECT_THAT(WaitForAllMessage(), StartsWith("one"));
  EXPECT_THAT(WaitForAllMessage(), StartsWith("three"));
  EXPECT_EQ(WaitForAllMessage(), "");
  PushCounted({a, b, c}, {});
  EXPECT_EQ(WaitForAllMessage(), "");
  EXPECT_EQ(runs_, 1) << "all marks are gone";
}

TEST_P(EngineErrorTest, WaitForAllFindsErrorsThatNoVariableHolds) {
  Variable *overwritten = New(), *deleted = New(), *read = New();
  PushFailure({}, {overwritten}, "one");
  PushWrite(overwritten);
  PushFailure({}, {deleted}, "two");
  engine_->DeleteVariable(deleted);
  PushFailure({read}, {}, "three");
  EXPECT_THAT(WaitForAllMessage(), StartsWith("one"));
  EXPECT_THAT(WaitForAllMessage(), StartsWith("two"));
  EXPECT_THAT(WaitForAllMessage(), StartsWith("three"));
  EXPECT_EQ(WaitForAllMessage(), "");
}

TEST_P(EngineErrorTest, ThrowReportsWithoutWaiting) {
  Variable *a = New(), *b = New();
  PushFailure({}, {a});
  PushCounted({a}, {b});
  while (engine_->counters().pending > 0) std::this_thread::yield();
  EXPECT_THROW(engine_->Throw(b), Error);
  EXPECT_NO_THROW(engine_->Throw(a));
  EXPECT_NO_THROW(engine_->Throw(b));
}

TEST_P(EngineErrorTest, NoSkipRunsAndDoesNotInherit) {
  Variable *a = New(), *b = New();
  PushFailure({}, {a});
  PushCounted({a}, {b}, FnProperty::kNoSkip);
  EXPECT_NO_THROW(engine_->WaitForVar(b));
  EXPECT_EQ(runs_, 1);
  EXPECT_THROW(engine_->WaitForVar(a), Error);
}

TEST_P(EngineErrorTest, AsyncOperationsReportThroughTheirCallback) {
  Variable *a = New(), *b = New();
  std::promise<OnComplete> handle;
  engine_->PushAsync([&](RunContext, OnComplete done) { handle.set_value(done); }, kCpu, {}, {a},
                     {.name = "receive"});
  PushCounted({a}, {b});
  std::thread foreign([done = handle.get_future().get()] {
    done(std::make_exception_ptr(ResourceExhausted("no buffers")));
  });
  try {
    engine_->WaitForVar(b);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kResourceExhausted);
    EXPECT_THAT(error.what(), HasSubstr("receive"));
  }
  foreign.join();
  EXPECT_EQ(runs_, 0);
}

TEST_P(EngineErrorTest, AnAsyncFunctionThatThrowsIsComplete) {
  Variable* a = New();
  engine_->PushAsync([](RunContext, OnComplete) { throw DataLoss("at once"); }, kCpu, {}, {a});
  EXPECT_THROW(engine_->WaitForVar(a), Error);
  // Complete and good first, then an error: nobody may lose it.
  engine_->PushAsync([](RunContext, OnComplete done) { done(), throw DataLoss("too late"); }, kCpu,
                     {}, {a});
  EXPECT_NO_THROW(engine_->WaitForVar(a));
  EXPECT_THAT(WaitForAllMessage(), StartsWith("too late"));
}

TEST_P(EngineErrorTest, ALostCallbackIsAnErrorAndNotAHang) {
  Variable* a = New();
  engine_->PushAsync([](RunContext, OnComplete) {}, kCpu, {}, {a}, {.name = "forgetful"});
  try {
    engine_->WaitForVar(a);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kFailedPrecondition);
    EXPECT_THAT(error.what(), HasSubstr("forgetful"));
  }
}

TEST_P(EngineErrorTest, ErrorsOfParallelLoopsInsideOperationsAreOperationsErrors) {
  Variable* a = New();
  engine_->PushSync(
      [](RunContext) {
        ParallelFor(100, [](int i) {
          if (i == 57) throw OutOfRange("row 57");
        });
      },
      kCpu, {}, {a}, {.name = "rows"});
  try {
    engine_->WaitForVar(a);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("row 57"), HasSubstr("\"rows\"")));
  }
}

TEST_P(EngineErrorTest, CachedOperatorsNameThePushThatFailed) {
  Variable* a = New();
  bool fail = false;
  Opr* op = engine_->NewOperator(
      [&fail](RunContext) {
        if (fail) throw DataLoss("replay");
      },
      {}, {a}, {.name = "step"});
  engine_->Push(op, kCpu);
  engine_->WaitForVar(a);
  fail = true;
  const int line = __LINE__ + 1;
  engine_->Push(op, kCpu);
  try {
    engine_->WaitForVar(a);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("\"step\""), EndsWith(":" + std::to_string(line) + "]")));
  }
  fail = false;
  engine_->Push(op, kCpu);
  EXPECT_NO_THROW(engine_->WaitForVar(a));
  engine_->DeleteOperator(op);
}

TEST_P(EngineErrorTest, TheEngineGoesOnAfterManyUnreportedErrors) {
  Variable* a = New();
  for (int i = 0; i < 9000; ++i) {
    PushFailure({}, {a});
    PushWrite(a);
  }
  EXPECT_NO_THROW(engine_->WaitForVar(a));
  PushCounted({a}, {});
  // The latest are reported one by one, and then how many there were besides.
  int reports = 0;
  std::string last;
  for (std::string next = WaitForAllMessage(); !next.empty(); next = WaitForAllMessage()) {
    last = next;
    ++reports;
  }
  EXPECT_EQ(runs_, 1);
  EXPECT_GE(reports, 4000);
  EXPECT_THAT(last, AllOf(HasSubstr(std::to_string(9000 - (reports - 1)) + " more errors"),
                          HasSubstr("engine_error_test.cc")));
}

TEST_P(EngineErrorTest, AnExceptionMayOutliveItsEngine) {
  Variable* a = New();
  engine_->PushSync([](RunContext) { throw DiskFull(1); }, kCpu, {}, {a});
  std::exception_ptr kept;
  try {
    engine_->WaitForVar(a);
  } catch (...) {
    kept = std::current_exception();
  }
  engine_.reset();
  EXPECT_THROW(std::rethrow_exception(kept), DiskFull);
}

}  // namespace
}  // namespace tessera
