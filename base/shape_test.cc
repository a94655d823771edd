#include "tessera/base/shape.h"

#include <gtest/gtest.h>

#include <locale>
#include <sstream>
#include <string>
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

TEST(ShapeTest, ReadsWhatItPrints) {
  Shape<1> one = Shape1(0);
  Shape<3> three = Shape3(0, 0, 0);
  std::istringstream is("(7,)(2,3,4) ( 5 , 6 ,7 ) (8)");
  is >> one >> three;
  EXPECT_EQ(one, Shape1(7));
  EXPECT_EQ(three, Shape3(2, 3, 4));
  is >> three >> one;
  EXPECT_EQ(three, Shape3(5, 6, 7));
  EXPECT_EQ(one, Shape1(8));
  EXPECT_TRUE(is);
}

TEST(ShapeTest, TheStreamsLocaleDoesNotMatter) {
  struct Spaces : std::numpunct<char> {
    char do_thousands_sep() const override { return ' '; }
    std::string do_grouping() const override { return "\3"; }
  };
  std::stringstream stream;
  stream.imbue(std::locale(std::locale::classic(), new Spaces));
  stream << Shape2(1234567, 3);
  EXPECT_EQ(stream.str(), "(1234567,3)");
  Shape<2> shape;
  stream >> shape;
  EXPECT_EQ(shape, Shape2(1234567, 3));
}

TEST(ShapeTest, ReadingSomethingElseFailsAndChangesNothing) {
  for (const char* text : {"", "2,3", "(2 3)", "(2,3", "(2,3,4)", "(2)", "(a,b)", "[2,3]", "(2,-)",
                           "(2,9223372036854775808)"}) {
    Shape<2> shape = Shape2(5, 6);
    std::istringstream is(text);
    is >> shape;
    EXPECT_TRUE(is.fail()) << text;
    EXPECT_EQ(shape, Shape2(5, 6)) << text;
  }
}

}  // namespace
}  // namespace tessera
