// The memory that a call of a CachedOp asks of operator new, outputs included.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tessera/ndarray/autograd.h"
#include "tessera/ndarray/testing/array_values.h"
#include "tessera/symbol/cached_op.h"
#include "tessera/symbol/symbol.h"
#include "tessera/tools/testing/counted_new.h"

namespace tessera {
namespace {

using ndarray_testing::Vector;
using ::testing::Each;

/// The allocations that docs/graphs.md states of a call with one input and one output: the list of
/// outputs, the array and its chunk (3); the binding with its four lists (5); the arena and the
/// list of arenas (2); the run, the variables of an operation and the function that owns the run
/// (3).
constexpr int64_t kCallsOfNew = 13;

/// Returns a chain of operators that many nodes long.
Symbol Chain(const std::string& op, int size, const ParameterMap& parameters = {}) {
  Symbol x = Symbol::Variable("x");
  for (int i = 0; i < size; ++i) x = Symbol::Apply(op, {x}, parameters);
  return x;
}

/// Returns the calls of operator new that one call makes in this thread: the least number of many
/// calls, because the pools of storage and engine grow during the first ones.
int64_t NewsOfCall(const CachedOp& op, const NDArray& x) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < 100; ++i) {
    const int64_t before = NewCallsOfThisThread();
    const std::vector<NDArray> outputs = op({x});
    least = std::min(least, NewCallsOfThisThread() - before);
    NDArray::WaitAll();
  }
  return least;
}

TEST(CachedOpAllocationTest, ACallMakesTheStatedNumberHoweverLongTheGraphIs) {
  const NDArray x = Vector({1, 1, 1});
  // Up to 32 nodes of such a chain are one step, whose results lie in no memory.
  EXPECT_EQ(NewsOfCall(CachedOp(Chain("_plus_scalar", 10, {{"scalar", "1"}})), x), kCallsOfNew - 1);
  for (const int size : {40, 57, 1000}) {
    const Symbol chain = Chain("_plus_scalar", size, {{"scalar", "1"}});
    const CachedOp op(chain);
    EXPECT_THAT(op({x})[0].ToVector(), Each(static_cast<float>(size + 1)));
    EXPECT_EQ(NewsOfCall(op, x), kCallsOfNew) << size << " nodes";
    // The arena is kept.
    EXPECT_EQ(NewsOfCall(CachedOp(chain, {.static_alloc = true}), x), kCallsOfNew - 1)
        << size << " nodes";
  }
}

TEST(CachedOpAllocationTest, RecordedCallsMakeAsManyForLongGraphs) {
  NDArray x = Vector({1, 1, 1});
  x.AttachGrad();
  const auto news_of_call = [&](int size) {
    const autograd::Record record;
    return NewsOfCall(CachedOp(Chain("tanh", size)), x);
  };
  const int64_t news = news_of_call(10);
  EXPECT_GT(news, kCallsOfNew);
  EXPECT_EQ(news_of_call(1000), news);
}

}  // namespace
}  // namespace tessera
