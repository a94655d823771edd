// What an Alloc and Free cost, next to malloc and free in the same run.

#include <cstdint>
#include <cstdlib>

#include "benchmark/benchmark.h"
#include "tessera/storage/storage.h"

namespace tessera {
namespace {

struct Pooled {
  static void Pair(int64_t size_bytes, bool touch) {
    Storage* storage = Storage::Get();
    const Storage::Handle block = storage->Alloc(size_bytes, Device::Cpu());
    Touch(block.dptr, size_bytes, touch);
    storage->Free(block);
  }
  static void Touch(void* const ptr, int64_t size_bytes, bool touch) {
    benchmark::DoNotOptimize(ptr);
    if (!touch) return;
    constexpr int64_t kPageBytes = 4096;
    for (int64_t i = 0; i < size_bytes; i += kPageBytes) static_cast<volatile char*>(ptr)[i] = 1;
  }
};

struct Malloc {
  static void Pair(int64_t size_bytes, bool touch) {
    void* ptr = std::malloc(static_cast<size_t>(size_bytes));
    Pooled::Touch(ptr, size_bytes, touch);
    std::free(ptr);
  }
};

/// One block at a time: the cost of a hit in the thread's cache, or in the pool for large blocks.
template <typename Allocator>
void BM_Pair(benchmark::State& state) {
  for (auto _ : state) Allocator::Pair(state.range(0), /*touch=*/false);
  state.SetItemsProcessed(state.iterations());
}
// A scalar, the last size that threads cache, one that they do not, a batch of images.
BENCHMARK(BM_Pair<Pooled>)->Arg(64)->Arg(64 << 10)->Arg(1 << 20)->Arg(64 << 20);
BENCHMARK(BM_Pair<Malloc>)->Arg(64)->Arg(64 << 10)->Arg(1 << 20)->Arg(64 << 20);
BENCHMARK(BM_Pair<Pooled>)->Arg(64)->Arg(1 << 20)->Threads(8)->UseRealTime();
BENCHMARK(BM_Pair<Malloc>)->Arg(64)->Arg(1 << 20)->Threads(8)->UseRealTime();

/// As above, with one byte written to each page: fresh memory costs page faults, reused does not.
template <typename Allocator>
void BM_TouchedPair(benchmark::State& state) {
  Allocator::Pair(state.range(0), /*touch=*/true);
  for (auto _ : state) Allocator::Pair(state.range(0), /*touch=*/true);
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_TouchedPair<Pooled>)->Arg(1 << 20)->Arg(8 << 20)->Arg(64 << 20);
BENCHMARK(BM_TouchedPair<Malloc>)->Arg(1 << 20)->Arg(8 << 20)->Arg(64 << 20);

}  // namespace
}  // namespace tessera

BENCHMARK_MAIN();
