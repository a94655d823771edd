#include "tessera/tensor/shape/slice.h"

#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/fuse/fuse.h"
#include "tessera/tensor/linalg/dot.h"
#include "tessera/tensor/reduce/reductions.h"
#include "tessera/tensor/testing/node_test_util.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;

using Matrix = Tensor<cpu, 2, float>;
static_assert(std::is_trivially_copyable_v<decltype(slice<1>(Matrix(), 0, 1))>);
static_assert(std::is_trivially_copyable_v<decltype(flip(slice<0>(Matrix(), 0, 1), 1))>);
// A named node is never assigned as a handle.
static_assert(
    !std::is_assignable_v<decltype(slice<1>(Matrix(), 0, 1))&, decltype(slice<1>(Matrix(), 0, 1))>);
// What is no memory cannot be assigned to.
static_assert(!std::is_assignable_v<decltype(slice<1>(Matrix() * 2, 0, 1)), float>);

template <typename T>
class SliceTest : public testing::Test {};
TYPED_TEST_SUITE(SliceTest, NodeElementTypes);

// For the loops over rows, which depend on an element's size.
template <typename T>
class SliceRowsTest : public testing::Test {};
TYPED_TEST_SUITE(SliceRowsTest, SizedElementTypes);

template <int kAxis, typename T, int N>
void ExpectSlices(const Shape<N>& shape) {
  for (const GuardedLayout& layout : OperandLayouts()) {
    Sample<N, T> a(shape, layout);
    const index_t extent = shape[kAxis];
    for (const index_t begin : {index_t{0}, extent / 2, extent}) {
      for (const index_t end : {begin, (begin + extent + 1) / 2, extent}) {
        Shape<N> target = shape;
        target[kAxis] = end - begin;
        const auto moved = [&](Shape<N> index) {
          index[kAxis] += begin;
          return a.at(index);
        };
        ExpectElements<N>(slice<kAxis>(*a, begin, end), target, moved, "slice");
        // As a destination: the part changes, all else stays.
        Sample<N, T> b(target, layout, 5);
        slice<kAxis>(*a, begin, end) = *b + T(1);
        const auto inside = [&](const Shape<N>& i) { return begin <= i[kAxis] && i[kAxis] < end; };
        const auto in_b = [&](Shape<N> index) {
          index[kAxis] -= begin;
          return b.at(index);
        };
        a.Expect([&](const Shape<N>& i) { return inside(i) ? in_b(i) + 1 : a.at(i); }, "part");
        if constexpr (N == 2) {
          slice<kAxis>(*a, begin, end) *= T(3);
          a.Expect([&](const Shape<N>& i) { return inside(i) ? 3 * (in_b(i) + 1) : a.at(i); },
                   "multiplied part");
        }
        a.Restore();
      }
    }
  }
}

TYPED_TEST(SliceTest, OfEachAxisOnBothSides) {
  using T = TypeParam;
  ExpectSlices<1, T>(Shape2(5, 17));
  ExpectSlices<1, T>(Shape3(2, 5, 8));
  if constexpr (std::is_same_v<T, float>) {
    ExpectSlices<0, T>(Shape1(17));
    ExpectSlices<0, T>(Shape2(5, 9));
    ExpectSlices<1, T>(Shape2(0, 4));
    ExpectSlices<2, T>(Shape3(2, 3, 17));
    ExpectSlices<2, T>(Shape4(2, 2, 5, 3));
  }
}

// Long enough for whatever copies rows, in the order of the operand or backwards.
TYPED_TEST(SliceTest, LongRows) {
  using T = TypeParam;
  for (const GuardedLayout& layout : OperandLayouts()) {
    Sample<2, T> a(Shape2(3, 301), layout);
    const auto below = [&](const Shape<2>& i) { return a.at(Shape2(i[0] + 1, i[1])); };
    ExpectElements<2>(slice<0>(*a, 1, 3), Shape2(2, 301), below, "slice<0>");
    const auto inside = [&](const Shape<2>& i) { return a.at(Shape2(i[0], i[1] + 5)); };
    ExpectElements<2>(slice<1>(*a, 5, 298), Shape2(3, 293), inside, "slice<1>");
    const auto backwards = [&](const Shape<2>& i) { return a.at(Shape2(i[0], 300 - i[1])); };
    ExpectElements<2>(mirror(*a), a.shape(), backwards, "mirror");
  }
}

