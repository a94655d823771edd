#include "tessera/tensor/nn/softmax.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

// Softmax in double over dimension 1 of (n, classes, positions).
template <typename T>
std::vector<double> Oracle(const std::vector<T>& values, const Shape<3>& shape) {
  std::vector<double> result(values.size());
  for (index_t n = 0; n < shape[0]; ++n) {
    for (index_t p = 0; p < shape[2]; ++p) {
      const auto at = [&](index_t c) {
        return static_cast<size_t>((n * shape[1] + c) * shape[2] + p);
      };
      double maximum = -std::numeric_limits<double>::infinity();
      for (index_t c = 0; c < shape[1]; ++c) {
        maximum = std::max(maximum, static_cast<double>(values[at(c)]));
      }
      double sum = 0;
      for (index_t c = 0; c < shape[1]; ++c) {
        result[at(c)] = std::exp(static_cast<double>(values[at(c)]) - maximum);
        sum += result[at(c)];
      }
      for (index_t c = 0; c < shape[1]; ++c) result[at(c)] /= sum;
    }
  }
  return result;
}

template <typename T>
class SoftmaxTest : public testing::Test {
 protected:
  /// The exponential, the sum and the division each round, and 16-bit types store twice.
  static void ExpectSoftmax(const std::vector<T>& actual, const std::vector<T>& values,
                            const Shape<3>& shape) {
    using Accumulator = typename expr::AccumulateIn<T>::type;
    const double relative =
        (8 + static_cast<double>(shape[1])) * UnitRoundoff<Accumulator>() + 4 * UnitRoundoff<T>();
    const std::vector<double> expected = Oracle(values, shape);
    ExpectWithin<T>(actual, expected, [&](size_t i) {
      return relative * expected[i] + static_cast<double>(std::numeric_limits<T>::denorm_min());
    });
  }
};

using RealTypes = TestedTypes<float, half_t>;
TYPED_TEST_SUITE(SoftmaxTest, RealTypes);

TYPED_TEST(SoftmaxTest, NormalizesEveryPositionOverTheClasses) {
  using T = TypeParam;
  for (const Shape<3>& shape : {Shape3(1, 1, 1), Shape3(3, 10, 1), Shape3(2, 5, 7), Shape3(0, 5, 7),
                                Shape3(2, 0, 7), Shape3(2, 5, 0), Shape3(700, 10, 9)}) {
    const std::vector<T> values = RandomValues<T>(shape.Size(), -8, 8);
    GuardedTensor<3, T> source(shape, values);
    GuardedTensor<3, T> out(shape, GuardedLayout{.misalignment = 1});
    Softmax(*out, *source);
    TestFixture::ExpectSoftmax(out.values(), values, shape);
    EXPECT_TRUE(out.GuardsIntact());
    Softmax(*source, *source);  // in place
    ExpectSameValues(source.values(), out.values());
  }
}

TYPED_TEST(SoftmaxTest, MatricesHaveOneDistributionARow) {
  using T = TypeParam;
  for (const index_t classes : {1, 2, 9, 10, 1000}) {
    const std::vector<T> values = RandomValues<T>(4 * classes, -8, 8);
    GuardedTensor<2, T> source(Shape2(4, classes), values);
    GuardedTensor<2, T> out(Shape2(4, classes));
    Softmax(*out, *source);
    TestFixture::ExpectSoftmax(out.values(), values, Shape3(4, classes, 1));
  }
}

TYPED_TEST(SoftmaxTest, LargeInputsDoNotOverflow) {
  using T = TypeParam;
  const T large = std::numeric_limits<T>::max();
  GuardedTensor<2, T> source(Shape2(1, 4), {large, T(-large), T(0), large});
  Softmax(*source, *source);
  ExpectSameValues(source.values(), {T(0.5f), T(0), T(0), T(0.5f)});
}

TEST(SoftmaxSpecialTest, NanAndInfinityGiveNanInTheirRowAlone) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  GuardedTensor<2, float> source(Shape2(4, 2), {1, nan, inf, 0, -inf, 0, 5, 5});
  Softmax(*source, *source);
  ExpectSameValues(source.values(), {nan, nan, nan, nan, 0, 1, 0.5f, 0.5f});
}

TYPED_TEST(SoftmaxTest, RowsMayBePadded) {
  using T = TypeParam;
  const std::vector<T> values = RandomValues<T>(2 * 5 * 9, -8, 8);
  for (const GuardedLayout& layout : {GuardedLayout{.row_padding = 3}, GuardedLayout{}}) {
    GuardedTensor<3, T> cube(Shape3(2, 5, 9), values, GuardedLayout{.row_padding = 1});
    GuardedTensor<3, T> cube_out(Shape3(2, 5, 9), layout);
    Softmax(*cube_out, *cube);
    TestFixture::ExpectSoftmax(cube_out.values(), values, Shape3(2, 5, 9));
    EXPECT_TRUE(cube_out.GuardsIntact());
    GuardedTensor<2, T> matrix(Shape2(10, 9), values, GuardedLayout{.row_padding = 1});
    GuardedTensor<2, T> matrix_out(Shape2(10, 9), layout);
    Softmax(*matrix_out, *matrix);
    TestFixture::ExpectSoftmax(matrix_out.values(), values, Shape3(10, 9, 1));
    EXPECT_TRUE(matrix_out.GuardsIntact());
  }
}

TYPED_TEST(SoftmaxTest, VectorsAreOneDistribution) {
  using T = TypeParam;
  for (const index_t classes : {0, 1, 10}) {
    const std::vector<T> values = RandomValues<T>(classes, -8, 8);
    GuardedTensor<1, T> source(Shape1(classes), values), out(Shape1(classes));
    Softmax(*out, *source);
    TestFixture::ExpectSoftmax(out.values(), values, Shape3(1, classes, 1));
  }
}

TEST(SoftmaxErrorTest, DifferentShapesAreRefused) {
  GuardedTensor<2, float> a(Shape2(2, 3)), b(Shape2(3, 2));
  ExpectError([&] { Softmax(*a, *b); }, Error::kInvalidArgument, {"Softmax", "(2,3)", "(3,2)"});
  GuardedTensor<1, float> c(Shape1(2)), d(Shape1(3));
  ExpectError([&] { Softmax(*c, *d); }, Error::kInvalidArgument, {"Softmax", "2", "3"});
}

}  // namespace
}  // namespace tessera
