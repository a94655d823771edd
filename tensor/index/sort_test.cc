#include "tessera/tensor/index/sort.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

using tensor_internal::KeyOrder;
using tensor_internal::SortOrder;

template <typename T>
class SortTest : public testing::Test {};
using ElementTypes = TestedTypes<float, half_t, int64_t, uint8_t>;
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

// Bit patterns of keys: all where there are few, otherwise random ones, their negatives and
// neighbours.
template <typename T>
std::vector<T> ManyKeys() {
  constexpr int kBits = 8 * sizeof(T);
  std::vector<uint64_t> patterns;
  if constexpr (kBits <= 16) {
    for (uint64_t bits = 0; bits < uint64_t{1} << kBits; ++bits) patterns.push_back(bits);
  } else {
    std::mt19937_64 engine(1);
    const auto format = tensor_internal::SortKeyFormatOf<T>();
    patterns = {0, 1, ~uint64_t{0}, format.infinity, format.infinity + 1};
    for (int i = 0; i < 1000; ++i) patterns.push_back(engine());
    for (size_t i = 0, count = patterns.size(); i < count; ++i) {
      patterns.push_back(patterns[i] ^ uint64_t{1} << (kBits - 1));
      patterns.push_back(patterns[i] + 1);
    }
  }
  std::vector<T> keys;
  for (const uint64_t bits : patterns) {
    T key;
    std::memcpy(&key, &bits, sizeof(T));
    keys.push_back(key);
  }
  return keys;
}

// What a GPU sorts in place of the keys.
TYPED_TEST(SortTest, OrderedBitsAreInTheOrderOfTheKeys) {
  using T = TypeParam;
  const auto format = tensor_internal::SortKeyFormatOf<T>();
  const std::vector<T> keys = ManyKeys<T>();
  for (const SortOrder order : {SortOrder::kAscending, SortOrder::kDescending}) {
    const KeyOrder<T> before{order};
    const auto ordered_bits = [&](T key) {
      uint64_t bits = 0;
      std::memcpy(&bits, &key, sizeof(T));
      return tensor_internal::OrderedBits(bits, format, order == SortOrder::kAscending);
    };
    std::vector<T> sorted = keys;
    std::stable_sort(sorted.begin(), sorted.end(), before);
    for (size_t i = 0; i < sorted.size(); ++i) {
      const uint64_t bits = ordered_bits(sorted[i]);
      ASSERT_TRUE(sizeof(T) == 8 || bits < uint64_t{1} << (8 * sizeof(T) % 64)) << i;
      if (i == 0) continue;
      const uint64_t last = ordered_bits(sorted[i - 1]);
      ASSERT_EQ(before(sorted[i - 1], sorted[i]), last < bits) << i;
      ASSERT_LE(last, bits) << i;
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
