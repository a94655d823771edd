#include "tessera/tensor/linalg/batch_gemm.h"

#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/node_test_util.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;

template <typename T>
class BatchGemmTest : public testing::Test {};
using RealTypes = TestedTypes<float, half_t, double>;
TYPED_TEST_SUITE(BatchGemmTest, RealTypes);

struct Sizes {
  index_t batch, m, k, n;
};

template <bool kLeft, bool kRight, typename T>
void ExpectProducts(const Sizes& s) {
  for (const GuardedLayout& layout : OperandLayouts()) {
    const Shape<3> shape_a = kLeft ? Shape3(s.batch, s.k, s.m) : Shape3(s.batch, s.m, s.k);
    const Shape<3> shape_b = kRight ? Shape3(s.batch, s.n, s.k) : Shape3(s.batch, s.k, s.n);
    const auto small = [](const Shape<3>& shape, uint64_t stream) {
      return RandomValues<int32_t>(shape.Size(), -2, 2, stream);
    };
    Sample<3, T> a(shape_a, small(shape_a, 1), layout), b(shape_b, small(shape_b, 2), layout);
    const Shape<3> shape_c = Shape3(s.batch, s.m, s.n);
    Sample<3, T> c(shape_c, small(shape_c, 3), layout);
    const auto product = [&](const Shape<3>& i) {
      double sum = 0;
      for (index_t k = 0; k < s.k; ++k) {
        sum += a.at(kLeft ? Shape3(i[0], k, i[1]) : Shape3(i[0], i[1], k)) *
               b.at(kRight ? Shape3(i[0], i[2], k) : Shape3(i[0], k, i[2]));
      }
      return sum;
    };
    Tensor<cpu, 1, T*> workspace(nullptr, Shape1(3 * s.batch));
    BatchGEMM<kLeft, kRight>(*c, *a, *b, 2.0f, 1.0f, workspace);
    c.Expect([&](const Shape<3>& i) { return 2 * product(i) + c.at(i); }, "accumulated");
    BatchGEMM<kLeft, kRight>(*c, *a, *b);
    c.Expect(product, "assigned");
    *c = 2.0f * batch_dot<kLeft, kRight>(*a, *b);
    c.Expect([&](const Shape<3>& i) { return 2 * product(i); }, "batch_dot");
    *c -= batch_dot<kLeft, kRight>(*a, *b);
    c.Expect(product, "batch_dot taken off");
  }
}

TYPED_TEST(BatchGemmTest, AllTransposes) {
  using T = TypeParam;
  for (const Sizes& s : {Sizes{3, 4, 5, 9}, Sizes{1, 1, 1, 1}, Sizes{2, 1, 17, 3},
                         Sizes{0, 2, 2, 2}, Sizes{2, 3, 0, 4}, Sizes{2, 0, 3, 4}}) {
    ExpectProducts<false, false, T>(s);
    ExpectProducts<true, false, T>(s);
    ExpectProducts<false, true, T>(s);
    ExpectProducts<true, true, T>(s);
  }
}

TYPED_TEST(BatchGemmTest, VectorDotSumsProducts) {
  using T = TypeParam;
  for (const index_t length : {0, 1, 9, 33}) {
    Sample<1, T> a(Shape1(length), RandomValues<int32_t>(length, -2, 2));
    Sample<1, T> b(Shape1(length), RandomValues<int32_t>(length, -2, 2, 1));
    GuardedTensor<1, T> out(Shape1(1), std::vector<T>{T(7)});
    double sum = 0;
    for (index_t i = 0; i < length; ++i) sum += a.at(Shape1(i)) * b.at(Shape1(i));
    VectorDot(*out, *a, *b);
    EXPECT_EQ(static_cast<double>((*out)[0]), sum);
    EXPECT_TRUE(out.GuardsIntact());
  }
}

TYPED_TEST(BatchGemmTest, ADestinationMayBeAnOperand) {
  using T = TypeParam;
  const Shape<3> shape = Shape3(3, 4, 4);
  Sample<3, T> a(shape, RandomValues<int32_t>(shape.Size(), -2, 2, 1));
  Sample<3, T> b(shape, RandomValues<int32_t>(shape.Size(), -2, 2, 2));
  const auto product = [&](const Shape<3>& i) {
    double sum = 0;
    for (index_t k = 0; k < 4; ++k) {
      sum += a.at(Shape3(i[0], i[1], k)) * b.at(Shape3(i[0], k, i[2]));
    }
    return sum;
  };
  *a = batch_dot<false, false>(*a, *b);
  a.Expect(product, "over the left operand");
  a.Restore();
  *a += batch_dot<false, false>(*a, *b);
  a.Expect([&](const Shape<3>& i) { return a.at(i) + product(i); }, "added to the left operand");
  a.Restore();
  *a *= batch_dot<false, false>(*a, *b);
  a.Expect([&](const Shape<3>& i) { return a.at(i) * product(i); }, "multiplied by the product");
}

TEST(BatchGemmErrorTest, WhatDoesNotFitIsRefused) {
  GuardedTensor<3, float> a(Shape3(2, 3, 4)), b(Shape3(2, 4, 5)), c(Shape3(2, 3, 5));
  GuardedTensor<3, float> square(Shape3(2, 3, 3));
  ExpectError([&] { BatchGEMM<true, false>(*c, *a, *b); }, kInvalidArgument,
              {"BatchGEMM", "(2,3,4) transposed", "(2,4,5)", "(2,3,5)"});
  ExpectError([&] { BatchGEMM<false, false>(*a, *a, *b); }, kInvalidArgument,
              {"BatchGEMM", "(2,3,4)"});
  ExpectError([&] { BatchGEMM<false, false>(*square, *square, *square); }, kInvalidArgument,
              {"BatchGEMM", "shares memory"});
  GuardedTensor<1, float> one(Shape1(1)), two(Shape1(2)), three(Shape1(3));
  ExpectError([&] { VectorDot(*one, *two, *three); }, kInvalidArgument,
              {"VectorDot", "(2,)", "(3,)"});
  ExpectError([&] { VectorDot(*two, *two, *two); }, kInvalidArgument, {"VectorDot", "(2,)"});
}

}  // namespace
}  // namespace tessera
