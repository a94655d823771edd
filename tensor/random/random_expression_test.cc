#include "tessera/tensor/random/random_expression.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/dense/allocate.h"
#include "tessera/tensor/random/random.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;
constexpr uint64_t kSeed = 11;

static_assert(std::is_trivially_copyable_v<expr::UniformExp<3, float>>, "nodes go into kernels");
static_assert(std::is_trivially_copyable_v<expr::GaussianExp<3, half_t>>, "nodes go into kernels");

template <typename T>
class RandomExpressionTest : public testing::Test {};
using Types = TestedTypes<float, half_t>;
TYPED_TEST_SUITE(RandomExpressionTest, Types);

const std::vector<Shape<2>>& Shapes() {
  static const std::vector<Shape<2>> shapes = {Shape2(0, 5),  Shape2(1, 1),  Shape2(3, 7),
                                               Shape2(1, 64), Shape2(9, 65), Shape2(40, 33)};
  return shapes;
}

TYPED_TEST(RandomExpressionTest, UniformNumbersAreThoseOfSampleUniform) {
  using T = TypeParam;
  for (const Shape<2>& shape : Shapes()) {
    Random<cpu> filled(kSeed), evaluated(kSeed);
    TensorContainer<cpu, 2, T> expected(shape), got(shape);
    got.set_pad(true);
    for (const double high : {1.0, 5.0}) {
      filled.SampleUniform(&expected, -1, high);
      const auto numbers = evaluated.uniform<T>(shape, -1, high);
      got = numbers;
      for (index_t y = 0; y < shape[0]; ++y) {
        for (index_t x = 0; x < shape[1]; ++x) {
          const auto e = static_cast<double>(expected[y][x]);
          // A compiler may contract first + width * unit.
          EXPECT_NEAR(static_cast<double>(got[y][x]), e, 8 * UnitRoundoff<T>()) << shape;
          EXPECT_EQ(got[y][x], numbers.Eval(y, x)) << shape << " element by element";
        }
      }
    }
    EXPECT_EQ(filled.GetRandInt(), evaluated.GetRandInt()) << "both drew equally much";
  }
}

TYPED_TEST(RandomExpressionTest, NormalNumbersAreThoseOfSampleGaussian) {
  using T = TypeParam;
  for (const Shape<2>& shape : Shapes()) {
    Random<cpu> filled(kSeed), evaluated(kSeed);
    TensorContainer<cpu, 2, T> expected(shape), got;
    filled.SampleGaussian(&expected, 3, 0.5);
    got = evaluated.gaussian<T>(shape, 3, 0.5);
    EXPECT_EQ(got.shape_, shape);
    for (index_t y = 0; y < shape[0]; ++y) {
      for (index_t x = 0; x < shape[1]; ++x) {
        const auto e = static_cast<double>(expected[y][x]);
        const double bound = std::is_same_v<T, double> ? 1e-14 : 8 * UnitRoundoff<T>() + 0x1p-13;
        EXPECT_NEAR(static_cast<double>(got[y][x]), e, bound) << shape;
      }
    }
    EXPECT_EQ(filled.GetRandInt(), evaluated.GetRandInt()) << "both drew equally much";
  }
}

TEST(RandomExpressionTest, AnExpressionKeepsItsNumbers) {
  Random<cpu> random(kSeed);
  const Shape<1> shape = Shape1(100);
  const auto first = random.uniform(shape);
  const auto second = random.uniform(shape);
  TensorContainer<cpu, 1> a, b, difference;
  a = first;
  difference = first - second;
  b = first;
  index_t equal = 0;
  for (index_t i = 0; i < 100; ++i) {
    EXPECT_EQ(a[i], b[i]);
    equal += difference[i] == 0.0f;
  }
  EXPECT_LE(equal, 1) << "two expressions draw different numbers";
}

TEST(RandomExpressionTest, StandsInsideAnExpressionOfAnyLayout) {
  Random<cpu> random(kSeed), again(kSeed);
  Tensor<cpu, 3> padded(Shape3(2, 3, 5));
  AllocSpace(&padded);
  ASSERT_FALSE(padded.CheckContiguous());
  padded = random.uniform(padded.shape_) * 2.0f + 1.0f;
  TensorContainer<cpu, 1> flat(Shape1(30));
  flat = again.uniform(flat.shape_);
  for (index_t i = 0; i < 30; ++i) {
    EXPECT_FLOAT_EQ(padded[i / 15][i / 5 % 3][i % 5], flat[i] * 2.0f + 1.0f);
  }
  FreeSpace(&padded);
}

TEST(RandomExpressionErrorTest, BadParametersDrawNothing) {
  Random<cpu> random(kSeed), fresh(kSeed);
  const Shape<1> shape = Shape1(3);
  ExpectError([&] { random.uniform(shape, 2, 1); }, kInvalidArgument, {"SampleUniform", "low = 2"});
  ExpectError([&] { random.gaussian(shape, 0, -1); }, kInvalidArgument,
              {"SampleGaussian", "deviation = -1"});
  EXPECT_EQ(random.GetRandInt(), fresh.GetRandInt());
}

}  // namespace
}  // namespace tessera
