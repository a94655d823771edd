#include "tessera/ops/loops/strided_walk.h"

#include <gtest/gtest.h>

#include <ostream>
#include <random>
#include <vector>

namespace tessera::ops_internal {
namespace {

/// Dimensions of two arrays.
struct Dimensions {
  std::vector<index_t> extents, a, b;

  index_t Size() const {
    index_t size = 1;
    for (const index_t extent : extents) size *= extent;
    return size;
  }
  void Merge() {
    index_t* const lists[] = {a.data(), b.data()};
    const int count = MergeDimensions(static_cast<int>(extents.size()), extents.data(), lists);
    for (auto* const list : {&extents, &a, &b}) list->resize(static_cast<size_t>(count));
  }
  StridedWalk<2> WalkFrom(index_t start) const {
    return {static_cast<int>(extents.size()), extents.data(), {a.data(), b.data()}, start};
  }
  /// The offset of a position in an array with these strides.
  index_t Offset(const std::vector<index_t>& strides, index_t position) const {
    index_t offset = 0;
    for (size_t d = extents.size(); d-- > 0;) {
      offset += position % extents[d] * strides[d];
      position /= extents[d];
    }
    return offset;
  }
  bool operator==(const Dimensions&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Dimensions& dimensions) {
  return out << testing::PrintToString(dimensions.extents) << ", strides "
             << testing::PrintToString(dimensions.a) << " and "
             << testing::PrintToString(dimensions.b);
}

struct MergeCase {
  Dimensions before, after;
};

TEST(MergeDimensionsTest, DimensionsMergeWhereAllArraysAllowIt) {
  const MergeCase cases[] = {
      {{{}, {}, {}}, {{}, {}, {}}},
      {{{1}, {7}, {0}}, {{}, {}, {}}},
      {{{1, 1, 1}, {3, 2, 1}, {0, 0, 0}}, {{}, {}, {}}},
      {{{5}, {1}, {-1}}, {{5}, {1}, {-1}}},
      // Dense arrays.
      {{{2, 3, 4}, {12, 4, 1}, {12, 4, 1}}, {{24}, {1}, {1}}},
      // Dimensions of extent 1 have any strides.
      {{{2, 1, 3, 1}, {3, 9, 1, 9}, {3, 0, 1, -5}}, {{6}, {1}, {1}}},
      // One array is broadcast along the first, the last, or all dimensions.
      {{{2, 3, 4}, {12, 4, 1}, {0, 4, 1}}, {{2, 12}, {12, 1}, {0, 1}}},
      {{{2, 3, 4}, {12, 4, 1}, {3, 1, 0}}, {{6, 4}, {4, 1}, {1, 0}}},
      {{{2, 3, 4}, {12, 4, 1}, {0, 0, 0}}, {{24}, {1}, {0}}},
      // Backwards.
      {{{2, 3}, {-3, -1}, {3, 1}}, {{6}, {-1}, {1}}},
      {{{2, 3}, {-3, 1}, {3, 1}}, {{2, 3}, {-3, 1}, {3, 1}}},
      // Rows with gaps, and steps of two.
      {{{2, 3}, {4, 1}, {3, 1}}, {{2, 3}, {4, 1}, {3, 1}}},
      {{{2, 3}, {6, 2}, {3, 1}}, {{6}, {2}, {1}}},
      // No elements.
      {{{2, 0}, {0, 0}, {0, 0}}, {{0}, {0}, {0}}},
  };
  for (const MergeCase& each : cases) {
    Dimensions merged = each.before;
    merged.Merge();
    EXPECT_EQ(merged, each.after) << "merged " << each.before;
  }
}

TEST(MergeDimensionsTest, ManyArraysAndNone) {
  index_t extents[] = {2, 3}, stride[] = {3, 1}, other[] = {1, 2};
  index_t* const lists[] = {stride, stride, stride, stride, other};
  EXPECT_EQ(MergeDimensions(2, extents, lists), 2);
  EXPECT_EQ(MergeDimensions(2, extents, {}), 1);
  EXPECT_EQ(extents[0], 6);
}

TEST(StridedWalkTest, WalksInOrderFromAnyStart) {
  std::mt19937 random(20261128);
  for (int round = 0; round < 500; ++round) {
    Dimensions dimensions;
    for (size_t rank = random() % 6; rank > 0; --rank) {
      dimensions.extents.push_back(1 + static_cast<index_t>(random() % 4));
      dimensions.a.push_back(static_cast<index_t>(random() % 21) - 10);
      dimensions.b.push_back(static_cast<index_t>(random() % 2));
    }
    const index_t size = dimensions.Size();
    for (const index_t start : {index_t{0}, size / 2, size - 1}) {
      StridedWalk<2> walk = dimensions.WalkFrom(start);
      // Once around, and one more.
      for (index_t i = start; i <= start + size; ++i, walk.Next()) {
        index_t position = i % size;
        ASSERT_EQ(walk.offset(0), dimensions.Offset(dimensions.a, position)) << dimensions;
        ASSERT_EQ(walk.offset(1), dimensions.Offset(dimensions.b, position)) << dimensions;
        for (size_t d = dimensions.extents.size(); d-- > 0;) {
          ASSERT_EQ(walk.position(static_cast<int>(d)), position % dimensions.extents[d]);
          position /= dimensions.extents[d];
        }
      }
    }
  }
}

TEST(StridedWalkTest, AdvancesAsFarAsTheLastDimensionReaches) {
  Dimensions dimensions;
  dimensions.extents = {2, 3, 5};
  dimensions.a = {7, -1, 3};
  dimensions.b = {0, 1, 0};
  for (index_t start = 0; start < 30; ++start) {
    for (index_t steps = 1; steps <= 5 - start % 5; ++steps) {
      StridedWalk<2> walk = dimensions.WalkFrom(start), expected = walk;
      walk.Advance(steps);
      for (index_t i = 0; i < steps; ++i) expected.Next();
      EXPECT_EQ(walk.offset(0), expected.offset(0)) << start << ", " << steps;
      EXPECT_EQ(walk.offset(1), expected.offset(1)) << start << ", " << steps;
      for (int d = 0; d < 3; ++d) EXPECT_EQ(walk.position(d), expected.position(d));
    }
  }
}

TEST(StridedWalkTest, MergedDimensionsHaveTheSameOffsets) {
  std::mt19937 random(20261129);
  for (int round = 0; round < 2000; ++round) {
    Dimensions dimensions;
    index_t stride = 1;
    for (size_t rank = random() % 9; rank > 0; --rank) {
      const auto extent = static_cast<index_t>(random() % 3 + 1);
      dimensions.extents.insert(dimensions.extents.begin(), extent);
      dimensions.a.insert(dimensions.a.begin(), random() % 4 == 0 ? 0 : stride);
      dimensions.b.insert(dimensions.b.begin(), random() % 4 == 0 ? 1 : -2 * stride);
      stride *= extent;
    }
    Dimensions merged = dimensions;
    merged.Merge();
    ASSERT_EQ(merged.Size(), dimensions.Size());
    StridedWalk<2> walk = merged.WalkFrom(0), expected = dimensions.WalkFrom(0);
    for (index_t i = 0; i < merged.Size(); ++i, walk.Next(), expected.Next()) {
      ASSERT_EQ(walk.offset(0), expected.offset(0)) << dimensions << " became " << merged;
      ASSERT_EQ(walk.offset(1), expected.offset(1)) << dimensions << " became " << merged;
    }
  }
}

}  // namespace
}  // namespace tessera::ops_internal
