// The cost of an asynchronous array beyond the arithmetic: a * b + 1, pushed and waited for.
#include <cstdint>

#include "benchmark/benchmark.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera {
namespace {

void BM_MultiplyAdd(benchmark::State& state) {
  const int64_t n = state.range(0);
  NDArray a(TShape{n}), b(TShape{n});
  a = 2.0f;
  b = 3.0f;
  for (auto _ : state) {
    const NDArray c = a * b + 1.0f;
    c.WaitToRead();
  }
  // Two operations: two reads and a write, then one of each.
  state.SetBytesProcessed(state.iterations() * n * 5 * static_cast<int64_t>(sizeof(float)));
  state.SetItemsProcessed(state.iterations() * n);
}
// The engine's cost alone, the first cache, past the last.
BENCHMARK(BM_MultiplyAdd)->Arg(1)->Arg(4096)->Arg(1 << 24)->UseRealTime();

}  // namespace
}  // namespace tessera

BENCHMARK_MAIN();
