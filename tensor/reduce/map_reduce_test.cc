#include "tessera/tensor/reduce/map_reduce.h"

#include <algorithm>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/node_test_util.h"

namespace tessera {
namespace {

template <typename T>
class MapReduceTest : public testing::Test {};
TYPED_TEST_SUITE(MapReduceTest, NodeElementTypes);

TYPED_TEST(MapReduceTest, ReducesToOneDimension) {
  using T = TypeParam;
  Sample<3, T> a(Shape3(2, 3, 9));
  Sample<1, T> columns(Shape1(9)), middle(Shape1(3));
  MapReduceKeepLowest<sv::saveto, red::sum>(&*columns, *a);
  const auto column = [&](const Shape<1>& i) {
    double sum = 0;
    for (index_t k = 0; k < 6; ++k) sum += a.at(Shape3(k / 3, k % 3, i[0]));
    return sum;
  };
  columns.Expect(column, "sum");
  MapReduceKeepLowest<sv::plusto, red::sum>(&*columns, *a, 2.0f);
  columns.Expect([&](const Shape<1>& i) { return 3 * column(i); }, "scaled and added");
  MapReduceKeepHighDim<sv::saveto, red::maximum, 1>(&*middle, *a * T(2));
  middle.Expect(
      [&](const Shape<1>& i) {
        double largest = -100;
        for (index_t k = 0; k < 18; ++k) {
          largest = std::max(largest, 2 * a.at(Shape3(k / 9, i[0], k % 9)));
        }
        return largest;
      },
      "maximum");
}

TEST(MapExpTest, SavesAsTheSaverSays) {
  Sample<2, float> a(Shape2(3, 9)), b(Shape2(3, 9), {}, 1);
  auto* const dst = &*a;
  MapExp<sv::minusto>(dst, *b * 2.0f);
  a.Expect([&](const Shape<2>& i) { return a.at(i) - 2 * b.at(i); }, "taken off");
  MapExp<sv::saveto>(dst, *b);
  a.Expect([&](const Shape<2>& i) { return b.at(i); }, "saved");
}

TEST(MapReduceErrorTest, TheLengthMustFit) {
  GuardedTensor<2, float> a(Shape2(3, 4));
  GuardedTensor<1, float> three(Shape1(3));
  ExpectError([&] { MapReduceKeepLowest<sv::saveto, red::sum>(&*three, *a); },
              Error::kInvalidArgument, {"reduction", "(3,4)", "3"});
}

}  // namespace
}  // namespace tessera