TYPED_TEST(SliceTest, BlocksWithSteps) {
  using T = TypeParam;
  for (const GuardedLayout& layout : OperandLayouts()) {
    Sample<3, T> a(Shape3(5, 6, 17), layout);
    const Shape<3> begin = Shape3(1, 0, 2);
    for (const Shape<3>& step : {Shape3(1, 1, 1), Shape3(2, 3, 4), Shape3(9, 1, 2)}) {
      const Shape<3> end = Shape3(5, 6, 16);
      Shape<3> target;
      for (int i = 0; i < 3; ++i) target[i] = (end[i] - begin[i] + step[i] - 1) / step[i];
      const auto source = [&](const Shape<3>& index) {
        Shape<3> at;
        for (int i = 0; i < 3; ++i) at[i] = begin[i] + index[i] * step[i];
        return at;
      };
      const auto expected = [&](const Shape<3>& index) { return a.at(source(index)); };
      ExpectElements<3>(slice(*a, begin, end, step), target, expected, "block");
      if (step == Shape3(1, 1, 1)) {
        ExpectElements<3>(slice(*a, begin, end), target, expected, "block without steps");
      }
      slice(*a, begin, end, step) = T(40);
      a.Expect(
          [&](const Shape<3>& index) {
            for (int i = 0; i < 3; ++i) {
              if (index[i] < begin[i] || index[i] >= end[i]) return a.at(index);
              if ((index[i] - begin[i]) % step[i] != 0) return a.at(index);
            }
            return 40.0;
          },
          "filled block");
      a.Restore();
    }
  }
  Sample<1, T> vector(Shape1(9));
  ExpectElements<1>(
      slice(*vector, Shape1(1), Shape1(9), Shape1(3)), Shape1(3),
      [&](const Shape<1>& i) { return vector.at(Shape1(1 + 3 * i[0])); }, "vector");
}

// Rows of every length around those of packets, alone and inside an expression.
TYPED_TEST(SliceRowsTest, RowsInStepsOfEveryLength) {
  using T = TypeParam;
  for (const GuardedLayout& layout : OperandLayouts()) {
    for (index_t columns = 1; columns < 70; columns += columns < 40 ? 1 : 7) {
      Sample<3, T> a(Shape3(2, 3, columns), layout);
      const auto backwards = [&](const Shape<3>& i) {
        return a.at(Shape3(i[0], i[1], columns - 1 - i[2]));
      };
      ExpectElements<3>(mirror(*a), a.shape(), backwards, "mirror");
      for (const index_t step : {1, 2, 3, 7}) {
        const index_t first = columns / 5;
        const Shape<3> shape = Shape3(2, 2, (columns - first + step - 1) / step);
        const auto in_steps = [&](const Shape<3>& i) {
          return a.at(Shape3(i[0], 1 + i[1], first + i[2] * step));
        };
        ExpectElements<3>(slice(*a, Shape3(0, 1, first), a.shape(), Shape3(1, 1, step)), shape,
                          in_steps, "steps");
      }
    }
  }
}

// Where the memory ends with the row, so that a sanitizer sees what is read beyond it.
TYPED_TEST(SliceRowsTest, NothingIsReadBeyondARow) {
  using T = TypeParam;
  for (index_t columns = 1; columns < 40; ++columns) {
    for (const index_t step : {1, 2, 3}) {
      const index_t count = (columns + step - 1) / step;
      std::vector<T> memory(static_cast<size_t>(columns)), result(static_cast<size_t>(count));
      for (index_t i = 0; i < columns; ++i) memory[static_cast<size_t>(i)] = static_cast<T>(i);
      const Tensor<cpu, 1, T> row(memory.data(), Shape1(columns));
      Tensor<cpu, 1, T> out(result.data(), Shape1(count));
      out = slice(row, Shape1(0), Shape1(columns), Shape1(step));
      for (index_t i = 0; i < count; ++i) ASSERT_EQ(out[i], static_cast<T>(i * step));
      if (step != 1) continue;
      out = mirror(row);
      for (index_t i = 0; i < count; ++i) ASSERT_EQ(out[i], static_cast<T>(columns - 1 - i));
      out = mirror(row) + T(1);
      for (index_t i = 0; i < count; ++i) ASSERT_EQ(out[i], static_cast<T>(columns - i));
    }
  }
}

