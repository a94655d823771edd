#include "tessera/tensor/linalg/implicit_dot.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <type_traits>

#include "gtest/gtest.h"
#include "tessera/tensor/functors/real_functors.h"
#include "tessera/tensor/testing/node_test_util.h"

namespace tessera {
namespace {

static_assert(
    std::is_trivially_copyable_v<decltype(implicit_dot(Tensor<cpu, 2>(), Tensor<cpu, 2>()))>);

template <typename T>
class ImplicitDotTest : public testing::Test {};
TYPED_TEST_SUITE(ImplicitDotTest, NodeElementTypes);

TYPED_TEST(ImplicitDotTest, ProductsOfMatrices) {
  using T = TypeParam;
  for (const Shape<3>& mkn :
       {Shape3(3, 4, 9), Shape3(1, 1, 1), Shape3(2, 0, 5), Shape3(0, 3, 5), Shape3(3, 5, 0),
        Shape3(2, 3, 300), Shape3(2, 21, 3), Shape3(3, 2, 29)}) {
    for (const GuardedLayout& layout : OperandLayouts()) {
      // Factors of 0 to 3, so that every type holds the sums.
      const auto small = [](index_t count, uint64_t stream) {
        return RandomValues<int32_t>(count, 0, 3, stream);
      };
      Sample<2, T> a(Shape2(mkn[0], mkn[1]), small(mkn[0] * mkn[1], 1), layout);
      Sample<2, T> b(Shape2(mkn[1], mkn[2]), small(mkn[1] * mkn[2], 2), layout);
      ExpectElements<2>(
          implicit_dot(*a, *b), Shape2(mkn[0], mkn[2]),
          [&](const Shape<2>& i) {
            double sum = 0;
            for (index_t k = 0; k < mkn[1]; ++k) {
              sum += a.at(Shape2(i[0], k)) * b.at(Shape2(k, i[1]));
            }
            return sum;
          },
          "product");
    }
  }
}

TEST(ImplicitDotOfExpressionsTest, ComputedOperands) {
  Sample<2, float> a(Shape2(3, 4)), b(Shape2(9, 4), {}, 1);
  ExpectElements<2>(
      implicit_dot(*a + 1.0f, b->T()) * 2.0f, Shape2(3, 9),
      [&](const Shape<2>& i) {
        double sum = 0;
        for (index_t k = 0; k < 4; ++k) {
          sum += (a.at(Shape2(i[0], k)) + 1) * b.at(Shape2(i[1], k));
        }
        return 2 * sum;
      },
      "product of expressions");
}

// More of a's row, and of b's columns, than are taken at a time.
TEST(ImplicitDotOfExpressionsTest, BlocksOfLongRowsAndOfFunctions) {
  const index_t depth = 600;
  for (const index_t columns : {1, 3, 7, 30, 300}) {
    Sample<2, double> a(Shape2(2, depth)), b(Shape2(depth, columns), {}, 1);
    const auto check = [&](const auto& product, const std::function<double(double)>& of_a,
                           double relative) {
      ExpectElements<2>(
          product, Shape2(2, columns),
          [&](const Shape<2>& i) {
            double sum = 0;
            for (index_t k = 0; k < depth; ++k) {
              sum += of_a(a.at(Shape2(i[0], k))) * b.at(Shape2(k, i[1]));
            }
            return sum;
          },
          std::to_string(columns) + " columns", relative);
    };
    check(
        implicit_dot(*a, *b), [](double x) { return x; }, 0);
    check(
        implicit_dot(F<op::exp>(*a), *b), [](double x) { return std::exp(x); }, 1e-10);
  }
}

TEST(ImplicitDotErrorTest, TheInnerDimensionsMustBeEqual) {
  GuardedTensor<2, float> a(Shape2(3, 4)), b(Shape2(3, 9));
  ExpectError([&] { implicit_dot(*a, *b); }, Error::kInvalidArgument,
              {"implicit_dot", "(3,4)", "(3,9)"});
}

}  // namespace
}  // namespace tessera
