// An epoch of shuffled batches out of arrays in memory.
#include <cstdint>

#include "benchmark/benchmark.h"
#include "tessera/io/ndarray_iter.h"

namespace tessera {
namespace {

void BM_ShuffledEpoch(benchmark::State& state) {
  constexpr int64_t kExamples = 4096, kPixels = 28 * 28;
  NDArray images(TShape{kExamples, kPixels}), labels(TShape{kExamples});
  images = 0.5f;
  labels = 1.0f;
  NDArrayIter batches({{"data", images}}, {{"softmax_label", labels}},
                      {.batch_size = state.range(0), .shuffle = true, .seed = 1});
  for (auto _ : state) {
    batches.BeforeFirst();
    while (batches.Next()) batches.GetBatch().data[0].WaitToRead();
  }
  state.SetItemsProcessed(state.iterations() * kExamples);
  state.SetBytesProcessed(state.iterations() * 2 * kExamples * kPixels *
                          static_cast<int64_t>(sizeof(float)));
}
// A small batch, where each costs most, and a large one, where its memory does.
BENCHMARK(BM_ShuffledEpoch)->Arg(32)->Arg(512)->UseRealTime();

}  // namespace
}  // namespace tessera

BENCHMARK_MAIN();
