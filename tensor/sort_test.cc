#include "tessera/tensor/sort.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/guarded_tensor.h"
#include "tessera/tensor/test_values.h"

namespace tessera {
namespace {

template <typename T>
class SortTest : public testing::Test {};
using ElementTypes = TestedTypes<float, half_t, double, bfloat16_t, int32_t, int64_t, uint8_t>;
TYPED_TEST_SUITE(SortTest, ElementTypes);

// Whether key a must come before key b, NaN being the largest.
template <typename T>
bool Before(T a, T b, bool ascending) {
  const auto place = [](T key) {
    const double value = static_cast<double>(key);
    return std::isnan(value) ? std::numeric_limits<double>::infinity() : value;
  };
  return ascending ? place(a) < place(b) : place(b) < place(a);
}

// Expects the keys in order and the values, which were 0, 1, 2, …, in the order of equal keys.
template <typename T>
void ExpectSorted(const std::vector<T>& keys, const std::vector<int32_t>& values,
                  const std::vector<T>& old_keys, bool ascending) {
  ASSERT_EQ(keys.size(), old_keys.size());
  std::vector<bool> seen(keys.size());
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto from = static_cast<size_t>(values[i]);
    ASSERT_LT(from, keys.size());
    EXPECT_FALSE(seen[from]) << from;
    seen[from] = true;
    EXPECT_TRUE(SameValue(keys[i], old_keys[from])) << i;
    if (i == 0) continue;
    EXPECT_FALSE(Before(keys[i], keys[i - 1], ascending)) << i;
    if (!Before(keys[i - 1], keys[i], ascending)) {
      EXPECT_LT(values[i - 1], values[i]) << i;
    }
  }
}

TYPED_TEST(SortTest, KeysInOrderAndValuesAlong) {
  using T = TypeParam;
  for (const int64_t count : {0, 1, 2, 9, 1000}) {
    for (const bool ascending : {true, false}) {
      // Few different keys, so that there are equal ones.
      const std::vector<T> old_keys = RandomValues<T>(count, 0, 30);
      std::vector<T> rounded;
      for (const T key : old_keys) rounded.push_back(static_cast<T>(static_cast<int32_t>(key)));
      std::vector<int32_t> places;
      for (int32_t i = 0; i < count; ++i) places.push_back(i);
      GuardedTensor<1, T> keys(Shape1(count), rounded);
      GuardedTensor<1, int32_t> values(Shape1(count), places);
      if (ascending) {
        SortByKey(*keys, *values);
      } else {
        SortByKey(*keys, *values, false);
      }
      ExpectSorted(keys.values(), values.values(), rounded, ascending);
      EXPECT_TRUE(keys.GuardsIntact() && values.GuardsIntact());
    }
  }
}

TEST(SortSpecialTest, NanIsTheLargest) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  GuardedTensor<1, float> keys(Shape1(6), {nan, 1, inf, nan, -inf, 0});
  GuardedTensor<1, half_t> values(
      Shape1(6), {half_t(0), half_t(1), half_t(2), half_t(3), half_t(4), half_t(5)});
  SortByKey(*keys, *values);
  ExpectSameValues(keys.values(), {-inf, 0, 1, inf, nan, nan});
  ExpectSameValues(values.values(),
                   {half_t(4), half_t(5), half_t(1), half_t(2), half_t(0), half_t(3)});
  SortByKey(*keys, *values, false);
  ExpectSameValues(keys.values(), {nan, nan, inf, 1, 0, -inf});
  ExpectSameValues(values.values(),
                   {half_t(0), half_t(3), half_t(2), half_t(1), half_t(5), half_t(4)});
}

TEST(SegmentSortTest, SortsInsideEachSegment) {
  GuardedTensor<1, float> values(Shape1(7), {3, 1, 2, 9, 8, 5, 4});
  GuardedTensor<1, int32_t> segments(Shape1(7), {0, 0, 0, 1, 1, 3, 3});
  VectorizedSort(*values, *segments);
  ExpectSameValues(values.values(), {1, 2, 3, 8, 9, 4, 5});
  ExpectSameValues(segments.values(), {0, 0, 0, 1, 1, 3, 3});
}

TEST(SortErrorTest, LengthsMustBeEqual) {
  GuardedTensor<1, float> two(Shape1(2)), three(Shape1(3));
  ExpectError([&] { SortByKey(*two, *three); }, Error::kInvalidArgument,
              {"SortByKey", "(2,)", "(3,)"});
}

}  // namespace
}  // namespace tessera
