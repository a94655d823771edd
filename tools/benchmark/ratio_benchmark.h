#ifndef TESSERA_TOOLS_BENCHMARK_RATIO_BENCHMARK_H_
#define TESSERA_TOOLS_BENCHMARK_RATIO_BENCHMARK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "benchmark/benchmark.h"

/// Comparing benchmarks: several ways of computing one thing, timed in turns in one run, with a
/// table of ratios at the end. Runs on top of Google Benchmark, whose flags and output formats
/// stay.
///
///     int main(int argc, char** argv) {
///       tessera::benchmarking::AddCase({.name = "axpy/4096",
///                                       .bounds = {{.peer = "loop", .at_least = 0.98}},
///                                       .bytes = 3 * 4 * 4096,
///                                       .make = [] { return AxpyVariants(4096); }});
///       return tessera::benchmarking::RunAll(argc, argv);
///     }
namespace tessera::benchmarking {

/// One way of computing a case.
struct Variant {
  std::string name;
  /// Does the work so many times.
  std::function<void(int64_t)> run;
  /// If not null, does so too and returns the seconds that it took.
  std::function<double(int64_t)> timed_run = nullptr;

  /// `work` is anything callable; the loop around it is compiled with it, so that a call of a few
  /// nanoseconds is not drowned in the cost of calling it.
  template <typename Work>
  Variant(std::string variant_name, Work work)
      : name(std::move(variant_name)), run([work](int64_t count) mutable {
          for (int64_t i = 0; i < count; ++i) {
            work();
            benchmark::ClobberMemory();
          }
        }) {}

  /// Returns a variant that takes its own time, because another process does the work.
  static Variant Timed(std::string variant_name, std::function<double(int64_t)> timed_run) {
    Variant variant(std::move(variant_name), [] {});
    variant.run = [timed_run](int64_t count) { timed_run(count); };
    variant.timed_run = std::move(timed_run);
    return variant;
  }
};

/// The variants of a case with their data, which lives in what the functions captured.
struct Variants {
  /// The first is ours, the others are peers. Its counter is "ours", whatever it is called.
  std::vector<Variant> all = {};
  /// Called after each variant has run once, outside the timed part: whether the results agree.
  std::function<bool()> results_agree = nullptr;
};

/// "Ours is at least `at_least` times as fast as that peer"; kBest stands for the fastest of all
/// peers.
struct Bound {
  static constexpr const char* kBest = "best";
  std::string peer;
  double at_least = 1.0;
  /// The bound for kernels that run without AVX-512; 0 if it is the same.
  double at_least_on_avx2 = 0;
  /// What others have published for this ratio, printed behind the line; 0 for nothing.
  double published = 0;
};

/// Sizes in bytes, in place of times.
struct Sizes {
  double ours = 0;
  double peer = 0;
};

struct Case {
  std::string name;
  /// One line of the table each; without any the case is timed but not judged.
  std::vector<Bound> bounds = {};
  /// What one run moves, computes and finishes (pushes, blocks, images, ...), for the counters; 0
  /// if that means nothing here. Bytes are also told as the fraction of what one core copies in the
  /// level of memory that holds them: of_copy, and loop_of_copy for the variant "loop".
  double bytes = 0;
  double flops = 0;
  double items = 0;
  /// Seconds that one run may take at most, as a further line of the table; 0 for no limit.
  double limit_seconds = 0;
  /// Makes the variants when the case's turn comes; their memory is given back after it.
  std::function<Variants()> make = nullptr;
  /// If not null, makes the case compare the sizes that this returns, always the same ones, with
  /// the peer of its bounds. There are no variants; the benchmark's time is that of the call.
  std::function<Sizes()> sizes = nullptr;
};

/// A bound on several cases together: "the geometric mean of their ratios beside that peer is at
/// least `at_least`". Of the cases, those count that have run and have a bound on the peer.
struct Mean {
  std::string name;
  /// A regular expression: cases whose name holds a match.
  std::string cases;
  std::string peer;
  double at_least = 1.0;
};

/// Which of a bound's two numbers a run is judged by.
enum class BoundsFor { kAvx512, kAvx2 };

/// Returns the bounds for the instructions that this processor has.
BoundsFor BoundsOfProcessor();

/// Registers a case; they run in this order.
void AddCase(Case c);

/// Registers a line of the table behind those of the cases: the geometric means of their times and
/// of their ratios. A mean over no case has no line. Throws std::regex_error for a wrong
/// expression.
void AddMean(const Mean& mean);

/// Runs what the flags pick and prints for each bound `ratio CASE OURS PEER RATIO BOUND ok|short
/// [published X]`, times being medians of at least nine turns and RATIO the median of each turn's
/// PEER / OURS. A case with several bounds is called CASE:PEER. For a case of sizes, OURS and PEER
/// are these.
///
/// Flags, besides Google Benchmark's: --check (exit status 1 if a case is short), --filter=REGEX
/// (cases to run). Returns the exit status: 0, 1 also when results disagree, 2 for a wrong flag.
int RunAll(int argc, char** argv, BoundsFor bounds = BoundsOfProcessor());

}  // namespace tessera::benchmarking

#endif  // TESSERA_TOOLS_BENCHMARK_RATIO_BENCHMARK_H_
