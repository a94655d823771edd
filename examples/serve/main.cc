// Answers the examples in .npy files by a network that MXNet or Tessera has saved,
// PREFIX-symbol.json and PREFIX-0003.params, prints the five largest outputs of each, and measures
// further requests:
//
//   bazel run //examples/serve -- --model=PREFIX --epoch=3 images.npy more.npy
//
// Threads ask about one example at a time; the server answers in batches what is asked at one time.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <mutex>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "tessera/examples/command_line/command_line.h"
#include "tessera/examples/serve/examples.h"
#include "tessera/examples/serve/memory.h"
#include "tessera/examples/serve/server.h"
#include "tessera/train/checkpoint.h"

namespace tessera::serve {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The options of the command line.
struct Options {
  std::string model;
  int epoch = 0;
  int threads = 8;
  int batch = 4;
  int64_t requests = 1000;
  double scale = 1;
  std::vector<std::string> inputs;
};

/// Calls function(i) for i from begin to end - 1, from several threads. Throws the first exception.
template <typename Function>
void CallFromThreads(int num_threads, size_t begin, size_t end, const Function& function) {
  std::atomic<size_t> next = begin;
  std::mutex mutex;
  std::exception_ptr error;
  std::vector<std::thread> threads;
  for (int i = 0; i < num_threads; ++i) {
    threads.emplace_back([&] {
      try {
        for (size_t call = next++; call < end; call = next++) function(call);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
        next = end;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (error) std::rethrow_exception(error);
}

/// Prints the places and values of the largest five numbers.
void PrintTopFive(const std::string& name, const std::vector<float>& answer) {
  std::vector<size_t> places(answer.size());
  std::iota(places.begin(), places.end(), size_t{0});
  const auto last = places.begin() + std::min<std::ptrdiff_t>(5, std::ssize(places));
  std::partial_sort(places.begin(), last, places.end(),
                    [&](size_t a, size_t b) { return answer[a] > answer[b]; });
  std::printf("%s:", name.c_str());
  for (auto place = places.begin(); place != last; ++place) {
    std::printf(" %zu (%.4g)", *place, answer[*place]);
  }
  std::printf("\n");
}

void PrintMemory(int64_t requests) {
  const Memory memory = MeasureMemory();
  std::printf("memory after %lld requests: resident %lld bytes, arrays %lld bytes\n",
              static_cast<long long>(requests), static_cast<long long>(memory.resident_bytes),
              static_cast<long long>(memory.array_bytes));
}

/// Sends requests around the examples, and prints how long they took.
void Measure(const Options& options, const Examples& examples, Server* server) {
  const size_t count = static_cast<size_t>(options.requests);
  std::vector<double> seconds(count, 0.0);
  const auto send = [&](size_t begin, size_t end) {
    CallFromThreads(options.threads, begin, end, [&](size_t i) {
      const Clock::time_point start = Clock::now();
      server->Answer(examples[i % examples.size()]);
      seconds[i] = SecondsSince(start);
    });
  };
  // What the threads keep for themselves grows at first.
  send(0, count / 10);
  PrintMemory(options.requests / 10);
  const size_t batches = server->num_batches();
  const Clock::time_point start = Clock::now();
  send(count / 10, count);
  const double elapsed = SecondsSince(start);
  PrintMemory(options.requests);
  const double measured = static_cast<double>(count - count / 10);
  std::sort(seconds.begin(), seconds.end());
  std::printf("%d threads: p50 %.3f ms, p99 %.3f ms, %.0f requests/s, %.2f requests in a batch\n",
              options.threads, seconds[count / 2] * 1e3, seconds[count * 99 / 100] * 1e3,
              measured / elapsed, measured / static_cast<double>(server->num_batches() - batches));
}

void Run(const Options& options) {
  const Examples examples(options.inputs, options.scale);
  Server server(LoadCheckpoint(options.model, options.epoch), examples.shape(),
                static_cast<size_t>(options.batch));
  std::vector<std::vector<float>> answers(examples.size());
  CallFromThreads(options.threads, 0, examples.size(),
                  [&](size_t i) { answers[i] = server.Answer(examples[i]); });
  for (size_t i = 0; i < answers.size(); ++i) PrintTopFive(examples.name(i), answers[i]);
  if (options.requests > 0) Measure(options, examples, &server);
}

void Main(int argc, char** argv) {
  using command_line::CheckDecimal;
  constexpr int kMost = std::numeric_limits<int>::max();
  Options options;
  CLI::App app("Answers the examples in .npy files by a saved network.", "serve");
  app.option_defaults()->always_capture_default();
  app.add_option("--model", options.model, "prefix of the network's two files")->required();
  app.add_option("--epoch", options.epoch, "number in the name of the parameters' file")
      ->check(CheckDecimal)
      ->check(CLI::Range(0, kMost));
  app.add_option("--threads", options.threads, "threads that ask")
      ->check(CheckDecimal)
      ->check(CLI::Range(1, 1024));
  app.add_option("--batch", options.batch, "most examples that are computed together")
      ->check(CheckDecimal)
      ->check(CLI::Range(1, 64));
  app.add_option("--requests", options.requests, "requests to measure, after each example's answer")
      ->check(CheckDecimal)
      ->check(CLI::Range(0, kMost));
  app.add_option("--scale", options.scale, "factor of the examples' elements");
  app.add_option("inputs", options.inputs, ".npy files whose first axis counts examples")
      ->required();
  if (!command_line::Parse(&app, argc, argv)) return;
  options.model = command_line::FromUsersFolder(options.model);
  for (std::string& input : options.inputs) input = command_line::FromUsersFolder(input);
  Run(options);
}

}  // namespace
}  // namespace tessera::serve

int main(int argc, char** argv) {
  return tessera::command_line::RunProgram("serve", [&] { tessera::serve::Main(argc, argv); });
}