TYPED_TEST(SliceTest, CropTakesAWindow) {
  using T = TypeParam;
  for (const GuardedLayout& layout : OperandLayouts()) {
    Sample<4, T> a(Shape4(2, 3, 6, 11), layout);
    const auto from = [&](index_t y, index_t x) {
      return [&a, y, x](const Shape<4>& i) { return a.at(Shape4(i[0], i[1], i[2] + y, i[3] + x)); };
    };
    ExpectElements<4>(crop(*a, Shape2(3, 9)), Shape4(2, 3, 3, 9), from(1, 1), "centred");
    ExpectElements<4>(crop(*a, Shape2(6, 11)), Shape4(2, 3, 6, 11), from(0, 0), "all");
    ExpectElements<4>(crop(*a, Shape2(2, 8), 4, 3), Shape4(2, 3, 2, 8), from(4, 3), "corner");
    ExpectElements<4>(crop(*a, Shape2(0, 8), 4, 3), Shape4(2, 3, 0, 8), from(4, 3), "empty");
    crop(*a, Shape2(2, 3), 4, 8) = T(40);
    a.Expect([&](const Shape<4>& i) { return i[2] >= 4 && i[3] >= 8 ? 40.0 : a.at(i); }, "filled");
  }
}

TYPED_TEST(SliceTest, FlipReversesOneAxis) {
  using T = TypeParam;
  for (const GuardedLayout& layout : OperandLayouts()) {
    Sample<3, T> a(Shape3(3, 4, 9), layout);
    for (int axis = 0; axis < 3; ++axis) {
      const auto reversed = [&](Shape<3> index) {
        index[axis] = a.shape()[axis] - 1 - index[axis];
        return a.at(index);
      };
      ExpectElements<3>(flip(*a, axis), a.shape(), reversed, "flip");
      ExpectElements<3>(
          flip(flip(*a, axis), axis), a.shape(), [&](const Shape<3>& i) { return a.at(i); },
          "flip of flip");
      Sample<3, T> b(a.shape(), layout, 3);
      flip(*b, axis) = *a;
      b.Expect(reversed, "into flip");
    }
    ExpectElements<3>(
        mirror(*a), a.shape(),
        [&](const Shape<3>& i) { return a.at(Shape3(i[0], i[1], 8 - i[2])); }, "mirror");
  }
}

TEST(SliceOfExpressionsTest, OperandsMayBeAnyExpression) {
  Sample<2, float> a(Shape2(4, 19)), b(Shape2(4, 19), {}, 1);
  ExpectElements<2>(
      slice<1>(*a + *b, 2, 19), Shape2(4, 17),
      [&](const Shape<2>& i) {
        const Shape<2> at = Shape2(i[0], i[1] + 2);
        return a.at(at) + b.at(at);
      },
      "slice of a sum");
  // A slice of a slice is memory as well.
  slice<0>(slice<1>(*a, 3, 9), 1, 2) -= 1.0f;
  a.Expect(
      [&](const Shape<2>& i) { return a.at(i) - (i[0] == 1 && 3 <= i[1] && i[1] < 9 ? 1 : 0); },
      "slice of slice");
}

TEST(SliceOfExpressionsTest, ProductsAndSlicesOfEqualTypeAreEvaluated) {
  Sample<2, float> a(Shape2(3, 3)), b(Shape2(3, 3), {}, 1), c(Shape2(3, 7), {}, 2);
  const auto product = [&](index_t y, index_t x) {
    double sum = 0;
    for (index_t k = 0; k < 3; ++k) sum += a.at(Shape2(y, k)) * b.at(Shape2(k, x));
    return sum;
  };
  slice<1>(*c, 2, 5) = dot(*a, *b);
  c.Expect(
      [&](const Shape<2>& i) { return 2 <= i[1] && i[1] < 5 ? product(i[0], i[1] - 2) : c.at(i); },
      "product");
  slice<1>(*c, 4, 7) = slice<1>(*a, 0, 3);
  slice<1>(*c, 0, 3) = slice<1>(*c, 4, 7);
  c.Expect(
      [&](const Shape<2>& i) {
        return i[1] == 3 ? product(i[0], 1) : a.at(Shape2(i[0], i[1] % 4));
      },
      "same type");
}

