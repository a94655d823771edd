// What steps on sparse arrays allocate, as Storage counts it.
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/device.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/sparse.h"
#include "tessera/storage/storage.h"

namespace tessera {
namespace {

using ndarray_testing::Vector;
using ::testing::ElementsAre;

/// Storage counts exactly to some MiB; a dense array of these tests has 64 MB or more.
constexpr int64_t kFewBytes = 8 << 20;

/// Returns the bytes that a call takes beyond those that are live before it.
int64_t BytesTakenBy(const std::function<void()>& call) {
  NDArray::WaitAll();
  Storage& storage = *Storage::Get();
  storage.MarkPeak(Device::Cpu());
  const int64_t before = storage.Stats(Device::Cpu()).live_bytes;
  call();
  NDArray::WaitAll();
  return storage.Stats(Device::Cpu()).peak_since_mark_bytes - before;
}

TEST(SparseMemoryTest, DenseArraysAreSeen) {
  EXPECT_GT(BytesTakenBy([] {
              NDArray array({1'000'000, 16});
              array = 1;
              array.WaitToRead();
            }),
            5 * kFewBytes);
}

TEST(SparseMemoryTest, AStepOfAnEmbeddingTakesMemoryForTheRowsOfABatch) {
  const TShape shape = {1'000'000, 16};  // 64 MB
  NDArray weight(shape), momentum(shape), mean(shape), variance(shape);
  for (NDArray* array : {&weight, &momentum, &mean, &variance}) *array = 0;
  NDArray variable = weight.Detach();
  NDArray gradient = sparse::Zeros(StorageType::kRowSparse, shape);
  const OpReqType req = kWriteTo;
  autograd::MarkVariables({&variable, 1}, {&gradient, 1}, {&req, 1});
  const ParameterMap sizes = {
      {"input_dim", "1000000"}, {"output_dim", "16"}, {"sparse_grad", "True"}};
  const auto step = [&] {
    NDArray rows;
    {
      const autograd::Record record;
      rows = Invoke("Embedding", {Vector({7, 999'999, 7}), variable}, sizes)[0];
    }
    rows.Backward();
    Invoke("sgd_update", {weight, gradient}, {weight}, {{"lr", "1"}});
    Invoke("sgd_mom_update", {weight, gradient, momentum}, {weight},
           {{"lr", "1"}, {"momentum", "0.5"}});
    Invoke("adam_update", {weight, gradient, mean, variance}, {weight}, {{"lr", "0"}});
  };
  EXPECT_LT(BytesTakenBy(step), kFewBytes);
  EXPECT_LT(BytesTakenBy(step), kFewBytes);
  // Two gradients of 1 and 2, each with two steps; momentum adds half of the first one's.
  EXPECT_EQ(weight.Slice(999'999, 1'000'000).ToVector(), std::vector<float>(16, -4.5f));
  EXPECT_EQ(weight.Slice(7, 8).ToVector(), std::vector<float>(16, -9.0f));
  EXPECT_EQ(weight.Slice(8, 9).ToVector(), std::vector<float>(16, 0.0f));
}

TEST(SparseMemoryTest, ArraysMayBeLargerThanMemory) {
  // A dense one would have 4 * 10^15 bytes.
  const TShape shape = {1'000'000, 1'000'000'000};
  std::vector<float> ends(1'000'001, 2.0f);
  ends[0] = 0;
  EXPECT_LT(BytesTakenBy([&] {
              const NDArray csr =
                  sparse::FromCsr(Vector({3, 4}), NDArray::FromVector(ends, {1'000'001}),
                                  Vector({0, 999'999'936}), shape);
              const NDArray twice = csr * 2;
              EXPECT_EQ(StorageTypeOf(twice), StorageType::kCsr);
              EXPECT_THAT(Invoke("sum", {twice})[0].ToVector(), ElementsAre(14));
            }),
            16 * kFewBytes);
}

}  // namespace
}  // namespace tessera
