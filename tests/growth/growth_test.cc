// Memory does not grow over many calls: arrays made and freed, operators called, the tape recorded
// and played back, compiled functions. TESSERA_TEST_CALLS sets the number of calls.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <vector>

#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/storage/storage.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

/// The resident memory may grow by so much: the queue of pending operations is longer at times. An
/// object of 32 bytes that each of 100,000 calls leaves behind is more.
constexpr int64_t kAllowedBytes = 2 << 20;
/// Calls between two waits, so that pending operations do not count.
constexpr int64_t kCallsPerWait = 500;

int64_t Calls() {
  const char* const text = std::getenv("TESSERA_TEST_CALLS");
  return text == nullptr || *text == '\0' ? 100000 : std::strtoll(text, nullptr, 10);
}

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

void Repeat(int64_t count, const std::function<void()>& call) {
  for (int64_t i = 1; i <= count; ++i) {
    call();
    if (i % kCallsPerWait == 0 || i == count) NDArray::WaitAll();
  }
}

/// Expects that calls leave memory as it was after a tenth of them. Of the last ones, `late_frees`
/// small blocks may be freed after the wait for them.
void ExpectNoGrowth(const std::function<void()>& call, int64_t calls = Calls(),
                    int64_t late_frees = 0) {
  Repeat(calls / 10, call);
  const StorageStats before = Storage::Get()->Stats(Device::Cpu());
  const int64_t resident = ResidentBytes();
  Repeat(calls, call);
  const StorageStats after = Storage::Get()->Stats(Device::Cpu());
  const auto near = [](int64_t found, int64_t expected, int64_t bound) {
    EXPECT_GE(found, expected - bound);
    EXPECT_LE(found, expected + bound);
  };
  near(after.live_bytes, before.live_bytes, late_frees * 256);
  near(after.allocations - before.allocations, after.frees - before.frees, late_frees);
  EXPECT_LE(after.reserved_bytes, before.reserved_bytes + (64 << 10));
  EXPECT_LE(ResidentBytes(), resident + kAllowedBytes);
}

NDArray Ones(const TShape& shape) {
  NDArray array(shape);
  array = 1.0f;
  return array;
}

TEST(GrowthTest, ArraysMadeAndFreed) {
  ExpectNoGrowth([] {
    NDArray array(TShape{4, 4});
    array = 2.0f;
    const NDArray view = array.Slice(1, 3).Reshape({8});
  });
}

TEST(GrowthTest, OperatorsCalled) {
  const NDArray a = Ones({16}), b = Ones({16});
  ExpectNoGrowth([&] {
    const NDArray c = Invoke("relu", {a + b})[0];
    Invoke("elemwise_add", {c, b}, {c});
  });
}

TEST(GrowthTest, TheTapePlayedBack) {
  const NDArray b = Ones({16});
  NDArray a = Ones({16});
  a.AttachGrad();
  ExpectNoGrowth([&] {
    NDArray c;
    {
      const autograd::Record record;
      c = Invoke("tanh", {a * b})[0];
    }
    c.Backward();
  });
}

TEST(GrowthTest, StepsOfASparseEmbedding) {
  const NDArray weight = Ones({1000, 4});
  NDArray variable = weight.Detach();
  NDArray gradient = sparse::Zeros(StorageType::kRowSparse, weight.shape());
  const OpReqType req = kWriteTo;
  autograd::MarkVariables({&variable, 1}, {&gradient, 1}, {&req, 1});
  float row = 0;
  // A step has about ten calls of operators.
  ExpectNoGrowth(
      [&] {
        row = row == 997 ? 0 : row + 1;
        const NDArray rows_of_batch =
            NDArray::FromVector(std::vector<float>{row, row + 1, row}, {3});
        NDArray rows;
        {
          const autograd::Record record;
          rows = Invoke("Embedding", {rows_of_batch, variable},
                        {{"input_dim", "1000"}, {"output_dim", "4"}, {"sparse_grad", "True"}})[0];
        }
        rows.Backward();
        Invoke("sgd_update", {weight, gradient}, {weight}, {{"lr", "0.01"}});
      },
      Calls() / 10, 32);
}

TEST(GrowthTest, ATapeThatNobodyPlaysBack) {
  NDArray a = Ones({16});
  a.AttachGrad();
  const autograd::Record record;
  ExpectNoGrowth([&] { const NDArray c = Invoke("tanh", {a * a})[0]; });
}

TEST(GrowthTest, AGraphThatBackwardKeeps) {
  NDArray a = Ones({16});
  a.AttachGrad();
  NDArray c;
  {
    const autograd::Record record;
    c = Invoke("tanh", {a * a})[0];
  }
  ExpectNoGrowth([&] { c.Backward({}, {.retain_graph = true}); });
}

TEST(GrowthTest, AnAccumulatorThatIsRecorded) {
  // Each value replaces its predecessor, whose history goes with it once nobody needs it.
  NDArray a = Ones({16});
  a.AttachGrad();
  ExpectNoGrowth([&] {
    const autograd::Record record;
    NDArray sum = a * 1.0f;
    for (int i = 0; i < 3; ++i) sum = sum + a;
  });
}

TEST(GrowthTest, ACompiledFunctionOnTheTape) {
  const Symbol x = Symbol::Variable("x");
  const CachedOp function(Symbol::Apply("tanh", {x * 2.0}) + x);
  NDArray a = Ones({16});
  a.AttachGrad();
  ExpectNoGrowth([&] {
    std::vector<NDArray> out;
    {
      const autograd::Record record;
      out = function({a});
    }
    out[0].Backward();
  });
}

TEST(GrowthTest, AnErrorInEachCall) {
  const NDArray a = Ones({16}), b = Ones({15});
  ExpectNoGrowth([&] { EXPECT_ANY_THROW(a + b); });
}

}  // namespace
}  // namespace tessera
