#include "tessera/tools/benchmark/ratio_benchmark.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tessera::benchmarking {
namespace {

// Additions one after another, which no compiler can shorten.
auto Work(int steps) {
  return [steps] {
    double sum = 0;
    for (int i = 0; i < steps; ++i) {
      sum += i;
      benchmark::DoNotOptimize(sum);
    }
  };
}

// Ours does a hundredth of the loop's work and a tenth of the other peer's.
Variants ThreeVariants() {
  return {.all = {{"ours", Work(100)}, {"loop", Work(10000)}, {"eager", Work(1000)}}};
}

struct Outcome {
  int status;
  std::vector<std::string> ratios;  // lines of the table
  std::string text;                 // all that was printed
};

Outcome RunWith(std::vector<std::string> flags, BoundsFor bounds = BoundsFor::kAvx512) {
  flags.insert(flags.begin(), "program");
  flags.push_back("--benchmark_min_time=0.001");
  std::vector<char*> argv;
  for (std::string& flag : flags) argv.push_back(flag.data());
  testing::internal::CaptureStdout();
  Outcome outcome;
  outcome.status = RunAll(static_cast<int>(argv.size()), argv.data(), bounds);
  std::fflush(stdout);
  const std::string& text = outcome.text = testing::internal::GetCapturedStdout();
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    if (text.compare(at, 6, "ratio ") == 0) outcome.ratios.push_back(text.substr(at, end - at));
    if (end == std::string::npos) break;
    at = end + 1;
  }
  return outcome;
}

class RatioBenchmarkTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    AddCase({.name = "reached",
             .bounds = {{.peer = "loop", .at_least = 2}},
             .bytes = 800,
             .make = ThreeVariants});
    AddCase({.name = "missed",
             .bounds = {{.peer = Bound::kBest, .at_least = 1e6}},
             .make = ThreeVariants});
    AddCase({.name = "lower_on_avx2",
             .bounds = {{.peer = "loop", .at_least = 1e6, .at_least_on_avx2 = 2}},
             .make = ThreeVariants});
    AddCase({.name = "several",
             .bounds = {{.peer = "loop", .at_least = 2},
                        {.peer = "eager", .at_least = 1e6, .published = 2.46}},
             .limit_seconds = 1,
             .make = ThreeVariants});
    AddCase({.name = "counted", .items = 7, .make = [] {
               return Variants{.all = {{"operator", Work(100)}, {"loop", Work(1000)}}};
             }});
    AddCase({.name = "elsewhere", .bounds = {{.peer = "process", .at_least = 2}}, .make = [] {
               return Variants{
                   .all = {{"ours", Work(100)}, Variant::Timed("process", [](int64_t count) {
                             return 1e-3 * static_cast<double>(count);
                           })}};
             }});
    AddMean({.name = "mean_of_fixed", .cases = "^fixed_", .peer = "process", .at_least = 4});
    AddMean({.name = "mean_of_none", .cases = "^fixed_", .peer = "eager"});
    for (const double seconds : {4e-3, 16e-3, 32e-3}) {
      AddCase({.name = "fixed_" + std::to_string(seconds),
               .bounds = {{.peer = "process", .at_least = 1}},
               .make = [seconds] {
                 const auto takes = [](double each) {
                   return [each](int64_t count) { return each * static_cast<double>(count); };
                 };
                 return Variants{.all = {Variant::Timed("ours", takes(2e-3)),
                                         Variant::Timed("process", takes(seconds))}};
               }});
    }
    AddCase({.name = "sized", .bounds = {{.peer = "bound", .at_least = 0.95}}, .sizes = [] {
               return Sizes{.ours = 3 << 20, .peer = 1536 << 10};
             }});
    AddCase(
        {.name = "nothing_sized", .bounds = {{.peer = "bound"}}, .sizes = [] { return Sizes{}; }});
    AddMean({.name = "mean_of_sizes", .cases = "sized", .peer = "bound"});
    AddCase({.name = "wrong", .make = [] {
               Variants variants = ThreeVariants();
               variants.results_agree = [] { return false; };
               return variants;
             }});
  }
};

constexpr const char* kTime = "[0-9.e+]+(s|ms|us|ns)";

TEST_F(RatioBenchmarkTest, OneLineACase) {
  const Outcome outcome = RunWith({"--filter=reached"});
  EXPECT_EQ(outcome.status, 0);
  ASSERT_EQ(outcome.ratios.size(), 1u);
  EXPECT_THAT(outcome.ratios[0], testing::MatchesRegex(std::string("ratio reached +") + kTime +
                                                       " +" + kTime + " +[0-9.]+ +2.00 ok"));
}

TEST_F(RatioBenchmarkTest, CheckMakesAShortCaseAnError) {
  const Outcome outcome = RunWith({"--filter=missed"});
  EXPECT_EQ(outcome.status, 0);
  ASSERT_EQ(outcome.ratios.size(), 1u);
  EXPECT_THAT(outcome.ratios[0], testing::EndsWith(" 1000000.00 short"));
  EXPECT_EQ(RunWith({"--filter=missed", "--check"}).status, 1);
  EXPECT_EQ(RunWith({"--filter=reached", "--check"}).status, 0);
}

TEST_F(RatioBenchmarkTest, Avx2HasABoundOfItsOwnWhereOneIsStated) {
  Outcome outcome = RunWith({"--filter=lower_on_avx2", "--check"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.ratios, testing::ElementsAre(testing::EndsWith(" 1000000.00 short")));
  outcome = RunWith({"--filter=lower_on_avx2", "--check"}, BoundsFor::kAvx2);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.ratios, testing::ElementsAre(testing::EndsWith(" 2.00 ok")));
  outcome = RunWith({"--filter=reached"}, BoundsFor::kAvx2);
  EXPECT_THAT(outcome.ratios, testing::ElementsAre(testing::EndsWith(" 2.00 ok")));
}