// Rows that are read in steps, whether by packets, side by side with others or alone.
TEST(SliceOfExpressionsTest, SumsOfARowHaveTheSameBitsAlone) {
  constexpr index_t kRows = 9;
  std::vector<float> memory(static_cast<size_t>(kRows * 1100)), sums(static_cast<size_t>(kRows));
  for (size_t i = 0; i < memory.size(); ++i) memory[i] = 1.0f / static_cast<float>(i + 3);
  for (const index_t columns : {1, 3, 4, 7, 15, 16, 17, 33, 100, 511, 512, 513, 1100}) {
    const Tensor<cpu, 2, float> a(memory.data(), Shape2(kRows, columns));
    const auto expect_sums = [&](const auto& of) {
      Tensor<cpu, 1, float> out(sums.data(), Shape1(kRows));
      out = sum<1>(of(a));
      for (index_t y = 0; y < kRows; ++y) {
        std::vector<float> alone(1);
        Tensor<cpu, 1, float>(alone.data(), Shape1(1)) = sum<1>(of(a.Slice(y, y + 1)));
        ASSERT_EQ(alone[0], out[y]) << columns << ' ' << y;
      }
    };
    expect_sums([](const auto& m) { return mirror(m); });
    expect_sums([](const auto& m) { return mirror(m) * 3.0f; });
    expect_sums(
        [](const auto& m) { return slice(m, Shape2(0, 0), m.shape_, Shape2(1, 2)) * 3.0f; });
  }
}

TEST(SliceOverlapTest, ReadsTheOldElements) {
  for (const GuardedLayout& layout : OperandLayouts()) {
    Sample<2, float> a(Shape2(3, 40), layout);
    slice<1>(*a, 1, 40) = slice<1>(*a, 0, 39);
    a.Expect([&](const Shape<2>& i) { return a.at(Shape2(i[0], i[1] == 0 ? 0 : i[1] - 1)); },
             "shifted");
    a.Restore();
    flip(*a, 0) = *a * 2.0f;
    a.Expect([&](const Shape<2>& i) { return 2 * a.at(Shape2(2 - i[0], i[1])); }, "flipped");
    a.Restore();
    slice<1>(*a, 1, 40) += slice<1>(*a, 0, 39);
    a.Expect(
        [&](const Shape<2>& i) { return a.at(i) + (i[1] == 0 ? 0 : a.at(Shape2(i[0], i[1] - 1))); },
        "sum of neighbours");
  }
}

TEST(SliceErrorTest, WhatDoesNotLieInTheShapeIsRefused) {
  GuardedTensor<2, float> a(Shape2(3, 5));
  ExpectError([&] { slice<1>(*a, 2, 6); }, kInvalidArgument, {"slice<1>", "[2, 6)", "(3,5)"});
  ExpectError([&] { slice<0>(*a, 2, 1); }, kInvalidArgument, {"slice<0>", "(3,5)"});
  ExpectError([&] { slice<0>(*a, -1, 1); }, kInvalidArgument, {"slice<0>", "(3,5)"});
  ExpectError([&] { slice(*a, Shape2(0, 4), Shape2(3, 6)); }, kInvalidArgument,
              {"slice", "(0,4)", "(3,6)", "(3,5)"});
  ExpectError([&] { slice(*a, Shape2(0, 0), Shape2(3, 5), Shape2(1, 0)); }, kInvalidArgument,
              {"slice", "(1,0)", "at least 1"});
  ExpectError([&] { crop(*a, Shape2(4, 2)); }, kInvalidArgument, {"crop", "(4,2)", "(3,5)"});
  ExpectError([&] { crop(*a, Shape2(2, 2), 2, 0); }, kInvalidArgument, {"crop", "(2,2)", "(3,5)"});
  ExpectError([&] { flip(*a, 2); }, kInvalidArgument, {"flip", "(3,5)", "2"});
  GuardedTensor<2, float> b(Shape2(3, 2));
  ExpectError([&] { slice<1>(*a, 0, 3) = *b; }, kInvalidArgument, {"assignment", "(3,2)", "(3,3)"});
  ExpectError([&] { *b = slice<1>(*a, 0, 3); }, kInvalidArgument, {"assignment", "(3,3)", "(3,2)"});
}

// Elements of any type fill a part of a tensor of them, now or later.
struct Pair {
  float a, b;
};
TEST(SliceTest, TakesAnElementForAll) {
  std::vector<Pair> memory(4);
  const Tensor<cpu, 1, Pair> tensor(memory.data(), Shape1(4));
  slice<0>(tensor, 1, 3) = Pair{1, 2};
  Fuse(Lazy(tensor.Slice(0, 1)) = Pair{3, 4});
  EXPECT_EQ(memory[0].b, 4.0f);
  EXPECT_EQ(memory[1].b, 2.0f);
  EXPECT_EQ(memory[2].b, 2.0f);
  EXPECT_EQ(memory[3].b, 0.0f);
}

}  // namespace
}  // namespace tessera
