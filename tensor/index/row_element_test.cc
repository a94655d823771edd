#include "tessera/tensor/index/row_element.h"

#include <cstdint>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/node_test_util.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;

static_assert(std::is_trivially_copyable_v<decltype(one_hot_encode(Tensor<cpu, 1>(), 3))>);
static_assert(decltype(mask(Tensor<cpu, 1>(), Tensor<cpu, 2>()))::kHasPacket);

template <typename T>
class RowElementTest : public testing::Test {};
TYPED_TEST_SUITE(RowElementTest, NodeElementTypes);

TYPED_TEST(RowElementTest, ChooseAndFill) {
  using T = TypeParam;
  const std::vector<index_t> columns = {3, 0, 18, 3, 7};
  GuardedTensor<1, int32_t> index(Shape1(5), {3, 0, 18, 3, 7});
  GuardedTensor<1, T> typed(Shape1(5), {T(3), T(0), T(18), T(3), T(7)});
  const auto column = [&](index_t y) { return columns[static_cast<size_t>(y)]; };
  for (const GuardedLayout& layout : OperandLayouts()) {
    Sample<2, T> a(Shape2(5, 19), layout);
    Sample<1, T> values(Shape1(5), layout, 1);
    const auto chosen = [&](const Shape<1>& i) { return a.at(Shape2(i[0], column(i[0]))); };
    ExpectElements<1>(mat_choose_row_element(*a, *index), Shape1(5), chosen, "choose");
    ExpectElements<1>(mat_choose_row_element(*a, *typed), Shape1(5), chosen, "choose");
    const auto filled = [&](const Shape<2>& i) {
      return i[1] == column(i[0]) ? values.at(Shape1(i[0])) : a.at(i);
    };
    ExpectElements<2>(mat_fill_row_element(*a, *values, *index), Shape2(5, 19), filled, "fill");
    ExpectElements<2>(mat_fill_row_element(*a, *values, *typed), Shape2(5, 19), filled, "fill");
    *a = mat_fill_row_element(*a, *values, *index);
    a.Expect(filled, "in place");
  }
}

TYPED_TEST(RowElementTest, OneHotRowsAndMaskedRows) {
  using T = TypeParam;
  GuardedTensor<1, T> index(Shape1(4), {T(2), T(0), T(8), T(5)});
  const std::vector<index_t> columns = {2, 0, 8, 5};
  ExpectElements<2>(
      one_hot_encode(*index, 9), Shape2(4, 9),
      [&](const Shape<2>& i) { return i[1] == columns[static_cast<size_t>(i[0])] ? 1.0 : 0.0; },
      "one hot");
  for (const GuardedLayout& layout : OperandLayouts()) {
    Sample<2, T> a(Shape2(4, 19), layout);
    ExpectElements<2>(
        mask(*index, *a), Shape2(4, 19),
        [&](const Shape<2>& i) {
          return static_cast<double>(columns[static_cast<size_t>(i[0])]) * a.at(i);
        },
        "mask");
  }
}

TEST(RowElementSpecialTest, NumbersThatAreNoColumn) {
  GuardedTensor<1, float> index(Shape1(4), {-1, 3, -0.25f, 1e20f});
  Sample<2, float> a(Shape2(4, 3));
  Sample<1, float> values(Shape1(4), {}, 1);
  // The nearest column is read; nothing is written, and nothing marked.
  const std::vector<index_t> nearest = {0, 2, 0, 2};
  ExpectElements<1>(
      mat_choose_row_element(*a, *index), Shape1(4),
      [&](const Shape<1>& i) { return a.at(Shape2(i[0], nearest[static_cast<size_t>(i[0])])); },
      "choose");
  ExpectElements<2>(
      mat_fill_row_element(*a, *values, *index), Shape2(4, 3),
      [&](const Shape<2>& i) { return i[0] == 2 && i[1] == 0 ? values.at(Shape1(2)) : a.at(i); },
      "fill");
  ExpectElements<2>(
      one_hot_encode(*index, 3), Shape2(4, 3),
      [&](const Shape<2>& i) { return i[0] == 2 && i[1] == 0 ? 1.0 : 0.0; }, "one hot");
  ExpectElements<2>(
      one_hot_encode(*index, 0), Shape2(4, 0), [](const Shape<2>&) { return 0.0; }, "no choices");
}

TEST(RowElementErrorTest, WhatDoesNotFitIsRefused) {
  GuardedTensor<1, float> two(Shape1(2), std::vector<float>{0, 0}), three(Shape1(3));
  GuardedTensor<2, float> a(Shape2(3, 5)), narrow(Shape2(2, 0));
  ExpectError([&] { mat_choose_row_element(*a, *two); }, kInvalidArgument,
              {"mat_choose_row_element", "(2,)", "(3,5)"});
  ExpectError([&] { mat_choose_row_element(*narrow, *two); }, kInvalidArgument,
              {"mat_choose_row_element", "(2,0)"});
  ExpectError([&] { mat_fill_row_element(*a, *two, *three); }, kInvalidArgument,
              {"mat_fill_row_element", "(2,)", "(3,)", "(3,5)"});
  ExpectError([&] { mask(*two, *a); }, kInvalidArgument, {"mask", "(2,)", "(3,5)"});
  ExpectError([&] { one_hot_encode(*two, -1); }, kInvalidArgument, {"one_hot_encode", "-1"});
}

}  // namespace
}  // namespace tessera
