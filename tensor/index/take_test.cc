#include "tessera/tensor/index/take.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/node_test_util.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;

static_assert(
    std::is_trivially_copyable_v<decltype(take(Tensor<cpu, 1, int32_t>(), Tensor<cpu, 2>()))>);
static_assert(decltype(take(Tensor<cpu, 1, int32_t>(), Tensor<cpu, 2>()))::kHasPacket);

// Row numbers of every type, some beyond either end where the type has such.
template <typename I>
std::vector<I> Numbers() {
  std::vector<I> numbers = {I(3), I(0), I(4), I(0), I(5), I(100)};
  if constexpr (std::numeric_limits<I>::is_signed || kIsReal<I>) {
    numbers.insert(numbers.end(), {I(-1), I(-100)});
  }
  return numbers;
}
index_t Nearest(double number, index_t rows) {
  return std::clamp<index_t>(static_cast<index_t>(number), 0, rows - 1);
}

template <typename T>
class TakeTest : public testing::Test {};
TYPED_TEST_SUITE(TakeTest, NodeElementTypes);

template <typename T>
class TakeByNumberTest : public testing::Test {};
TYPED_TEST_SUITE(TakeByNumberTest, SizedElementTypes);

TYPED_TEST(TakeByNumberTest, RowsByNumberOfThisType) {
  using I = TypeParam;
  const std::vector<I> numbers = Numbers<I>();
  const auto count = static_cast<index_t>(numbers.size());
  GuardedTensor<1, I> index(Shape1(count), numbers);
  for (const GuardedLayout& layout : OperandLayouts()) {
    Sample<2, float> a(Shape2(5, 19), layout);
    const auto row = [&](index_t y) {
      return Nearest(static_cast<double>(numbers[static_cast<size_t>(y)]), 5);
    };
    ExpectElements<2>(
        take(*index, *a), Shape2(count, 19),
        [&](const Shape<2>& i) { return a.at(Shape2(row(i[0]), i[1])); }, "take");
    Sample<2, float> grad(Shape2(count, 19), layout, 1);
    ExpectElements<2>(
        take_grad(*index, *grad, 5), Shape2(5, 19),
        [&](const Shape<2>& i) {
          double sum = 0;
          for (index_t y = 0; y < count; ++y) sum += row(y) == i[0] ? grad.at(Shape2(y, i[1])) : 0;
          return sum;
        },
        "take_grad");
  }
}

TYPED_TEST(TakeTest, RowsOfThisType) {
  using T = TypeParam;
  GuardedTensor<1, int64_t> index(Shape1(4), {2, 2, 0, 1});
  const std::vector<index_t> rows = {2, 2, 0, 1};
  Sample<2, T> a(Shape2(3, 300)), grad(Shape2(4, 300), {}, 1);
  ExpectElements<2>(
      take(*index, *a), Shape2(4, 300),
      [&](const Shape<2>& i) { return a.at(Shape2(rows[static_cast<size_t>(i[0])], i[1])); },
      "take");
  ExpectElements<2>(
      take_grad(*index, *grad, 3), Shape2(3, 300),
      [&](const Shape<2>& i) {
        double sum = 0;
        for (index_t y = 0; y < 4; ++y) {
          if (rows[static_cast<size_t>(y)] == i[0]) sum += grad.at(Shape2(y, i[1]));
        }
        return sum;
      },
      "take_grad");
}

TEST(TakeSpecialTest, NumbersThatAreNoRowNeverReachOutside) {
  const float inf = std::numeric_limits<float>::infinity();
  GuardedTensor<1, float> index(
      Shape1(7), {std::numeric_limits<float>::quiet_NaN(), -inf, inf, 1e30f, -0.5f, 1.99f, -1e30f});
  Sample<2, float> a(Shape2(3, 2));
  const std::vector<index_t> rows = {0, 0, 2, 2, 0, 1, 0};
  ExpectElements<2>(
      take(*index, *a), Shape2(7, 2),
      [&](const Shape<2>& i) { return a.at(Shape2(rows[static_cast<size_t>(i[0])], i[1])); },
      "take");
  GuardedTensor<1, uint64_t> large(Shape1(2),
                                   std::vector<uint64_t>{std::numeric_limits<uint64_t>::max(), 1});
  ExpectElements<2>(
      take(*large, *a), Shape2(2, 2),
      [&](const Shape<2>& i) { return a.at(Shape2(i[0] == 0 ? 2 : 1, i[1])); }, "uint64");
}

