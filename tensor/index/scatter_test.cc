#include "tessera/tensor/index/scatter.h"

#include <cstdint>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/node_test_util.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;

template <typename T>
class ScatterTest : public testing::Test {};
TYPED_TEST_SUITE(ScatterTest, NodeElementTypes);

// Numbers of rows as a given type: some twice, the last two beyond the end.
template <typename I>
std::vector<I> Numbers() {
  return {I(3), I(0), I(4), I(0), I(3), I(3), I(5), I(7)};
}
const std::vector<index_t> kNearest = {3, 0, 4, 0, 3, 3, 4, 4};
const std::vector<index_t> kAround = {3, 0, 4, 0, 3, 3, 0, 2};
const std::vector<index_t> kSkipped = {3, 0, 4, 0, 3, 3, -1, -1};

// What `row` of the destination takes from the rows that go there.
template <typename T>
double SumOf(const Sample<2, T>& src, const std::vector<index_t>& rows, const Shape<2>& index) {
  double sum = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == index[0]) sum += src.at(Shape2(static_cast<index_t>(i), index[1]));
  }
  return sum;
}

template <typename T, typename I>
void ExpectScattered(index_t columns) {
  const std::vector<I> numbers = Numbers<I>();
  GuardedTensor<1, I> index(Shape1(8), numbers);
  for (const GuardedLayout& layout : OperandLayouts()) {
    Sample<2, T> dst(Shape2(5, columns), layout), src(Shape2(8, columns), layout, 1);
    AddTakeGrad(*dst, *index, *src);
    dst.Expect([&](const Shape<2>& i) { return dst.at(i) + SumOf(src, kNearest, i); }, "clipped");
    dst.Restore();
    AddTakeGrad<false>(*dst, *index, *src);
    dst.Expect([&](const Shape<2>& i) { return dst.at(i) + SumOf(src, kAround, i); }, "around");
    dst.Restore();
    IndexFill(*dst, *index, *src);
    dst.Expect(
        [&](const Shape<2>& i) {
          double value = dst.at(i);
          for (size_t k = 0; k < 8; ++k) {
            if (kSkipped[k] == i[0]) value = src.at(Shape2(static_cast<index_t>(k), i[1]));
          }
          return value;
        },
        "filled");
    dst.Restore();
    // Sorted keys and where they stood.
    GuardedTensor<1, I> sorted(Shape1(8), {I(0), I(0), I(3), I(3), I(3), I(4), I(5), I(7)});
    GuardedTensor<1, I> from(Shape1(8), {I(1), I(3), I(0), I(4), I(5), I(2), I(6), I(7)});
    AddTakeGradLargeBatch(*dst, *sorted, *from, *src);
    dst.Expect([&](const Shape<2>& i) { return dst.at(i) + SumOf(src, kNearest, i); }, "sorted");
  }
}

TYPED_TEST(ScatterTest, RowsOfThisType) { ExpectScattered<TypeParam, int32_t>(19); }
TYPED_TEST(ScatterTest, NumbersOfThisType) { ExpectScattered<float, TypeParam>(5); }

TEST(ScatterWideTest, ManyColumnsAndNone) {
  ExpectScattered<float, int64_t>(70000);  // several tasks, and blocks that do not fill
  ExpectScattered<half_t, float>(300);
  ExpectScattered<float, float>(0);
}

TEST(ScatterSpecialTest, NegativeNumbersAndNan) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  GuardedTensor<1, float> index(Shape1(4), {-1, -5, -7, nan});
  Sample<2, float> dst(Shape2(5, 3)), src(Shape2(4, 3), {}, 1);
  AddTakeGrad(*dst, *index, *src);
  dst.Expect([&](const Shape<2>& i) { return dst.at(i) + SumOf(src, {0, 0, 0, 0}, i); }, "clipped");
  dst.Restore();
  AddTakeGrad<false>(*dst, *index, *src);
  dst.Expect([&](const Shape<2>& i) { return dst.at(i) + SumOf(src, {4, 0, 3, 0}, i); }, "around");
  dst.Restore();
  GuardedTensor<1, int64_t> whole(Shape1(4), {-1, -5, -7, std::numeric_limits<int64_t>::min()});
  // The least number of 64 bits is -3 by the remainder of 5.
  AddTakeGrad<false>(*dst, *whole, *src);
  dst.Expect([&](const Shape<2>& i) { return dst.at(i) + SumOf(src, {4, 0, 3, 2}, i); }, "around");
  dst.Restore();
  IndexFill(*dst, *index, *src);
  dst.Expect([&](const Shape<2>& i) { return dst.at(i); }, "filled nothing");
}

TEST(ScatterErrorTest, WhatDoesNotFitIsRefused) {
  GuardedTensor<1, float> two(Shape1(2)), three(Shape1(3));
  GuardedTensor<2, float> dst(Shape2(5, 4)), src(Shape2(2, 4)), narrow(Shape2(2, 3));
  GuardedTensor<2, float> empty(Shape2(0, 4));
  Tensor<cpu, 1, char> workspace;
  ExpectError([&] { AddTakeGrad(*dst, *three, *src); }, kInvalidArgument,
              {"AddTakeGrad", "3 indices", "(2,4)", "(5,4)"});
  ExpectError([&] { AddTakeGrad(*dst, *two, *narrow); }, kInvalidArgument, {"(2,3)"});
  ExpectError([&] { AddTakeGrad(*empty, *two, *src); }, kInvalidArgument, {"(0,4)"});
  ExpectError([&] { AddTakeGradLargeBatch(*dst, *two, *three, *src, &workspace); },
              kInvalidArgument, {"AddTakeGradLargeBatch", "2 keys", "3 indices"});
  ExpectError([&] { AddTakeGradLargeBatch(*dst, *two, *two, *empty); }, kInvalidArgument,
              {"AddTakeGradLargeBatch", "(0,4)"});
  ExpectError([&] { IndexFill(*dst, *two, *narrow); }, kInvalidArgument, {"IndexFill", "(2,3)"});
}

}  // namespace
}  // namespace tessera
