#include "tessera/compat/mxnet/profiling/profiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/graph/json/json_value.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera::mxnet {
namespace {

using testing::HasSubstr;
using testing::Not;

size_t Count(std::string_view text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) {
    ++count;
  }
  return count;
}

/// Returns a JSON text without its white space, which must be JSON.
std::string Dense(const std::string& json) {
  graph::JsonValue::Parse("test", json);
  std::string dense;
  for (const char c : json) {
    if (c != ' ' && c != '\n') dense += c;
  }
  return dense;
}

TEST(StatisticsTest, PrintsTheTableOfMxnet) {
  ProfileStatistics statistics;
  statistics.Add("operator", "dot", StatisticsUnit::kMilliseconds, 1.5);
  statistics.Add("operator", "dot", StatisticsUnit::kMilliseconds, 0.5);
  statistics.Add("operator", "ResourceParallelRandomSetSeed", StatisticsUnit::kMilliseconds, 12);
  statistics.Add("Device Storage", "Memory: cpu/0", StatisticsUnit::kKilobytes, 40);
  // Copied from MXNet 1.9.1's output, with other numbers.
  EXPECT_EQ(
      statistics.Print(StatisticsFormat::kTable, StatisticsOrder::kTotal, /*ascending=*/false),
      "\nProfile Statistics:\n\tNote the difference in units for different entries.\n"
      "Device Storage\n=================\n"
      "Name                          Total Count    Min Use  (kB)    Max Use  (kB)    Avg Use  "
      "(kB)\n"
      "----                          -----------    -------------    -------------    "
      "-------------\n"
      "Memory: cpu/0                           1          40.0000          40.0000          "
      "40.0000\n"
      "\n"
      "operator\n=================\n"
      "Name                          Total Count        Time (ms)    Min Time (ms)    Max Time "
      "(ms)    Avg Time (ms)\n"
      "----                          -----------        ---------    -------------    "
      "-------------    -------------\n"
      "ResourceParallelRandomSetSeed               1          12.0000          12.0000          "
      "12.0000          12.0000\n"
      "dot                                     2           2.0000           0.5000           "
      "1.5000           1.0000\n"
      "\n");
}

TEST(StatisticsTest, PrintsJson) {
  ProfileStatistics statistics;
  EXPECT_EQ(Dense(statistics.Print(StatisticsFormat::kJson, StatisticsOrder::kTotal, false)),
            R"({"Time":{},"Memory":{},"Unit":{"Time":"ms","Memory":"kB"}})");
  statistics.Add("D", "a \"b\"", StatisticsUnit::kMilliseconds, 1.5);
  statistics.Add("D", "hits", StatisticsUnit::kValue, 7);
  EXPECT_EQ(Dense(statistics.Print(StatisticsFormat::kJson, StatisticsOrder::kTotal, false)),
            R"({"Time":{"D":{"a\"b\"":{"Count":1,"Total":1.5,"Min":1.5,"Max":1.5,"Avg":1.5}}},)"
            R"("Memory":{},"Counter":{"D":{"hits":{"Count":1,"Min":7,"Max":7,"Avg":7}}},)"
            R"("Unit":{"Time":"ms","Memory":"kB"}})");
}

TEST(StatisticsTest, SortsByEachColumn) {
  ProfileStatistics statistics;
  for (const double ms : {1.0, 1.0, 1.0, 9.0}) {  // total 12, average 3
    statistics.Add("op", "often", StatisticsUnit::kMilliseconds, ms);
  }
  statistics.Add("op", "once", StatisticsUnit::kMilliseconds, 8);
  const auto first_is = [&](std::string_view name, StatisticsOrder order, bool ascending) {
    const std::string text = statistics.Print(StatisticsFormat::kTable, order, ascending);
    const std::string_view other = name == "once" ? "often" : "once";
    return text.find("\n" + std::string(name)) < text.find("\n" + std::string(other));
  };
  EXPECT_TRUE(first_is("often", StatisticsOrder::kTotal, false));
  EXPECT_TRUE(first_is("once", StatisticsOrder::kTotal, true));
  EXPECT_TRUE(first_is("once", StatisticsOrder::kAverage, false));
  EXPECT_TRUE(first_is("once", StatisticsOrder::kMin, false));
  EXPECT_TRUE(first_is("often", StatisticsOrder::kMax, false));
  EXPECT_TRUE(first_is("often", StatisticsOrder::kCount, false));
}