TEST(TakeSpecialTest, EmptyAndComputedOperands) {
  GuardedTensor<1, float> none(Shape1(0)), two(Shape1(2), std::vector<float>{0, 1});
  Sample<2, float> a(Shape2(3, 5)), empty(Shape2(0, 5));
  *empty = take(*none, *a);
  *empty = take(*none, *empty);
  Sample<2, float> zeros(Shape2(3, 5));
  *zeros = take_grad(*none, *empty, 3);
  zeros.Expect([](const Shape<2>&) { return 0.0; }, "no rows");
  ExpectElements<2>(
      take(*two + 1.0f, *a * 2.0f), Shape2(2, 5),
      [&](const Shape<2>& i) { return 2 * a.at(Shape2(i[0] + 1, i[1])); }, "expressions");
  // In place, through a temporary.
  *a = take(*GuardedTensor<1, float>(Shape1(3), {2, 1, 0}), *a);
  a.Expect([&](const Shape<2>& i) { return a.at(Shape2(2 - i[0], i[1])); }, "in place");
}

// Counts how often an index is read.
struct Counted {
  static inline index_t reads = 0;
  static float Map(float number) {
    ++reads;
    return number;
  }
};

TEST(TakeGradSpecialTest, LooksAtEachNumberOnce) {
  Sample<1, float> index(Shape1(50));
  Sample<2, float> grad(Shape2(50, 7)), sums(Shape2(9, 7)), more(Shape2(9, 7), {}, 3);
  const auto expect = [&](auto&& assign, const char* what) {
    Counted::reads = 0;
    assign(take_grad(F<Counted>(*index), *grad, 9));
    EXPECT_EQ(Counted::reads, 50) << what;
  };
  expect([&](const auto& e) { *sums = e; }, "assigned");
  expect([&](const auto& e) { *sums += e; }, "added");
  expect([&](const auto& e) { *sums = *more * e + 1.0f; }, "in an expression");
  expect([&](const auto& e) { *sums = e - e * e; }, "three times");
}

// More rows than one task takes, most of them sums of several rows of a computed gradient, in the
// order of the index: other orders round otherwise.
TEST(TakeGradSpecialTest, ManyRowsAddUpInOrder) {
  constexpr index_t kCount = 5000, kRows = 1500, kColumns = 37;
  std::vector<int32_t> numbers;
  std::vector<float> values;
  for (index_t i = 0; i < kCount; ++i) numbers.push_back(static_cast<int32_t>(i * i % 1601 - 50));
  for (index_t i = 0; i < kCount * kColumns; ++i) {
    values.push_back(1.0f / static_cast<float>(1 + i * 7919 % 1009));
  }
  std::vector<float> expected(kRows * kColumns);
  for (index_t i = 0; i < kCount; ++i) {
    const index_t row = std::clamp<index_t>(numbers[static_cast<size_t>(i)], 0, kRows - 1);
    for (index_t x = 0; x < kColumns; ++x) {
      expected[static_cast<size_t>(row * kColumns + x)] +=
          values[static_cast<size_t>(i * kColumns + x)] * 2.0f;
    }
  }
  GuardedTensor<1, int32_t> index(Shape1(kCount), numbers);
  for (const GuardedLayout& layout : OperandLayouts()) {
    GuardedTensor<2, float> grad(Shape2(kCount, kColumns), values, layout);
    GuardedTensor<2, float> sums(Shape2(kRows, kColumns), layout);
    *sums = take_grad(*index, *grad * 2.0f, kRows);
    EXPECT_EQ(sums.values(), expected);
    EXPECT_TRUE(sums.GuardsIntact());
  }
}

TEST(TakeGradSpecialTest, TheDestinationMayBeAnOperand) {
  GuardedTensor<1, int32_t> index(Shape1(4), {1, 3, 1, 0});
  Sample<2, float> a(Shape2(4, 21));
  *a = take_grad(*index, *a, 4);
  a.Expect(
      [&](const Shape<2>& i) {
        const auto at = [&](index_t y) { return a.at(Shape2(y, i[1])); };
        return i[0] == 0 ? at(3) : i[0] == 1 ? at(0) + at(2) : i[0] == 3 ? at(1) : 0;
      },
      "in place");
}

TEST(TakeErrorTest, WhatDoesNotFitIsRefused) {
  GuardedTensor<1, float> index(Shape1(2), std::vector<float>{0, 0});
  GuardedTensor<2, float> empty(Shape2(0, 5)), three(Shape2(3, 5));
  ExpectError([&] { take(*index, *empty); }, kInvalidArgument, {"take", "2 rows", "(0,5)"});
  ExpectError([&] { take_grad(*index, *three, 4); }, kInvalidArgument,
              {"take_grad", "2 rows", "(3,5)"});
}

}  // namespace
}  // namespace tessera
