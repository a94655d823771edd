#include "tessera/tensor/implicit_dot.h"

#include <cstdint>
#include <type_traits>

#include "gtest/gtest.h"
#include "tessera/tensor/node_test_util.h"

namespace tessera {
namespace {

static_assert(
    std::is_trivially_copyable_v<decltype(implicit_dot(Tensor<cpu, 2>(), Tensor<cpu, 2>()))>);

template <typename T>
class ImplicitDotTest : public testing::Test {};
TYPED_TEST_SUITE(ImplicitDotTest, NodeElementTypes);

TYPED_TEST(ImplicitDotTest, ProductsOfMatrices) {
  using T = TypeParam;
  for (const Shape<3>& mkn : {Shape3(3, 4, 9), Shape3(1, 1, 1), Shape3(2, 0, 5), Shape3(0, 3, 5),
                              Shape3(3, 5, 0), Shape3(2, 3, 300)}) {
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

TEST(ImplicitDotErrorTest, TheInnerDimensionsMustBeEqual) {
  GuardedTensor<2, float> a(Shape2(3, 4)), b(Shape2(3, 9));
  ExpectError([&] { implicit_dot(*a, *b); }, Error::kInvalidArgument,
              {"implicit_dot", "(3,4)", "(3,9)"});
}

}  // namespace
}  // namespace tessera
