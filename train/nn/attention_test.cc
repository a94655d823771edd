#include "tessera/train/nn/attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/base/testing/errors.h"
#include "tessera/train/nn/testing/gluon_values.h"

namespace tessera::nn {
namespace {

using base_testing::ExpectError;
using nn_testing::Fill;
using testing::FloatNear;
using testing::Pointwise;

/// Returns positions [begin, end) of (batch, positions, channels).
NDArray Positions(const NDArray& x, index_t begin, index_t end) {
  return x.Index({AxisSlice{}, AxisSlice{.begin = begin, .end = end}});
}

TEST(AttentionTest, StepsGiveWhatTheWholeSequenceGives) {
  for (const bool rotary : {false, true}) {
    SCOPED_TRACE(rotary);
    MultiHeadAttention attention(8, 2, {.causal = true, .rotary = rotary});
    attention.Initialize(Uniform(1), {.seed = 1});
    const NDArray x = Fill({2, 6, 3}, "data0");
    const NDArray whole = attention(x);
    KeyValueCache cache;
    // A prompt of three positions, then one and two.
    index_t begin = 0;
    for (const index_t end : {3, 4, 6}) {
      const NDArray y = attention.Step(Positions(x, begin, end), &cache);
      EXPECT_EQ(cache.length(), end);
      EXPECT_THAT(y.ToVector(),
                  Pointwise(FloatNear(1e-5f), Positions(whole, begin, end).ToVector()));
      begin = end;
    }
  }
}

TEST(AttentionTest, CausalQueriesDoNotSeeLaterKeys) {
  MultiHeadAttention attention(4, 2, {.causal = true});
  attention.Initialize(Uniform(1), {.seed = 1});
  const NDArray x = Fill({1, 4, 3}, "data0");
  NDArray changed = x.Copy(Device::Cpu());
  changed.Assign({AxisSlice{}, 3}, 9.0f);
  const NDArray a = attention(x), b = attention(changed);
  EXPECT_EQ(Positions(a, 0, 3).ToVector(), Positions(b, 0, 3).ToVector());
  EXPECT_NE(Positions(a, 3, 4).ToVector(), Positions(b, 3, 4).ToVector());
  // Fewer queries are the last ones.
  const NDArray last = attention(Positions(x, 2, 4), x, x);
  EXPECT_THAT(last.ToVector(), Pointwise(FloatNear(1e-6f), Positions(a, 2, 4).ToVector()));
}

TEST(RotaryPositionsTest, ProductsDependOnDistances) {
  const RotaryPositions rotary;
  const NDArray q = Fill({1, 1, 8}, "q"), k = Fill({1, 1, 8}, "k");
  const auto product = [&](index_t i, index_t j) {
    const std::vector<float> a = rotary.Rotate(q, i).ToVector(), b = rotary.Rotate(k, j).ToVector();
    double sum = 0;
    for (size_t c = 0; c < a.size(); ++c) sum += static_cast<double>(a[c]) * b[c];
    return sum;
  };
  EXPECT_NEAR(product(5, 2), product(13, 10), 1e-5);
  EXPECT_GT(std::abs(product(5, 2) - product(5, 4)), 1e-3);
  EXPECT_EQ(rotary.Rotate(q, 0).ToVector(), q.ToVector());
}

TEST(AttentionTest, WrongCallsAreErrors) {
  ExpectError(Error::kInvalidArgument, "6 units for 4 heads", [] { MultiHeadAttention(6, 4); });
  ExpectError(Error::kInvalidArgument, "even for rotary",
              [] { MultiHeadAttention(6, 2, {.rotary = true}); });
  ExpectError(Error::kInvalidArgument, "base is 0", [] { RotaryPositions(0); });
  ExpectError(Error::kInvalidArgument, "even number of channels", [] {
    RotaryPositions()(Fill({2, 3}, "x"));
  });
  MultiHeadAttention attention(4, 2), causal(4, 2, {.causal = true});
  attention.Initialize();
  causal.Initialize();
  const NDArray x = Fill({1, 2, 3}, "x"), y = Fill({2, 2, 3}, "x");
  ExpectError(Error::kInvalidArgument, "2 inputs were given", [&] { attention(x, x); });
  ExpectError(Error::kInvalidArgument, "expected (batch, positions, channels)", [&] {
    attention(Fill({2, 3}, "x"));
  });
  ExpectError(Error::kInvalidArgument, "2 queries and 1 keys", [&] {
    causal(x, Fill({1, 1, 3}, "k"), Fill({1, 1, 3}, "v"));
  });
  KeyValueCache cache;
  ExpectError(Error::kFailedPrecondition, "expected causal", [&] { attention.Step(x, &cache); });
  causal.Step(x, &cache);
  ExpectError(Error::kInvalidArgument, "expected a batch of 1", [&] { causal.Step(y, &cache); });
  EXPECT_EQ(cache.length(), 2);
}

}  // namespace
}  // namespace tessera::nn