TEST_F(RatioBenchmarkTest, EveryBoundHasItsLine) {
  const Outcome outcome = RunWith({"--filter=^several$"});
  ASSERT_EQ(outcome.ratios.size(), 3u);
  EXPECT_THAT(outcome.ratios[0], testing::MatchesRegex("ratio several:loop .* ok"));
  EXPECT_THAT(outcome.ratios[1],
              testing::MatchesRegex("ratio several:eager .* short published 2.46"));
  EXPECT_THAT(outcome.ratios[2], testing::MatchesRegex("ratio several:limit .* 1.00 ok"));
}

TEST_F(RatioBenchmarkTest, CountersNameOursAndItsItems) {
  const std::string text = RunWith({"--filter=counted"}).text;
  EXPECT_THAT(text, testing::HasSubstr(" items/s="));
  EXPECT_THAT(text, testing::HasSubstr(" loop="));
  EXPECT_THAT(text, testing::HasSubstr(" ours="));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("operator=")));
}

TEST_F(RatioBenchmarkTest, BytesAreToldAsAFractionOfACopy) {
  const std::string text = RunWith({"--filter=reached"}).text;
  EXPECT_THAT(text, testing::HasSubstr(" of_copy="));
  EXPECT_THAT(text, testing::HasSubstr(" loop_of_copy="));
  EXPECT_THAT(RunWith({"--filter=counted"}).text, testing::Not(testing::HasSubstr("of_copy=")));
}

TEST_F(RatioBenchmarkTest, AVariantMayTakeItsOwnTime) {
  const Outcome outcome = RunWith({"--filter=elsewhere"});
  ASSERT_EQ(outcome.ratios.size(), 1u);
  EXPECT_THAT(outcome.ratios[0], testing::MatchesRegex(std::string("ratio elsewhere +") + kTime +
                                                       " +1ms +[0-9.]+ +2.00 ok"));
}

TEST_F(RatioBenchmarkTest, MeansAreGeometricAndOverTheCasesThatRan) {
  // The cube root of 2 * 8 * 16 is 6.35.
  Outcome outcome = RunWith({"--filter=^fixed_", "--check"});
  EXPECT_EQ(outcome.status, 0);
  ASSERT_EQ(outcome.ratios.size(), 4u);
  EXPECT_THAT(outcome.ratios[3],
              testing::MatchesRegex("ratio mean_of_fixed +2ms +12.7ms +6.35 +4.00 ok"));
  // The square root of 2 * 16 is 5.66, and 2 alone is short.
  outcome = RunWith({"--filter=^fixed_0.0(04|32)", "--check"});
  ASSERT_EQ(outcome.ratios.size(), 3u);
  EXPECT_THAT(outcome.ratios[2], testing::EndsWith(" 5.66   4.00 ok"));
  outcome = RunWith({"--filter=^fixed_0.004", "--check"});
  EXPECT_EQ(outcome.status, 1);
  ASSERT_EQ(outcome.ratios.size(), 2u);
  EXPECT_THAT(outcome.ratios[1], testing::EndsWith(" 2.00   4.00 short"));
  EXPECT_THAT(RunWith({"--filter=reached"}).ratios, testing::SizeIs(1));
}

TEST_F(RatioBenchmarkTest, SizesAreComparedInPlaceOfTimes) {
  const Outcome outcome = RunWith({"--filter=sized", "--check"});
  EXPECT_EQ(outcome.status, 1);
  ASSERT_EQ(outcome.ratios.size(), 2u);
  EXPECT_THAT(outcome.ratios[0],
              testing::MatchesRegex("ratio sized +3MiB +1.5MiB +0.50 +0.95 short"));
  EXPECT_THAT(outcome.ratios[1],
              testing::MatchesRegex("ratio nothing_sized +0B +0B +1.00 +1.00 ok"));
  EXPECT_THAT(outcome.text, testing::HasSubstr(" size_bytes="));
}

TEST_F(RatioBenchmarkTest, ResultsThatDisagreeAreAnError) {
  const Outcome outcome = RunWith({"--filter=wrong"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.ratios, testing::IsEmpty());
}

TEST_F(RatioBenchmarkTest, GoogleBenchmarksFilterWorksToo) {
  const Outcome outcome = RunWith({"--benchmark_filter=reached"});
  EXPECT_EQ(outcome.ratios.size(), 1u);
  RunWith({"--benchmark_filter=."});  // its flags stay from one call to the next
}

TEST_F(RatioBenchmarkTest, InterleavedRepetitionsGiveOneLineACase) {
  const Outcome outcome = RunWith({"--filter=(reached|missed)", "--benchmark_repetitions=3",
                                   "--benchmark_enable_random_interleaving=true"});
  ASSERT_EQ(outcome.ratios.size(), 2u);
  EXPECT_THAT(outcome.ratios[0], testing::StartsWith("ratio reached "));
  EXPECT_THAT(outcome.ratios[1], testing::StartsWith("ratio missed "));
  RunWith({"--benchmark_repetitions=1", "--benchmark_enable_random_interleaving=false"});
}

TEST_F(RatioBenchmarkTest, WrongFlagsAreRefused) {
  EXPECT_EQ(RunWith({"--no_such_flag"}).status, 2);
  EXPECT_EQ(RunWith({"--filter=("}).status, 2);
}

}  // namespace
}  // namespace tessera::benchmarking
