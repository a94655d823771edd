#include "tessera/base/shape.h"

#include <gtest/gtest.h>

#include <sstream>
#include <type_traits>

namespace tessera {
namespace {

static_assert(std::is_trivially_copyable_v<Shape<4>>, "shapes travel into CUDA kernels");
template <typename S>
concept HasSubShape = requires(S s) {
  s.SubShape();
};
static_assert(HasSubShape<Shape<2>> && !HasSubShape<Shape<1>>, "a vector has no sub-shape");

TEST(ShapeTest, KnowsSizesAndParts) {
  const Shape<4> shape = Shape4(2, 3, 4, 5);
  EXPECT_EQ(shape.Size(), 120);
  EXPECT_EQ(shape.ProdShape(1, 3), 12);
  EXPECT_EQ(shape.ProdShape(2, 2), 1);
  EXPECT_EQ(shape.FlatTo2D(), Shape2(24, 5));
  EXPECT_EQ(shape.FlatTo1D(), Shape1(120));
  EXPECT_EQ(shape.SubShape(), Shape3(3, 4, 5));
  EXPECT_EQ((shape.Slice<1, 3>()), Shape2(3, 4));
  EXPECT_NE(shape, Shape4(2, 3, 4, 6));
}

TEST(ShapeTest, SizesAre64Bit) {
  EXPECT_EQ(Shape2(index_t{1} << 20, index_t{1} << 20).Size(), index_t{1} << 40);
}

TEST(ShapeTest, EmptyExtentsGiveSizeZero) { EXPECT_EQ(Shape3(2, 0, 5).Size(), 0); }

TEST(ShapeTest, PrintsLikeATuple) {
  std::ostringstream os;
  os << Shape1(2) << Shape2(2, 3) << Shape5(1, 2, 3, 4, 5);
  EXPECT_EQ(os.str(), "(2,)(2,3)(1,2,3,4,5)");
}

}  // namespace
}  // namespace tessera
