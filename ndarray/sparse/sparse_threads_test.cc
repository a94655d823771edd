// Threads that share sparse arrays. In .ci/run under ThreadSanitizer.
#include <cstdint>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/device.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/ops/sparse.h"

namespace tessera {
namespace {

using ndarray_testing::Read;
using ::testing::AnyOf;
using ::testing::Each;

const TShape kShape = {64, 8};

/// Returns an array of zeros but for ones at the first elements of row 5.
NDArray Ones(StorageType type, index_t count) {
  std::vector<float> elements(static_cast<size_t>(kShape.Size()), 0.0f);
  for (index_t i = 0; i < count; ++i) elements[static_cast<size_t>(40 + i)] = 1;
  return sparse::Cast(NDArray::FromVector(elements, kShape), type);
}

void RunTogether(const std::vector<std::function<void()>>& calls) {
  std::vector<std::thread> threads;
  for (const std::function<void()>& call : calls) {
    threads.emplace_back([&call] {
      for (int i = 0; i < 200; ++i) call();
    });
  }
  for (std::thread& thread : threads) thread.join();
  NDArray::WaitAll();
}

class SparseThreadsTest : public ::testing::TestWithParam<StorageType> {};

TEST_P(SparseThreadsTest, ReadersSeeWholeArraysBetweenWrites) {
  const NDArray shared = sparse::Zeros(GetParam(), kShape);
  const NDArray few = Ones(GetParam(), 8), many = Ones(GetParam(), 24 * 8);
  int written = 0;
  RunTogether({[&shared] {
                 const NDArray copy = shared.Copy(Device::Cpu());
                 EXPECT_THAT(Read(sparse::Values(copy)), Each(1));
                 sparse::CheckFormat(copy);
               },
               [&shared] {
                 EXPECT_THAT(Invoke("sum", {shared})[0].ToVector()[0], AnyOf(0, 8, 192));
                 sparse::CheckFormat(shared, /*full=*/false);
               },
               [&] { CopyFromTo(written++ % 2 == 0 ? few : many, shared); }});
}

TEST_P(SparseThreadsTest, WritersTakeTurns) {
  const NDArray shared = sparse::Zeros(GetParam(), kShape);
  const NDArray ones = Ones(GetParam(), 8);
  const auto add = [&] { Invoke("_copy", {&ones, 1}, {&shared, 1}, {}, kAddTo); };
  RunTogether({add, add, [&shared] { shared.WaitToRead(); }});
  EXPECT_THAT(Read(sparse::Values(shared)), Each(400));
}

INSTANTIATE_TEST_SUITE_P(Storage, SparseThreadsTest,
                         ::testing::Values(StorageType::kRowSparse, StorageType::kCsr));

}  // namespace
}  // namespace tessera
