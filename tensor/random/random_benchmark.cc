// How fast one core fills arrays with random numbers, next to the standard library's generators.
// The bounds: uniform 2 GB/s and normal 1 GB/s a core, for float.

#include <random>
#include <span>
#include <vector>

#include "benchmark/benchmark.h"
#include "tbb/global_control.h"
#include "tessera/tensor/random/random.h"

namespace tessera {
namespace {

// In L2: the numbers' cost, not memory's.
constexpr size_t kSize = 64 << 10;

template <typename T, typename Fill>
void Run(benchmark::State& state, const Fill& fill) {
  const tbb::global_control one_core(tbb::global_control::max_allowed_parallelism, 1);
  std::vector<T> values(kSize);
  Random<cpu> random(1);
  for (auto _ : state) {
    fill(random, std::span(values));
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kSize * sizeof(T)));
}

template <typename T>
void BM_Uniform(benchmark::State& state) {
  Run<T>(state, [](Random<cpu>& random, std::span<T> out) { random.SampleUniform(out); });
}
BENCHMARK(BM_Uniform<float>);
BENCHMARK(BM_Uniform<double>);
BENCHMARK(BM_Uniform<half_t>);

template <typename T>
void BM_Gaussian(benchmark::State& state) {
  Run<T>(state, [](Random<cpu>& random, std::span<T> out) { random.SampleGaussian(out); });
}
BENCHMARK(BM_Gaussian<float>);
BENCHMARK(BM_Gaussian<double>);
BENCHMARK(BM_Gaussian<half_t>);

void BM_Bernoulli(benchmark::State& state) {
  Run<float>(state, [](Random<cpu>& r, std::span<float> out) { r.SampleBernoulli(out, 0.5); });
}
BENCHMARK(BM_Bernoulli);

void BM_Exponential(benchmark::State& state) {
  Run<float>(state, [](Random<cpu>& r, std::span<float> out) { r.SampleExponential(out, 1); });
}
BENCHMARK(BM_Exponential);

void BM_RandInt(benchmark::State& state) {
  Run<int32_t>(state, [](Random<cpu>& r, std::span<int32_t> out) { r.SampleRandInt(out, 0, 10); });
}
BENCHMARK(BM_RandInt);

void BM_Gamma(benchmark::State& state) {
  Run<float>(state, [](Random<cpu>& r, std::span<float> out) { r.SampleGamma(out, 2.5); });
}
BENCHMARK(BM_Gamma);

void BM_Poisson(benchmark::State& state) {
  const auto mean = static_cast<double>(state.range(0));
  Run<float>(state, [mean](Random<cpu>& r, std::span<float> out) { r.SamplePoisson(out, mean); });
}
BENCHMARK(BM_Poisson)->Arg(3)->Arg(100);

/// The standard library's, for comparison.
void BM_StdUniform(benchmark::State& state) {
  std::mt19937 engine(1);
  std::uniform_real_distribution<float> uniform;
  Run<float>(state, [&](Random<cpu>&, std::span<float> out) {
    for (float& value : out) value = uniform(engine);
  });
}
BENCHMARK(BM_StdUniform);

void BM_StdGaussian(benchmark::State& state) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  Run<float>(state, [&](Random<cpu>&, std::span<float> out) {
    for (float& value : out) value = normal(engine);
  });
}
BENCHMARK(BM_StdGaussian);

}  // namespace
}  // namespace tessera

BENCHMARK_MAIN();
