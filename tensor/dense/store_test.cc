#include "tessera/tensor/dense/store.h"

#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/linalg/dot.h"
#include "tessera/tensor/reduce/reduce.h"
#include "tessera/tensor/reduce/reductions.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;

using Matrix = Tensor<cpu, 2, float>;
static_assert(std::is_trivially_copyable_v<decltype(Store(Matrix(), Matrix() * 2))>);

template <typename A, typename B>
concept CanStore = requires(A a, B b) {
  Store(a, b);
};
static_assert(CanStore<Matrix, Matrix> && !CanStore<Matrix, Tensor<cpu, 1, float>>);
static_assert(!CanStore<Matrix, Tensor<cpu, 2, double>> && !CanStore<Matrix, float>);

// Momentum: one pass gives both the new velocity and the new weight. Exact, as all numbers are
// small multiples of 1/4.
template <typename T>
void ExpectMomentumStep(const Shape<2>& shape, GuardedLayout layout) {
  std::vector<T> w, m, g, expected_w, expected_m;
  for (index_t i = 0; i < shape.Size(); ++i) {
    w.push_back(static_cast<T>(i % 13));
    m.push_back(static_cast<T>(i % 7 - 3));
    g.push_back(static_cast<T>(i % 5));
    const double velocity = 0.5 * static_cast<double>(m.back()) - 2 * static_cast<double>(g.back());
    expected_m.push_back(static_cast<T>(velocity));
    expected_w.push_back(static_cast<T>(static_cast<double>(w.back()) + velocity));
  }
  GuardedTensor<2, T> weight(shape, w, layout);
  GuardedTensor<2, T> velocity(shape, m, GuardedLayout{.misalignment = 1});
  GuardedTensor<2, T> gradient(shape, g);
  *weight += Store(*velocity, 0.5f * *velocity - 2 * *gradient);
  ExpectSameValues(weight.values(), expected_w);
  ExpectSameValues(velocity.values(), expected_m);
  EXPECT_TRUE(weight.GuardsIntact() && velocity.GuardsIntact());
}

template <typename T>
class StoreTest : public testing::Test {};
using RealTypes = TestedTypes<float, half_t>;
TYPED_TEST_SUITE(StoreTest, RealTypes);

TYPED_TEST(StoreTest, WritesBothResultsInOnePass) {
  for (const index_t columns : {0, 1, 3, 4, 5, 7, 8, 9, 33}) {
    ExpectMomentumStep<TypeParam>(Shape2(3, columns), {});
    ExpectMomentumStep<TypeParam>(Shape2(3, columns), {.row_padding = 2});
  }
  ExpectMomentumStep<TypeParam>(Shape2(1, 100001), {});  // in parallel
}

TEST(StoreTest, InsideAReductionStoresEveryElement) {
  GuardedTensor<1, float> a(Shape1(1000), RandomValues<float>(1000, -1, 1));
  GuardedTensor<1, float> squares(Shape1(1000));
  const float sum = ReduceAll<red::sum>(Store(*squares, F<op::square>(*a)));
  EXPECT_EQ(sum, ReduceAll<red::sum>(*squares));
  for (index_t i = 0; i < 1000; ++i) EXPECT_EQ((*squares)[i], (*a)[i] * (*a)[i]);
}

TEST(StoreTest, TakesCostlyFunctionsNumbersAndProducts) {
  GuardedTensor<2, float> a(Shape2(20, 30), RandomValues<float>(600, -1, 1));
  GuardedTensor<2, float> kept(Shape2(20, 30)), out(Shape2(20, 30)), expected(Shape2(20, 30));
  *out = Store(*kept, F<op::exp>(*a) * 2) + 1;
  *expected = F<op::exp>(*a) * 2;
  EXPECT_EQ(kept.values(), expected.values());
  *expected += 1;
  EXPECT_EQ(out.values(), expected.values());

  const float largest = maximum(*a);
  *out = Store(*kept, maximum(*a)) - *a;
  EXPECT_EQ(kept.values(), std::vector<float>(600, largest));
  *expected = largest - *a;
  EXPECT_EQ(out.values(), expected.values());

  GuardedTensor<2, float> square(Shape2(20, 20)), product(Shape2(20, 20)), twice(Shape2(20, 20));
  *twice = 2 * Store(*product, dot(*a, a->T()));
  *square = dot(*a, a->T());
  EXPECT_EQ(product.values(), square.values());
  *square *= 2;
  EXPECT_EQ(twice.values(), square.values());
}

TEST(StoreTest, ShapesThatDifferAreRefused) {
  GuardedTensor<2, float> a(Shape2(2, 3));
  GuardedTensor<2, float> b(Shape2(3, 2));
  ExpectError([&] { Store(*a, *b); }, kInvalidArgument, {"Store", "(2,3)", "(3,2)"});
}

}  // namespace
}  // namespace tessera
