#include "tessera/tensor/shape/range.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/node_test_util.h"

namespace tessera {
namespace {

static_assert(std::is_trivially_copyable_v<decltype(range<float>(0, 1))>);

// Enumerators convert to numbers, but there are none between two of them.
enum Weekday { kMonday, kSunday = 6 };
template <typename T>
concept HasRange = requires(T start, T stop) {
  range(start, stop);
};
static_assert(HasRange<int> && HasRange<half_t> && !HasRange<Weekday>);

template <typename T>
class RangeTest : public testing::Test {};
TYPED_TEST_SUITE(RangeTest, SizedElementTypes);

TYPED_TEST(RangeTest, CountsUpInSteps) {
  using T = TypeParam;
  ExpectElements<1>(
      range<T>(T(0), T(10)), Shape1(10),
      [](const Shape<1>& i) { return static_cast<double>(i[0]); }, "by one");
  ExpectElements<1>(
      range<T>(T(3), T(20), T(4)), Shape1(5),
      [](const Shape<1>& i) { return 3.0 + 4.0 * static_cast<double>(i[0]); }, "by four");
  ExpectElements<1>(
      range<T>(T(3), T(20), T(4), 3), Shape1(15),
      [](const Shape<1>& i) { return 3.0 + 4.0 * static_cast<double>(i[0] / 3); },
      "three times each");
  ExpectElements<1>(
      range<T>(T(3), T(3)), Shape1(0), [](const Shape<1>&) { return 0.0; }, "empty");
  ExpectElements<1>(
      range<T>(T(4), T(3)), Shape1(0), [](const Shape<1>&) { return 0.0; }, "empty");
}

TEST(RangeSpecialTest, DownwardsAndFractions) {
  ExpectElements<1>(
      range<int32_t>(5, -4, -3), Shape1(3),
      [](const Shape<1>& i) { return 5.0 - 3.0 * static_cast<double>(i[0]); }, "downwards");
  ExpectElements<1>(
      range(0.0, 1.0, 0.125, 2), Shape1(16),
      [](const Shape<1>& i) { return 0.125 * static_cast<double>(i[0] / 2); }, "fractions");
  const int64_t large = int64_t{1} << 61;
  EXPECT_EQ(range<int64_t>(large, large + 10).shape(), Shape1(10));
  EXPECT_EQ(range<int64_t>(large, large + 10).Eval(0, 9), large + 9);
  // Beside a tensor it takes part on either device.
  Sample<1, float> a(Shape1(9));
  ExpectElements<1>(
      *a + range<float>(0, 9), Shape1(9),
      [&](const Shape<1>& i) { return a.at(i) + static_cast<double>(i[0]); }, "sum");
}

TEST(RangeErrorTest, EndlessSequencesAreRefused) {
  constexpr auto kInvalidArgument = Error::kInvalidArgument;
  ExpectError([&] { range<float>(0, 10, 0); }, kInvalidArgument, {"range", "0", "10"});
  ExpectError([&] { range<float>(0, 10, 1, 0); }, kInvalidArgument, {"range", "0 times"});
  ExpectError([&] { range<double>(0, std::nan("")); }, kInvalidArgument, {"range", "nan"});
  ExpectError([&] { range<double>(0, std::numeric_limits<double>::infinity()); }, kInvalidArgument,
              {"range", "inf"});
  ExpectError([&] { range<int64_t>(0, int64_t{1} << 61, 1, 100); }, kInvalidArgument, {"range"});
}

}  // namespace
}  // namespace tessera
