// The most that this machine can do, on one core: bytes copied a second within each level of its
// memory, and floating-point operations a second in registers and in a product of matrices. And how
// near two of its cores are to each other.
// Fractions of the roofline (S. Williams, A. Waterman, D. Patterson, "Roofline: an insightful
// visual performance model for multicore architectures", CACM 52, 2009) are relative to these.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "benchmark/benchmark.h"
#include "tbb/info.h"
#include "tbb/task_arena.h"
#include "tessera/tensor/tensor.h"

namespace tessera {
namespace {

void BM_Copy(benchmark::State& state, size_t size_bytes) {
  std::vector<char> from(size_bytes, 1), to(size_bytes, 2);
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), size_bytes);
    benchmark::ClobberMemory();
  }
  // Both what is read and what is written.
  state.SetBytesProcessed(state.iterations() * 2 * static_cast<int64_t>(size_bytes));
}

// Enough independent sums to hide the latency of a fused multiply-add (4 or 5 cycles) on two units,
// and few enough for the 16 registers of AVX2.
constexpr int kSums = 12;
constexpr int kSteps = 1 << 12;

#define TESSERA_FMA_LOOP(Vector)                                                                \
  Vector sums[kSums];                                                                           \
  for (int i = 0; i < kSums; ++i) sums[i] = Vector{} + (start + i);                             \
  const Vector factor = Vector{} + 0.999f, term = Vector{} + start;                             \
  for (int step = 0; step < kSteps; ++step) {                                                   \
    _Pragma("GCC unroll 12") for (int i = 0; i < kSums; ++i) sums[i] = sums[i] * factor + term; \
  }                                                                                             \
  float total = 0;                                                                              \
  for (const Vector& sum : sums) total += sum[0];                                               \
  return total

using Vector4 = float __attribute__((vector_size(16)));
float FmaBaseline(float start) { TESSERA_FMA_LOOP(Vector4); }

#ifdef __x86_64__
using Vector8 = float __attribute__((vector_size(32)));
using Vector16 = float __attribute__((vector_size(64)));
__attribute__((target("avx2,fma"))) float FmaAvx2(float start) { TESSERA_FMA_LOOP(Vector8); }
__attribute__((target("avx512f"))) float FmaAvx512(float start) { TESSERA_FMA_LOOP(Vector16); }
#endif

#undef TESSERA_FMA_LOOP

void BM_Fma(benchmark::State& state, float (*loop)(float), int lanes) {
  float start = 0.5f;
  for (auto _ : state) {
    benchmark::DoNotOptimize(start);
    benchmark::DoNotOptimize(loop(start));
  }
  state.counters["flop/s"] = benchmark::Counter(2.0 * kSums * kSteps * lanes,
                                                benchmark::Counter::kIsIterationInvariantRate);
}

void RegisterFma() {
  float (*loop)(float) = FmaBaseline;
  int lanes = 4;
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx512f")) {
    loop = FmaAvx512;
    lanes = 16;
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    loop = FmaAvx2;
    lanes = 8;
  }
#endif
  benchmark::RegisterBenchmark("fma/float", [=](benchmark::State& state) {
    BM_Fma(state, loop, lanes);
  })->UseRealTime();
}

void BM_Gemm(benchmark::State& state, index_t n) {
  TensorContainer<cpu, 2> a(Shape2(n, n), 0.5f), b(Shape2(n, n), 0.25f), c(Shape2(n, n));
  tbb::task_arena one(1);
  for (auto _ : state) {
    one.execute([&] { c = dot(a, b); });
    benchmark::ClobberMemory();
  }
  const double flops =
      2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
  state.counters["flop/s"] =
      benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

// How long a cache line takes from one core to another and back. No limit of the roofline: it tells
// of two processors of a virtual machine that are near each other in one session and far in
// another.
void BM_HandOver(benchmark::State& state) {
  enum Turn { kOurs, kTheirs, kEnd };
  constexpr int kLooks = 1024;  // then the other thread may need this core
  std::atomic<Turn> turn{kOurs};
  const auto await = [&turn](Turn over) {
    for (int looks = 1; turn.load(std::memory_order_acquire) == over; ++looks) {
      if (looks % kLooks == 0) std::this_thread::yield();
    }
  };
  std::thread other([&] {
    for (;;) {
      await(kOurs);
      if (turn.load(std::memory_order_relaxed) == kEnd) return;
      turn.store(kOurs, std::memory_order_release);
    }
  });
  for (auto _ : state) {
    turn.store(kTheirs, std::memory_order_release);
    await(kTheirs);
  }
  turn.store(kEnd, std::memory_order_release);
  other.join();
}

// The name says how many bytes one copy moves, both ways together.
void RegisterCopy(const std::string& level, size_t size_bytes) {
  const std::string name = "copy/" + level + "/" + std::to_string(2 * size_bytes);
  benchmark::RegisterBenchmark(name.c_str(), [size_bytes](benchmark::State& state) {
    BM_Copy(state, size_bytes);
  })->UseRealTime();
}

void RegisterCopies() {
  int64_t largest = 0;
  for (const benchmark::CPUInfo::CacheInfo& cache : benchmark::CPUInfo::Get().caches) {
    if (cache.type == "Instruction") continue;
    largest = std::max<int64_t>(largest, cache.size);
    // Source and destination fill half of the cache: the other half is the rest of the machine's.
    const auto size_bytes = static_cast<size_t>(cache.size / 4);
    std::string name = "L";
    name += std::to_string(cache.level);
    RegisterCopy(name, size_bytes);
  }
  // Twice the last cache each, but no more than a small machine can spare.
  const auto past =
      static_cast<size_t>(std::clamp<int64_t>(2 * largest, int64_t{64} << 20, int64_t{768} << 20));
  RegisterCopy("memory", past);
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  tessera::RegisterCopies();
  tessera::RegisterFma();
  // Large enough for its packing not to show, small enough for the second cache.
  benchmark::RegisterBenchmark("gemm/512x512x512", [](benchmark::State& state) {
    tessera::BM_Gemm(state, 512);
  })->UseRealTime();
  if (tbb::info::default_concurrency() > 1) {
    benchmark::RegisterBenchmark("hand_over/there_and_back", tessera::BM_HandOver)->UseRealTime();
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