class ProfilerTest : public testing::Test {
 protected:
  ProfilerTest() : path_(testing::TempDir() + "/profile.json") {
    unlink(path_.c_str());
    profiler_.Configure({.filename = path_, .aggregate_stats = true});
    profiler_.Statistics(StatisticsFormat::kJson, StatisticsOrder::kTotal, false, /*reset=*/true);
  }
  ~ProfilerTest() override {
    profiler_.SetRunning(true);
    profiler_.Dump(/*finished=*/true);
  }

  /// Calls the operator square, and waits.
  static void CallSquare() { Invoke("square", {NDArray({2})})[0].WaitToRead(); }

  std::string Json() {
    return Dense(profiler_.Statistics(StatisticsFormat::kJson, StatisticsOrder::kTotal, false,
                                      /*reset=*/false));
  }

  /// Returns the trace's file without white space.
  std::string Trace() const {
    std::ifstream file(path_);
    return Dense(std::string(std::istreambuf_iterator<char>(file), {}));
  }

  const std::string path_;
  Profiler& profiler_ = Profiler::Get();
};

TEST_F(ProfilerTest, RecordsOperatorsWhileItRuns) {
  CallSquare();
  profiler_.SetRunning(true);
  CallSquare();
  CallSquare();
  profiler_.SetPaused(true);
  CallSquare();
  profiler_.SetPaused(false);
  CallSquare();
  profiler_.SetRunning(false);
  CallSquare();
  EXPECT_THAT(Json(), HasSubstr(R"("operator":{"square":{"Count":3,)"));
  EXPECT_THAT(Json(), HasSubstr(R"("Memory":{"DeviceStorage":{"Memory:cpu/0":)"));
  profiler_.Dump(/*finished=*/false);
  EXPECT_EQ(Count(Trace(), R"("name":"square","cat":"operator","ph":"B")"), 3u);
  EXPECT_EQ(Count(Trace(), R"("name":"square","cat":"operator","ph":"E")"), 3u);
}

TEST_F(ProfilerTest, RecordsCallsOfClientsOperatorsUnderTheirNames) {
  static auto* const name = new std::string("sigmoid");
  const auto call = [] {
    const ClientCallTimer timer(*name);
    CallSquare();
  };
  call();
  profiler_.SetRunning(true);
  call();
  CallSquare();
  profiler_.OnCall("Custom", "", 1, 2);
  EXPECT_THAT(Json(), HasSubstr(R"("CustomOperator":{"sigmoid::pure_python":{"Count":1,)"));
  EXPECT_THAT(Json(), HasSubstr(R"("sigmoid::square":{"Count":1,)"));
  EXPECT_THAT(Json(), HasSubstr(R"("operator":{"square":{"Count":1,)"));
  EXPECT_THAT(Json(), Not(HasSubstr(R"("Custom":)")));
}

TEST_F(ProfilerTest, AStartEndsAPause) {
  profiler_.SetRunning(true);
  profiler_.SetPaused(true);
  EXPECT_FALSE(profiler_.is_recording());
  profiler_.SetRunning(true);
  EXPECT_TRUE(profiler_.is_recording());
}

