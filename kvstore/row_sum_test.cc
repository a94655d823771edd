#include "tessera/kvstore/row_sum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "tessera/base/float16.h"

namespace tessera::kvstore_internal {
namespace {

using testing::ElementsAre;

template <typename T>
std::vector<T> Sum(const std::vector<std::vector<T>>& rows) {
  std::vector<const void*> pointers;
  for (const std::vector<T>& row : rows) pointers.push_back(row.data());
  std::vector<T> out(rows[0].size() + 1, T(77));  // with a guard
  SumRows(pointers, out.data(), static_cast<int64_t>(rows[0].size()), kDTypeOf<T>);
  EXPECT_EQ(out.back(), T(77));
  out.pop_back();
  return out;
}

TEST(RowSumTest, AddsInTheOrderOfTheRows) {
  // From the left the small ones are lost; in any other order they would not be.
  EXPECT_THAT(Sum<float>({{1e8f}, {3.0f}, {3.0f}, {-1e8f}}),
              ElementsAre(((1e8f + 3.0f) + 3.0f) - 1e8f));
  EXPECT_THAT(Sum<double>({{1e17}, {3.0}, {3.0}, {-1e17}}),
              ElementsAre(((1e17 + 3.0) + 3.0) - 1e17));
}

// The sum of 2048 and three ones is 2048 if each addition is rounded to half (whose unit there is
// 2), and 2052 if 2051 is rounded once; bfloat16 has a unit of 2 from 256 on.
TEST(RowSumTest, SixteenBitTypesAreRoundedOnce) {
  const auto bits = [](auto sum) { return sum[0].bits(); };
  EXPECT_EQ(bits(Sum<half_t>({{half_t(2048)}, {half_t(1)}, {half_t(1)}, {half_t(1)}})),
            half_t(2052).bits());
  EXPECT_EQ(
      bits(Sum<bfloat16_t>({{bfloat16_t(256)}, {bfloat16_t(1)}, {bfloat16_t(1)}, {bfloat16_t(1)}})),
      bfloat16_t(260).bits());
}

TEST(RowSumTest, IntegersWrapAround) {
  EXPECT_THAT(Sum<int8_t>({{127, -128}, {1, -1}}), ElementsAre(-128, 127));
  EXPECT_THAT(Sum<int32_t>({{std::numeric_limits<int32_t>::max()}, {2}}),
              ElementsAre(std::numeric_limits<int32_t>::min() + 1));
  EXPECT_THAT(Sum<uint8_t>({{200}, {100}}), ElementsAre(44));
  EXPECT_THAT(Sum<int64_t>({{int64_t{1} << 60}, {int64_t{1} << 60}}),
              ElementsAre(int64_t{1} << 61));
}

TEST(RowSumTest, BoolsSayWhetherAnyIsTrue) {
  const bool a[] = {false, true, false, true}, b[] = {false, false, true, true};
  const void* const rows[] = {a, b};
  bool out[4];
  SumRows(rows, out, 4, DType::kBool);
  EXPECT_THAT(out, ElementsAre(false, true, true, true));
}

TEST(RowSumTest, SizesAroundABlockAndOneRowAsTheResult) {
  std::mt19937 random(1);
  for (const size_t size : {0, 1, 3, 511, 512, 513, 1024, 1500}) {
    std::vector<std::vector<float>> rows(3, std::vector<float>(size));
    std::uniform_real_distribution<float> numbers(-1, 1);
    for (std::vector<float>& row : rows) {
      for (float& element : row) element = numbers(random);
    }
    std::vector<float> expected;
    for (size_t i = 0; i < size; ++i) {
      expected.push_back((rows[0][i] + rows[1][i]) + rows[2][i]);
    }
    EXPECT_EQ(Sum(rows), expected) << size;
    const void* const pointers[] = {rows[0].data(), rows[1].data(), rows[2].data()};
    SumRows(pointers, rows[1].data(), static_cast<int64_t>(size), DType::kFloat32);
    EXPECT_EQ(rows[1], expected) << size;
  }
}

TEST(RowSumTest, OneRowIsCopied) { EXPECT_THAT(Sum<float>({{1, 2, 3}}), ElementsAre(1, 2, 3)); }

}  // namespace
}  // namespace tessera::kvstore_internal
