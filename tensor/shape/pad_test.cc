#include "tessera/tensor/shape/pad.h"

#include <type_traits>

#include "gtest/gtest.h"
#include "tessera/tensor/shape/slice.h"
#include "tessera/tensor/testing/node_test_util.h"

namespace tessera {
namespace {

static_assert(std::is_trivially_copyable_v<decltype(pad(Tensor<cpu, 3>(), 1))>);
static_assert(std::is_trivially_copyable_v<decltype(upsampling_nearest(Tensor<cpu, 3>(), 1))>);

template <typename T>
class PadTest : public testing::Test {};
TYPED_TEST_SUITE(PadTest, NodeElementTypes);

TYPED_TEST(PadTest, BordersAreZeros) {
  using T = TypeParam;
  struct Case {
    Shape<4> shape;
    index_t y, x;
  };
  for (const Case& c : {Case{Shape4(2, 3, 5, 9), 1, 2}, Case{Shape4(1, 2, 1, 17), 3, 0},
                        Case{Shape4(2, 1, 4, 1), 0, 5}, Case{Shape4(1, 2, 3, 4), 0, 0},
                        Case{Shape4(1, 2, 0, 4), 1, 1}, Case{Shape4(1, 0, 3, 4), 1, 1},
                        Case{Shape4(1, 2, 3, 0), 1, 1}}) {
    for (const GuardedLayout& layout : OperandLayouts()) {
      Sample<4, T> a(c.shape, layout);
      Shape<4> target = c.shape;
      target[2] += 2 * c.y;
      target[3] += 2 * c.x;
      const auto expected = [&](const Shape<4>& i) {
        const index_t y = i[2] - c.y;
        const index_t x = i[3] - c.x;
        const bool inside = 0 <= y && y < c.shape[2] && 0 <= x && x < c.shape[3];
        return inside ? a.at(Shape4(i[0], i[1], y, x)) : 0.0;
      };
      ExpectElements<4>(pad(*a, c.y, c.x), target, expected, "pad");
      // What was padded is cropped again.
      ExpectElements<4>(
          crop(pad(*a, c.y, c.x), Shape2(c.shape[2], c.shape[3]), c.y, c.x), c.shape,
          [&](const Shape<4>& i) { return a.at(i); }, "crop of pad");
    }
  }
  Sample<2, T> matrix(Shape2(3, 4));
  ExpectElements<2>(
      pad(*matrix, 1), Shape2(5, 6),
      [&](const Shape<2>& i) {
        const bool inside = 1 <= i[0] && i[0] < 4 && 1 <= i[1] && i[1] < 5;
        return inside ? matrix.at(Shape2(i[0] - 1, i[1] - 1)) : 0.0;
      },
      "one border");
}

// Of so many rows that a thread may begin in the midst of a square.
TEST(PadParallelTest, UpsamplingOfManyRows) {
  Sample<3, float> a(Shape3(2, 101, 37));
  ExpectElements<3>(
      upsampling_nearest(*a, 3), Shape3(2, 303, 111),
      [&](const Shape<3>& i) { return a.at(Shape3(i[0], i[1] / 3, i[2] / 3)); }, "upsampling");
}

TYPED_TEST(PadTest, UpsamplingRepeatsElements) {
  using T = TypeParam;
  for (const Shape<3>& shape : {Shape3(2, 3, 5), Shape3(1, 1, 1), Shape3(2, 0, 3)}) {
    for (const index_t scale : {1, 2, 3}) {
      for (const GuardedLayout& layout : OperandLayouts()) {
        Sample<3, T> a(shape, layout);
        ExpectElements<3>(
            upsampling_nearest(*a, scale), Shape3(shape[0], shape[1] * scale, shape[2] * scale),
            [&](const Shape<3>& i) { return a.at(Shape3(i[0], i[1] / scale, i[2] / scale)); },
            "upsampling");
      }
    }
  }
  Sample<2, T> small(Shape2(2, 3));
  ExpectElements<2>(
      slice<1>(upsampling_nearest(*small, 4), 3, 10), Shape2(8, 7),
      [&](const Shape<2>& i) { return small.at(Shape2(i[0] / 4, (i[1] + 3) / 4)); }, "slice");
}

TEST(PadErrorTest, NegativeBordersAndScalesAreRefused) {
  GuardedTensor<2, float> a(Shape2(3, 5));
  ExpectError([&] { pad(*a, 1, -1); }, Error::kInvalidArgument, {"pad", "1x-1", "(3,5)"});
  ExpectError([&] { upsampling_nearest(*a, 0); }, Error::kInvalidArgument,
              {"upsampling_nearest", "0"});
}

}  // namespace
}  // namespace tessera