TEST_F(ProfilerTest, RecordsWhatClientsMeasure) {
  profiler_.SetRunning(true);
  const int64_t now_ns = Profiler::NowNs();
  profiler_.AddDuration("domain", "task", now_ns, now_ns + 2000000);
  profiler_.AddCounter("domain", "counter", 5);
  profiler_.AddCounter("domain", "counter", -3);
  profiler_.AddMarker("domain,instant_marker", "here", 'g');
  EXPECT_THAT(Json(), HasSubstr(R"("domain":{"task":{"Count":1,"Total":2,"Min":2,)"));
  EXPECT_THAT(Json(), HasSubstr(R"("domain":{"counter":{"Count":2,"Min":-3,"Max":5,"Avg":1}})"));
  profiler_.Dump(/*finished=*/false);
  const std::string trace = Trace();
  EXPECT_THAT(trace, HasSubstr(R"({"ph":"M","args":{"name":"domain"})"));
  EXPECT_THAT(trace, HasSubstr(R"("name":"task","cat":"domain","ph":"b")"));
  EXPECT_THAT(trace, HasSubstr(R"("args":{"counter":-3})"));
  EXPECT_THAT(trace, HasSubstr(R"("name":"here","cat":"domain,instant_marker","ph":"i")"));
  EXPECT_THAT(trace, HasSubstr(R"("s":"g")"));
}

TEST_F(ProfilerTest, AFinishedProfileIsFollowedByAnEmptyOne) {
  EXPECT_THROW(profiler_.Dump(/*finished=*/false), Error);
  profiler_.SetRunning(true);
  profiler_.AddCounter("domain", "first", 1);
  profiler_.Dump(/*finished=*/true);
  EXPECT_THAT(Trace(), HasSubstr("first"));
  EXPECT_FALSE(profiler_.is_recording());
  EXPECT_THROW(profiler_.Dump(/*finished=*/true), Error);
  profiler_.SetRunning(true);
  profiler_.AddCounter("domain", "second", 1);
  profiler_.Dump(/*finished=*/false);
  EXPECT_THAT(Trace(), HasSubstr("second"));
  EXPECT_THAT(Trace(), Not(HasSubstr("first")));
}

TEST_F(ProfilerTest, KeepsStatisticsOnlyOnDemand) {
  profiler_.Configure({.filename = path_});
  profiler_.SetRunning(true);
  profiler_.AddCounter("domain", "unseen", 1);
  const auto table = [this] {
    return profiler_.Statistics(StatisticsFormat::kTable, StatisticsOrder::kTotal, false,
                                /*reset=*/true);
  };
  EXPECT_EQ(table(), "");
  profiler_.Configure({.filename = path_, .aggregate_stats = true});
  profiler_.AddCounter("domain", "seen", 1);
  EXPECT_THAT(table(), HasSubstr("seen  "));
  EXPECT_THAT(table(), Not(HasSubstr("seen")));
}

TEST_F(ProfilerTest, WritesFromTimeToTime) {
  profiler_.Configure({.filename = path_, .continuous_dump = true, .dump_period = 0});
  profiler_.SetRunning(true);
  profiler_.AddCounter("domain", "soon", 1);
  EXPECT_THAT(Trace(), HasSubstr("soon"));
}

TEST_F(ProfilerTest, WritesAtTheProcessesEndAndNotInAChildOfIt) {
  const auto run_child = [](auto body) {
    const pid_t child = fork();
    if (child == 0) {
      body();
      std::exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  };
  run_child([this] {
    profiler_.SetRunning(true);
    profiler_.AddCounter("domain", "late", 1);
  });
  EXPECT_THAT(Trace(), HasSubstr("late"));
  unlink(path_.c_str());
  profiler_.SetRunning(true);
  profiler_.AddCounter("domain", "parent", 1);
  run_child([this] { EXPECT_FALSE(profiler_.is_recording()); });
  EXPECT_NE(access(path_.c_str(), F_OK), 0);
}

TEST_F(ProfilerTest, AFileThatCannotBeWrittenIsNamed) {
  profiler_.Configure({.filename = "/no/such/profile.json"});
  profiler_.SetRunning(true);
  profiler_.AddCounter("domain", "counter", 1);
  try {
    profiler_.Dump(/*finished=*/false);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/no/such/profile.json"));
  }
  profiler_.Configure({.filename = path_});
}

}  // namespace
}  // namespace tessera::mxnet
