#include "tessera/tensor/nn/softmax_grad.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/node_test_util.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;

template <typename T>
class SoftmaxGradTest : public testing::Test {};
using RealTypes = TestedTypes<float, half_t>;
TYPED_TEST_SUITE(SoftmaxGradTest, RealTypes);

// Expects of each element src - on at its label's class, src - off at others, 0 if ignored; the
// difference is rounded once, after the constant was.
template <int N, typename T>
void ExpectGrad(const GuardedTensor<N, T>& out, const std::vector<T>& src, const Shape<3>& shape,
                const std::vector<int32_t>& labels, double on, double off, int32_t ignored,
                const std::string& what) {
  std::vector<double> expected;
  ForEachIndex(shape, [&](const Shape<3>& i) {
    const int32_t label = labels[static_cast<size_t>(i[0] * shape[2] + i[2])];
    const double value = static_cast<double>(src[expected.size()]);
    expected.push_back(label == ignored ? 0 : value - (label == i[1] ? on : off));
  });
  ExpectWithin<T>(
      out.values(), expected,
      [&](size_t i) {
        return UnitRoundoff<T>() * (std::abs(expected[i]) + 1e-3) +
               0x1p-24 * on * (std::is_same_v<T, double> ? 0x1p-29 : 1);
      },
      what);
  EXPECT_TRUE(out.GuardsIntact()) << what;
}

// Of a few classes, and of so many that the rows are computed in wide packets.
template <typename T>
void ExpectMatrixGrads(index_t classes) {
  const std::vector<int32_t> labels = {3, 0, 8, 2};
  const double alpha = 0.1f, others = alpha / static_cast<double>(classes - 1);
  for (const GuardedLayout& layout : OperandLayouts()) {
    const std::vector<T> values = RandomValues<T>(4 * classes, 0, 1);
    const Shape<3> shape = Shape3(4, classes, 1);
    GuardedTensor<2, T> src(Shape2(4, classes), values, layout), out(Shape2(4, classes), layout);
    GuardedTensor<1, int32_t> whole(Shape1(4), labels);
    GuardedTensor<1, T> typed(Shape1(4), {T(3), T(0), T(8), T(2)});
    SoftmaxGrad(*out, *src, *whole);
    ExpectGrad(out, values, shape, labels, 1, 0, -1, "whole labels");
    SoftmaxGrad(*out, *src, *typed);
    ExpectGrad(out, values, shape, labels, 1, 0, -1, "labels of the same type");
    SoftmaxGrad(*out, *src, *typed, T(8));
    ExpectGrad(out, values, shape, labels, 1, 0, 8, "one ignored");
    SmoothSoftmaxGrad(*out, *src, *typed, 0.1f);
    ExpectGrad(out, values, shape, labels, 1 - alpha, others, -1, "smoothed");
    SmoothSoftmaxGrad(*out, *src, *whole, 0, 0.1f);
    ExpectGrad(out, values, shape, labels, 1 - alpha, others, 0, "smoothed, one ignored");
    SoftmaxGrad(*src, *src, *whole);
    ExpectGrad(src, values, shape, labels, 1, 0, -1, "in place");
    src.Set(values);
    SmoothSoftmaxGrad(*src, *src, *whole, 0.1f);
    ExpectGrad(src, values, shape, labels, 1 - alpha, others, -1, "smoothed in place");
  }
}
TYPED_TEST(SoftmaxGradTest, MatricesHaveALabelARow) {
  for (const index_t classes : {9, 83}) ExpectMatrixGrads<TypeParam>(classes);
}

TYPED_TEST(SoftmaxGradTest, PositionsHaveALabelEach) {
  using T = TypeParam;
  const std::vector<int32_t> labels = {3, 0, -1, 2, 1, 4, 0, 4, 1, 1, -1, 2, 9, 3};
  for (const GuardedLayout& layout : OperandLayouts()) {
    const Shape<3> shape = Shape3(2, 5, 7);
    const std::vector<T> values = RandomValues<T>(shape.Size(), 0, 1);
    GuardedTensor<3, T> src(shape, values, layout), out(shape, layout);
    GuardedTensor<2, int32_t> label(Shape2(2, 7), labels, layout);
    std::vector<T> typed_labels;
    for (const int32_t at : labels) typed_labels.push_back(static_cast<T>(at));
    GuardedTensor<2, T> typed(Shape2(2, 7), typed_labels, layout);
    // Labels that are no class, -1 and 9, change nothing.
    SoftmaxGrad(*out, *src, *label);
    ExpectGrad(out, values, shape, labels, 1, 0, 100, "none ignored");
    SoftmaxGrad(*out, *src, *typed, T(-1));
    ExpectGrad(out, values, shape, labels, 1, 0, -1, "one ignored");
    SoftmaxGrad(*src, *src, *label, -1);
    ExpectGrad(src, values, shape, labels, 1, 0, -1, "in place");
  }
}

TEST(SoftmaxGradErrorTest, WhatDoesNotFitIsRefused) {
  GuardedTensor<2, float> a(Shape2(3, 4)), b(Shape2(4, 3));
  GuardedTensor<3, float> c(Shape3(2, 3, 4));
  GuardedTensor<1, float> two(Shape1(2)), three(Shape1(3));
  ExpectError([&] { SoftmaxGrad(*a, *a, *two); }, kInvalidArgument,
              {"SoftmaxGrad", "(2,)", "(3,4)"});
  ExpectError([&] { SoftmaxGrad(*a, *b, *three); }, kInvalidArgument,
              {"SoftmaxGrad", "(3,4)", "(4,3)"});
  ExpectError([&] { SoftmaxGrad(*c, *c, *a); }, kInvalidArgument,
              {"SoftmaxGrad", "(3,4)", "(2,3,4)"});
  ExpectError([&] { SmoothSoftmaxGrad(*a, *a, *two, 0.5f); }, kInvalidArgument,
              {"SmoothSoftmaxGrad", "(2,)"});
}

}  // namespace
}  // namespace tessera
