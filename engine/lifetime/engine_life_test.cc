// The beginning and the end of engines: cycles, the end of the process, forks,
// plugins: 10,000 engines and 100 processes, fewer with sanitizers. TESSERA_TEST_STRESS_FACTOR
// multiplies all of it.

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/environment.h"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/testing/child_process.h"
#include "tessera/engine/testing/engine_configurations.h"

namespace tessera {
namespace {

using engine_internal::AllConfigurations;
using engine_internal::ConfigurationName;
using engine_internal::EngineConfigurationTest;
using engine_internal::StatusOf;
using testing::HasSubstr;

constexpr Device kCpu = Device::Cpu();
constexpr const char* kProcess = "engine/engine_life_process";

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kEngines = 100;  // each takes twenty times as long
constexpr int kProcesses = 10;
#else
constexpr int kEngines = 2500;  // in each of four configurations
constexpr int kProcesses = 100;
#endif

int StressFactor() {
  return static_cast<int>(EnvironmentInt("TESSERA_TEST_STRESS_FACTOR", 1, 1, 1000));
}

/// For a process that forks: LeakSanitizer takes what lost threads held for leaks.
std::vector<std::string> WithoutLeakCheck() {
  const char* options = std::getenv("ASAN_OPTIONS");
  return {"ASAN_OPTIONS=" + std::string(options == nullptr ? "" : options) + ":detect_leaks=0"};
}

class EngineLifeTest : public EngineConfigurationTest {};
INSTANTIATE_TEST_SUITE_P(All, EngineLifeTest, testing::ValuesIn(AllConfigurations()),
                         ConfigurationName);

TEST_P(EngineLifeTest, EnginesComeAndGo) {
  int runs = 0;
  const int cycles = kEngines * StressFactor();
  for (int i = 0; i < cycles; ++i) {
    const auto engine = GetParam().Make();
    Variable* variable = engine->NewVariable();
    engine->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {variable});
    engine->DeleteVariable(variable);
    if (i % 3 == 0) engine->Stop();
  }
  EXPECT_EQ(runs, cycles);
}

TEST_P(EngineLifeTest, OneEngineStopsAndStartsManyTimes) {
  Variable* variable = engine_->NewVariable();
  int runs = 0;
  const int cycles = 4 * kEngines * StressFactor();
  for (int i = 0; i < cycles; ++i) {
    engine_->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {variable});
    engine_->Stop();
    engine_->Start();
  }
  engine_->WaitForAll();
  EXPECT_EQ(runs, cycles);
}

TEST_P(EngineLifeTest, SeveralThreadsMayShutDownAtOnce) {
  Variable* variable = engine_->NewVariable();
  std::atomic<int> runs{0};
  for (int i = 0; i < 1000; ++i) {
    engine_->PushSync([&](RunContext) { ++runs; }, kCpu, {}, {variable});
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      engine_->Shutdown();
      EXPECT_EQ(runs, 1000);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ProcessEndTest, AProcessMayExitWithWorkInFlight) {
  for (int i = 0; i < kProcesses * StressFactor(); ++i) {
    ASSERT_EQ(StatusOf({kProcess, "exit_with_work_in_flight"}), 0) << "process " << i;
  }
}

TEST(ProcessEndTest, AProcessMayExitWithDeviceWorkInFlight) {
  for (int i = 0; i < 5 * StressFactor(); ++i) {
    ASSERT_EQ(StatusOf({kProcess, "exit_with_device_work_in_flight"}), 0) << "process " << i;
  }
}

TEST(ProcessEndTest, AProcessMayExitWhileAnOperationWaits) {
  for (int i = 0; i < 5 * StressFactor(); ++i) {
    ASSERT_EQ(StatusOf({kProcess, "exit_while_an_operation_waits"}), 0) << "process " << i;
  }
}

TEST(ProcessEndTest, ThreadsThatPushAndWaitMayBeLeftBehind) {
  for (int i = 0; i < 5 * StressFactor(); ++i) {
    ASSERT_EQ(StatusOf({kProcess, "exit_beside_threads_that_wait"}), 0) << "process " << i;
  }
}

TEST(ProcessEndTest, AnOperationMayEndTheProcessByQuickExit) {
  for (int i = 0; i < 3 * StressFactor(); ++i) {
    ASSERT_EQ(StatusOf({kProcess, "quick_exit_inside_an_operation"}), 0) << "process " << i;
  }
}

TEST(ProcessEndTest, AnOperationThatCallsExitEndsTheProcessWithAnError) {
  std::vector<std::string> kinds = {"exit_inside_an_operation: normal",
                                    "exit_inside_an_operation: async"};
#if !defined( \
    __SANITIZE_THREAD__)  // which writes both streams out itself, and waits for their locks
  kinds.insert(kinds.end(),
               {"exit_beside_a_locked_stream: stdout", "exit_beside_a_locked_stream: stderr"});
#endif
  for (const std::string& kind : kinds) {
    const int status = StatusOf({kProcess, kind});
    EXPECT_TRUE(WIFEXITED(status)) << kind << ": signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), EXIT_FAILURE) << kind;
  }
}

