// Gradients of two devices pushed, summed and pulled.
#include <cstdint>

#include "benchmark/benchmark.h"
#include "tessera/kvstore/kvstore.h"

namespace tessera {
namespace {

void BM_PushPull(benchmark::State& state) {
  const int64_t n = state.range(0);
  const auto store = KVStore::Create("local");
  NDArray weight(TShape{n}), one(TShape{n}), other(TShape{n});
  weight = 1.0f;
  one = 0.5f;
  other = 0.25f;
  store->Init("weight", weight);
  for (auto _ : state) {
    store->Push("weight", {one, other});
    store->Pull("weight", weight);
    weight.WaitToRead();
  }
  // The sum reads two and writes one, the copies to the store and from it read and write one each.
  state.SetItemsProcessed(state.iterations() * n);
  state.SetBytesProcessed(state.iterations() * n * 7 * static_cast<int64_t>(sizeof(float)));
}
// A bias, a layer, an embedding.
BENCHMARK(BM_PushPull)->Arg(128)->Arg(1 << 16)->Arg(1 << 22)->UseRealTime();

}  // namespace
}  // namespace tessera

BENCHMARK_MAIN();
