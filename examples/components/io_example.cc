// Batches from a data set, shuffled by a seed and padded at the end.
#include <cstdio>

#include "tessera/io/ndarray_iter.h"

using namespace tessera;  // NOLINT

int main() {
  const NDArray x = NDArray::FromVector(std::vector<float>{0, 1, 2, 3, 4, 5}, {3, 2});
  const NDArray y = NDArray::FromVector(std::vector<float>{0, 1, 0}, {3});
  NDArrayIter batches({{"data", x}}, {{"softmax_label", y}},
                      {.batch_size = 2, .shuffle = true, .seed = 1});
  while (batches.Next()) {
    const DataBatch& batch = batches.GetBatch();
    for (const float value : batch.data[0].ToVector()) std::printf("%g ", value);
    std::printf("pad %ld\n", static_cast<long>(batch.pad));
  }
}