TEST(ProcessEndTest, AnEngineMayBeAStaticObject) {
  for (int i = 0; i < 3 * StressFactor(); ++i) {
    ASSERT_EQ(StatusOf({kProcess, "exit_with_a_static_engine"}), 0) << "process " << i;
  }
}

TEST(ProcessEndTest, ShutdownMayComeAfterTheEndOfTheDefaultEngine) {
  for (int i = 0; i < 5 * StressFactor(); ++i) {
    ASSERT_EQ(StatusOf({kProcess, "shutdown_after_the_end"}), 0) << "process " << i;
  }
}

TEST(ForkTest, AChildHasADefaultEngineOfItsOwn) {
  for (int i = 0; i < 5 * StressFactor(); ++i) {
    ASSERT_EQ(StatusOf({kProcess, "fork_with_a_default_engine"}, WithoutLeakCheck()), 0);
  }
}

TEST(ForkTest, AnEngineFromBeforeTheForkSaysSoInTheChild) {
  for (int i = 0; i < 5 * StressFactor(); ++i) {
    ASSERT_EQ(StatusOf({kProcess, "fork_with_an_engine_of_ones_own"}, WithoutLeakCheck()), 0);
  }
}

TEST(ForkTest, CompletionsAndSchedulesOfTheParentMayGoInTheChild) {
  for (int i = 0; i < 5 * StressFactor(); ++i) {
    ASSERT_EQ(StatusOf({kProcess, "fork_with_pending_completions"}, WithoutLeakCheck()), 0);
  }
}

TEST(ForkTest, AnOperationMayFork) {
  for (int i = 0; i < 5 * StressFactor(); ++i) {
    ASSERT_EQ(StatusOf({kProcess, "fork_inside_an_operation"}, WithoutLeakCheck()), 0);
  }
}

TEST(ForkTest, AChildOfAnOperationThatCallsExitEndsWithAnError) {
  EXPECT_EQ(StatusOf({kProcess, "exit_in_a_child_of_an_operation"}, WithoutLeakCheck()), 0);
}

TEST(ForkTest, AChildOfAProcessWithOneThreadMayHaveWorkers) {
  ASSERT_EQ(StatusOf({kProcess, "fork_before_any_thread"}, WithoutLeakCheck()), 0);
}

TEST(PluginTest, APluginThatUsesEnginesMayBeClosed) {
  ASSERT_EQ(StatusOf({"engine/plugin_host", "engine/plugin_with_engine.so"}), 0);
}

TEST(TraceFileTest, TheDefaultEngineWritesItsTraceAtExit) {
  const std::string file = testing::TempDir() + "/engine_trace.json";
  ASSERT_EQ(StatusOf({kProcess, "use_default_engine"}, {"TESSERA_ENGINE_TRACE=" + file}), 0);
  std::ifstream stream(file);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  EXPECT_THAT(text, HasSubstr("\"traceEvents\":["));
  EXPECT_THAT(text, HasSubstr("engine_life_process.cc:"));
  EXPECT_NE(StatusOf({kProcess, "use_default_engine"}, {"TESSERA_ENGINE_TRACE=/no/such/folder/x"}),
            0)
      << "a file that cannot be written is an error at the start";
}

class OldTraceTest : public testing::Test {
 protected:
  OldTraceTest() {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
    std::ofstream(folder_ / "trace.json") << "old";
  }
  /// Returns the status of a process that traces into the file.
  int StatusOfTraced(const std::string& what) {
    return StatusOf({kProcess, what},
                    {"TESSERA_ENGINE_TRACE=" + (folder_ / "trace.json").string()});
  }
  void ExpectOldTrace() {
    std::ifstream stream(folder_ / "trace.json");
    EXPECT_EQ(std::string((std::istreambuf_iterator<char>(stream)), {}), "old");
    EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 1);
  }

 private:
  const std::filesystem::path folder_ =
      std::filesystem::path(testing::TempDir()) /
      testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(OldTraceTest, StaysWhenTheProcessEndsWithoutExit) {
  ASSERT_EQ(StatusOfTraced("quick_exit_inside_an_operation"), 0);
  ExpectOldTrace();
}

TEST_F(OldTraceTest, StaysOnAFullDiskAndTheStatusIsTheProgramsOwn) {
  EXPECT_EQ(StatusOfTraced("use_default_engine_on_a_full_disk"), 0);
  ExpectOldTrace();
}

}  // namespace
}  // namespace tessera
