#include "tessera/base/tshape.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {
namespace {

TEST(TShapeTest, TellsUnknownRankScalarAndEmptyApart) {
  EXPECT_FALSE(TShape().rank_known());
  EXPECT_FALSE(TShape().known());
  const TShape scalar = TShape(std::span<const index_t>());
  EXPECT_EQ(scalar.ndim(), 0);
  EXPECT_EQ(scalar.Size(), 1);
  EXPECT_EQ((TShape{3, 0}).Size(), 0);
  EXPECT_FALSE(TShape::OfRank(2).known());
  EXPECT_THROW(TShape::OfRank(2).Size(), Error);
}

TEST(TShapeTest, RefusesWhatCannotBeAShape) {
  EXPECT_THROW((TShape{2, -2}), Error);
  EXPECT_THROW((TShape{1, 1, 1, 1, 1, 1, 1, 1, 1}), Error);
  EXPECT_THROW(TShape::OfRank(9), Error);
  EXPECT_THROW((TShape{index_t{1} << 40, index_t{1} << 40}).Size(), Error);
}

TEST(TShapeTest, PrintsAndParsesToTheSame) {
  for (const TShape& shape : {TShape{2, 3}, TShape{7}, TShape(std::span<const index_t>()),
                              TShape{4, TShape::kUnknown}, TShape{0}}) {
    EXPECT_EQ(TShape::Parse(shape.ToString()), shape) << shape;
  }
  EXPECT_EQ(TShape::Parse("[2, 3]"), (TShape{2, 3}));
  EXPECT_EQ(TShape::Parse(" (2L, 3L) "), (TShape{2, 3}));
  EXPECT_EQ(TShape::Parse("5"), (TShape{5}));
  EXPECT_EQ(TShape::Parse("None"), TShape());
  EXPECT_EQ(TShape::Parse("(None)"), (TShape{TShape::kUnknown}));
}

TEST(TShapeTest, MalformedTextIsAnErrorThatQuotesIt) {
  for (const char* text : {"(2,3", "2,3)", "(a)", "(2,,3)", "(2 3)", "(1e9)", "(-7)",
                           "(99999999999999999999)", "(1,1,1,1,1,1,1,1,1)", "[2)"}) {
    EXPECT_THROW(TShape::Parse(text), Error) << text;
  }
}

TEST(TShapeTest, ErrorsQuoteLongTextsInPart) {
  std::string rank = "(1";
  for (int i = 0; i < 1000000; ++i) rank += ",1";
  for (const std::string& text : {rank + ")", rank, std::string(1000000, 'x')}) {
    try {
      TShape::Parse(text);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_LT(std::string(error.what()).size(), 600u);
    }
  }
}

TEST(TShapeTest, MergeCompletesOrRefusesWithoutChange) {
  TShape shape = TShape::OfRank(2);
  EXPECT_TRUE(shape.Merge({TShape::kUnknown, 3}));
  EXPECT_EQ(shape, (TShape{TShape::kUnknown, 3}));
  EXPECT_FALSE(shape.Merge({2, 4}));
  EXPECT_EQ(shape, (TShape{TShape::kUnknown, 3}));
  EXPECT_FALSE(shape.Merge({3}));
  EXPECT_TRUE(shape.Merge(TShape()));
  EXPECT_TRUE(shape.Merge({2, 3}));
  EXPECT_TRUE(shape.known());
  TShape unknown;
  EXPECT_TRUE(unknown.Merge({5}));
  EXPECT_EQ(unknown, (TShape{5}));
}

TEST(TShapeTest, FlattensAroundAxes) {
  const TShape shape = {2, 3, 4, 5};
  EXPECT_EQ(shape.FlatTo2D(), Shape2(24, 5));
  EXPECT_EQ(shape.FlatTo3D(1), Shape3(2, 3, 20));
  EXPECT_EQ(shape.FlatTo3D(1, 2), Shape3(2, 12, 5));
  EXPECT_EQ(shape.FlatTo3D(0, 3), Shape3(1, 120, 1));
  EXPECT_THROW(shape.FlatTo3D(4), Error);
  EXPECT_THROW(shape.FlatTo3D(2, 1), Error);
  EXPECT_EQ(shape.get<4>(), Shape4(2, 3, 4, 5));
  EXPECT_THROW(shape.get<3>(), Error);
}

TEST(TShapeTest, ProductsOfHugeExtentsAreZeroBesideAnExtentOfZero) {
  constexpr index_t kHuge = index_t{1} << 40;
  const TShape last = {0, 3, kHuge, kHuge}, first = {kHuge, kHuge, 3, 0};
  EXPECT_EQ(last.Size(), 0);
  EXPECT_EQ(last.ProdShape(1, 4), 0);
  EXPECT_EQ(first.ProdShape(0, 2), 0);
  EXPECT_EQ(last.ProdShape(1, 3), 3 * kHuge);
  EXPECT_EQ(last.FlatTo3D(1), Shape3(0, 3, 0));
  EXPECT_THROW((TShape{2, kHuge, kHuge}).ProdShape(1, 3), Error);
}

}  // namespace
}  // namespace tessera
