#include "tessera/tools/benchmark/ratio_benchmark.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <regex>
#include <string_view>

namespace tessera::benchmarking {
namespace {

using Clock = std::chrono::steady_clock;

// A turn runs each variant for about this long: far above the clock's resolution, and short enough
// that what else the machine does meets all variants alike.
constexpr double kTurnSeconds = 2e-3;
constexpr size_t kMinTurns = 9;

std::vector<Case>& Cases() {
  static auto* const cases = new std::vector<Case>();
  return *cases;
}

struct RegisteredMean {
  Mean mean;
  std::regex cases;
};

std::vector<RegisteredMean>& Means() {
  static auto* const means = new std::vector<RegisteredMean>();
  return *means;
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double SecondsFor(const Variant& variant, int64_t count) {
  if (variant.timed_run) return variant.timed_run(count);
  const Clock::time_point start = Clock::now();
  variant.run(count);
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// How often a variant runs in one turn.
int64_t RunsPerTurn(const Variant& variant) {
  for (int64_t count = 1;; count *= 4) {
    const double seconds = SecondsFor(variant, count);
    if (seconds >= kTurnSeconds / 4) {
      return std::max<int64_t>(
          1, static_cast<int64_t>(static_cast<double>(count) * kTurnSeconds / seconds));
    }
  }
}

// A level of the memory: copies that move so many bytes are timed in it, and a case belongs to it
// that moves at most `holds`.
struct Level {
  double holds;
  size_t moved;
};

// Bytes that one core moves in a second when it copies within the first level that holds `bytes`,
// reads and writes counted: the best of some turns, taken once for each level.
double CopyBandwidth(double bytes) {
  static const std::vector<Level> levels = [] {
    std::vector<Level> all;
    double largest = 0;
    for (const benchmark::CPUInfo::CacheInfo& cache : benchmark::CPUInfo::Get().caches) {
      if (cache.type == "Instruction") continue;
      // A last cache of a server's size is shared, and seldom all there.
      largest = std::min<double>(cache.size, 64 << 20);
      all.push_back({largest, static_cast<size_t>(largest / 2)});
    }
    all.push_back({0, std::max(static_cast<size_t>(4 * largest), size_t{128} << 20)});
    return all;
  }();
  static std::map<size_t, double> measured;  // by what is moved
  size_t moved = levels.back().moved;
  for (const Level& level : levels) {
    if (bytes <= level.holds) {
      moved = level.moved;
      break;
    }
  }
  double& best = measured[moved];
  if (best > 0) return best;
  const size_t half = moved / 2;
  std::vector<char> from(half, 1), to(half, 2);
  const Variant copy("copy", [&] { std::memcpy(to.data(), from.data(), half); });
  const int64_t runs = RunsPerTurn(copy);
  for (size_t turn = 0; turn < kMinTurns; ++turn) {
    best = std::max(best, static_cast<double>(2 * half * runs) / SecondsFor(copy, runs));
  }
  return best;
}

// A case while it runs: its variants and, for each of them, the seconds per run of every turn.
struct Measurement {
  const Case* of = nullptr;
  Variants variants;
  std::vector<int64_t> runs_per_turn;
  std::vector<std::vector<double>> seconds;

  void TakeTurn() {
    // Another variant begins each time, so that none always follows the same one.
    const size_t count = variants.all.size();
    const size_t first = seconds[0].size() % count;
    for (size_t i = 0; i < count; ++i) {
      const size_t v = (first + i) % count;
      seconds[v].push_back(SecondsFor(variants.all[v], runs_per_turn[v]) /
                           static_cast<double>(runs_per_turn[v]));
    }
  }
};

struct Row {
  std::string name, of, peer_name;  // `of` is the case
  double ours, peer, ratio, bound, published;
  bool is_size = false;
};

// The turns of a case, kept when its variants' memory is given back.
struct Turns {
  std::vector<std::string> names;
  std::vector<std::vector<double>> seconds;
};

// The result of one RunAll. Google Benchmark's random interleaving leaves a case and comes back to
// it, so the table is made at the very end.
struct Session {
  BoundsFor bounds = BoundsFor::kAvx512;
  std::unique_ptr<Measurement> current;
  std::map<const Case*, Turns> turns;
  std::map<const Case*, Sizes> sizes;
  bool results_agree = true;

  void Begin(const Case& c) {
    if (current != nullptr && current->of == &c) return;
    End();
    auto next = std::make_unique<Measurement>();
    next->of = &c;
    next->variants = c.make();
    for (const Variant& variant : next->variants.all) variant.run(1);
    if (next->variants.results_agree && !next->variants.results_agree()) {
      std::cerr << c.name << ": the variants' results disagree\n";
      results_agree = false;
    }
    for (const Variant& variant : next->variants.all) {
      next->runs_per_turn.push_back(RunsPerTurn(variant));
    }
    next->seconds.resize(next->variants.all.size());
    current = std::move(next);
  }

  // Keeps the turns of the current case, after those that it took before.
  void End() {
    if (current == nullptr) return;
    Turns& kept = turns[current->of];
    const size_t count = current->variants.all.size();
    kept.names.resize(count);
    kept.seconds.resize(count);
    for (size_t v = 0; v < count; ++v) {
      kept.names[v] = current->variants.all[v].name;
      const std::vector<double>& seconds = current->seconds[v];
      kept.seconds[v].insert(kept.seconds[v].end(), seconds.begin(), seconds.end());
    }
    current.reset();
  }

  // The lines of the table, cases in the order in which they were added.
  std::vector<Row> Rows() const {
    std::vector<Row> rows;
    for (const Case& c : Cases()) {
      const auto found = turns.find(&c);
      if (found != turns.end()) AddRows(c, found->second, &rows);
      const auto sized = sizes.find(&c);
      if (sized != sizes.end()) AddSizes(c, sized->second, &rows);
    }
    AddMeans(&rows);
    return rows;
  }

  static void AddMeans(std::vector<Row>* rows) {
    std::vector<Row> means;
    for (const auto& [mean, cases] : Means()) {
      double count = 0, ours = 0, peer = 0, ratio = 0;  // sums of logarithms
      for (const Row& row : *rows) {
        if (row.is_size || row.peer_name != mean.peer) continue;
        if (!std::regex_search(row.of, cases)) continue;
        ++count;
        ours += std::log(row.ours);
        peer += std::log(row.peer);
        ratio += std::log(row.ratio);
      }
      if (count == 0) continue;
      means.push_back({mean.name, mean.name, mean.peer, std::exp(ours / count),
                       std::exp(peer / count), std::exp(ratio / count), mean.at_least, 0});
    }
    rows->insert(rows->end(), means.begin(), means.end());
  }

  void AddSizes(const Case& c, const Sizes& of, std::vector<Row>* rows) const {
    const double ratio = of.ours > 0 ? of.peer / of.ours : 1;
    for (const Bound& bound : c.bounds) {
      rows->push_back({c.bounds.size() > 1 ? c.name + ":" + bound.peer : c.name, c.name, bound.peer,
                       of.ours, of.peer, ratio, Least(bound), bound.published, /*is_size=*/true});
    }
  }

  double Least(const Bound& bound) const {
    const bool has_other = bounds == BoundsFor::kAvx2 && bound.at_least_on_avx2 > 0;
    return has_other ? bound.at_least_on_avx2 : bound.at_least;
  }

  void AddRows(const Case& c, const Turns& kept, std::vector<Row>* rows) const {
    const std::vector<std::vector<double>>& seconds = kept.seconds;
    const double ours = Median(seconds[0]);
    const size_t lines = c.bounds.size() + (c.limit_seconds > 0 ? 1 : 0);
    const auto add = [&](const std::string& peer_name, double peer, double ratio, double bound,
                         double published = 0) {
      rows->push_back({lines > 1 ? c.name + ":" + peer_name : c.name, c.name, peer_name, ours, peer,
                       ratio, bound, published});
    };
    for (const Bound& bound : c.bounds) {
      std::vector<double> peer_seconds, ratios;
      for (size_t turn = 0; turn < seconds[0].size(); ++turn) {
        double fastest = -1;
        for (size_t v = 1; v < seconds.size(); ++v) {
          if (bound.peer != Bound::kBest && bound.peer != kept.names[v]) continue;
          if (fastest < 0 || seconds[v][turn] < fastest) fastest = seconds[v][turn];
        }
        if (fastest < 0) continue;  // no such peer in this build
        peer_seconds.push_back(fastest);
        ratios.push_back(fastest / seconds[0][turn]);
      }
      if (!ratios.empty()) {
        add(bound.peer, Median(peer_seconds), Median(ratios), Least(bound), bound.published);
      }
    }
    if (c.limit_seconds > 0) add("limit", c.limit_seconds, c.limit_seconds / ours, 1.0);
  }
};

// The body of one Google Benchmark: every iteration is a turn. The counters are medians of this
// call's turns alone, so that repetitions are samples that know nothing of each other.
void RunCase(const Case& c, Session* session, benchmark::State& state) {
  if (c.sizes != nullptr) {
    Sizes& sizes = session->sizes[&c];
    for (auto _ : state) sizes = c.sizes();
    state.counters["size_bytes"] = sizes.ours;
    return;
  }
  session->Begin(c);
  Measurement& m = *session->current;
  const size_t before = m.seconds[0].size();
  for (auto _ : state) m.TakeTurn();
  while (m.seconds[0].size() - before < kMinTurns) m.TakeTurn();
  const auto median = [&](size_t v) {
    const auto first = m.seconds[v].begin() + static_cast<std::ptrdiff_t>(before);
    return Median({first, m.seconds[v].end()});
  };
  for (size_t v = 0; v < m.seconds.size(); ++v) {
    // By this name records tell a comparing benchmark and its own time: without it they would take
    // the time of a turn, which is the same however fast ours is.
    state.counters[v == 0 ? "ours" : m.variants.all[v].name] = median(v);
  }
  const double ours = median(0);
  if (c.bytes > 0) {
    const double copy = CopyBandwidth(c.bytes);
    state.counters["bytes/s"] = c.bytes / ours;
    state.counters["of_copy"] = c.bytes / ours / copy;
    for (size_t v = 1; v < m.seconds.size(); ++v) {
      if (m.variants.all[v].name != "loop") continue;
      state.counters["loop_of_copy"] = c.bytes / median(v) / copy;
    }
  }
  if (c.flops > 0) state.counters["flop/s"] = c.flops / ours;
  if (c.items > 0) state.counters["items/s"] = c.items / ours;
}

std::string Seconds(double seconds) {
  struct Unit {
    double seconds;
    const char* name;
  };
  char text[32];
  for (const Unit& unit : {Unit{1, "s"}, Unit{1e-3, "ms"}, Unit{1e-6, "us"}}) {
    if (seconds < unit.seconds) continue;
    std::snprintf(text, sizeof(text), "%.4g%s", seconds / unit.seconds, unit.name);
    return text;
  }
  std::snprintf(text, sizeof(text), "%.4gns", seconds * 1e9);
  return text;
}

std::string Bytes(double bytes) {
  int unit = 0;
  for (; bytes >= 1024 && unit < 3; ++unit) bytes /= 1024;
  char text[32];
  std::snprintf(text, sizeof(text), "%.4g%s", bytes,
                std::array{"B", "KiB", "MiB", "GiB"}[static_cast<size_t>(unit)]);
  return text;
}

// Prints the table and says whether every case reaches its bound.
bool Report(const std::vector<Row>& rows) {
  bool all_reached = true;
  size_t width = 0;
  for (const Row& row : rows) width = std::max(width, row.name.size());
  for (const Row& row : rows) {
    const bool reached = row.ratio >= row.bound;
    all_reached = all_reached && reached;
    const auto text = row.is_size ? Bytes : Seconds;
    std::printf("ratio %-*s %9s %9s %6.2f %6.2f %s", static_cast<int>(width), row.name.c_str(),
                text(row.ours).c_str(), text(row.peer).c_str(), row.ratio, row.bound,
                reached ? "ok" : "short");
    if (row.published > 0) std::printf(" published %.2f", row.published);
    std::printf("\n");
  }
  std::fflush(stdout);
  return all_reached;
}

}  // namespace

void AddCase(Case c) { Cases().push_back(std::move(c)); }

void AddMean(const Mean& mean) { Means().push_back({mean, std::regex(mean.cases)}); }

BoundsFor BoundsOfProcessor() {
#if defined(__x86_64__)
  if (!__builtin_cpu_supports("avx512f")) return BoundsFor::kAvx2;
#endif
  return BoundsFor::kAvx512;
}

int RunAll(int argc, char** argv, BoundsFor bounds) {
  bool check = false;
  std::string filter;
  std::vector<char*> others;  // what Google Benchmark is to see
  for (int i = 0; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--check") {
      check = true;
    } else if (flag.starts_with("--filter=")) {
      filter = flag.substr(flag.find('=') + 1);
    } else {
      others.push_back(argv[i]);
    }
  }
  if (std::find(others.begin(), others.end(), std::string_view("--help")) != others.end()) {
    std::cout << "--check         exit status 1 where a case is short of its bound\n"
                 "--filter=REGEX  run the cases whose name holds a match\n"
                 "and Google Benchmark's flags:\n";
  }
  int count = static_cast<int>(others.size());
  others.push_back(nullptr);
  benchmark::Initialize(&count, others.data());
  if (benchmark::ReportUnrecognizedArguments(count, others.data())) return 2;

  Session session;
  session.bounds = bounds;
  try {
    const std::regex wanted(filter);
    for (const Case& c : Cases()) {
      if (!std::regex_search(c.name, wanted)) continue;
      benchmark::RegisterBenchmark(c.name.c_str(), [&c, &session](benchmark::State& state) {
        RunCase(c, &session, state);
      })->UseRealTime();
    }
  } catch (const std::regex_error& error) {
    std::cerr << "--filter=" << filter << ": " << error.what() << "\n";
    return 2;
  }
  // Without an argument, Google Benchmark 1.7 deletes the reporter that it would use the next time.
  benchmark::RunSpecifiedBenchmarks(benchmark::CreateDefaultDisplayReporter());
  session.End();
  benchmark::ClearRegisteredBenchmarks();
  const bool all_reached = Report(session.Rows());
  return session.results_agree && (all_reached || !check) ? 0 : 1;
}

}  // namespace tessera::benchmarking
