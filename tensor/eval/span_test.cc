// Functions over spans inside expressions. BUILD runs this for each instruction set.
#include "tessera/tensor/eval/span.h"

#include <algorithm>
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/dense/allocate.h"
#include "tessera/tensor/dense/store.h"
#include "tessera/tensor/expr/elementwise.h"
#include "tessera/tensor/reduce/reduce_axis.h"
#include "tessera/tensor/shape/pad.h"
#include "tessera/tensor/shape/reshape.h"
#include "tessera/tensor/shape/slice.h"
#include "tessera/tensor/shape/transpose.h"
#include "tessera/tensor/testing/guarded_tensor.h"

namespace tessera {
namespace {

template <typename T>
std::vector<T> Numbers(index_t count) {
  std::mt19937 random(7);
  std::uniform_real_distribution<T> uniform(-30, 30);
  std::vector<T> values(static_cast<size_t>(count));
  for (T& value : values) value = uniform(random);
  if (count > 4) {
    values[1] = std::numeric_limits<T>::infinity();
    values[2] = std::numeric_limits<T>::quiet_NaN();
    values[3] = T(-0.0);
  }
  return values;
}

template <typename T>
bool SameBits(T a, T b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

template <typename T>
class SpanTest : public testing::Test {
 protected:
  // Each element as the expression's own Eval gives it: whatever the machine, the same bits.
  template <int N, typename E>
  static void ExpectAsSingleElements(const Tensor<cpu, N, T>& actual, const E& e) {
    const Shape<2> shape = actual.shape_.FlatTo2D();
    std::vector<T> expected;
    for (index_t y = 0; y < shape[0]; ++y) {
      for (index_t x = 0; x < shape[1]; ++x) expected.push_back(e.Eval(y, x));
    }
    ExpectElements(Tensor<cpu, 2, T>(actual.dptr_, shape, actual.stride_, nullptr), expected);
  }

 private:
  static void ExpectElements(const Tensor<cpu, 2, T>& actual, const std::vector<T>& expected) {
    size_t i = 0;
    for (index_t y = 0; y < actual.shape_[0]; ++y) {
      for (index_t x = 0; x < actual.shape_[1]; ++x, ++i) {
        ASSERT_TRUE(SameBits(actual[y][x], expected[i]))
            << "row " << y << ", column " << x << ": " << actual[y][x] << " and " << expected[i];
      }
    }
  }
};
using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(SpanTest, Types);

// For the nodes around functions, whose templates are the same for both types.
using FloatSpanTest = SpanTest<float>;

TYPED_TEST(SpanTest, EveryFunctionHasTheBitsOfSingleElements) {
  using T = TypeParam;
  for (const index_t columns : {1, 3, 16, 511, 512, 513, 1024, 2049}) {
    GuardedTensor<2, T> x(Shape2(2, columns), Numbers<T>(2 * columns),
                          GuardedLayout{.row_padding = 3});
    GuardedTensor<2, T> out(Shape2(2, columns), GuardedLayout{.row_padding = 5, .misalignment = 1});
    const auto check = [&](const auto& e) {
      *out = e;
      this->ExpectAsSingleElements(*out, e);
      ASSERT_TRUE(out.GuardsIntact());
    };
    check(erf(*x));
    check(exp(*x));
    check(expm1(*x));
    check(log(*x));
    check(log1p(*x));
    check(tanh(*x));
    check(sigmoid(*x));
    check(softplus(*x));
    check(exp2(*x));
    check(log2(*x));
    check(log10(*x));
    check(sin(*x));
    check(cos(*x));
    check(tan(*x));
    check(sinh(*x));
    check(cosh(*x));
    check(asinh(*x));
    check(acosh(*x));
    check(atanh(*x));
    check(atanh(*x * T(0.03)));
    check(asin(*x * T(0.03)));
    check(acos(*x * T(0.03)));
    check(atan(*x));
    check(cbrt(*x));
    check(erfc(*x));
    check(gelu(*x));
    check(F<op::gelu_grad>(*x));
    check(digamma(*x));
    check(lgamma(*x));
    check(gamma(*x));
    check(gelu(T(0.1) * *x + T(0.5)));
    check(sin(*x * T(1e5)));  // some of them by the C library
  }
}

TYPED_TEST(SpanTest, PowersHaveTheBitsOfSingleElements) {
  using T = TypeParam;
  for (const index_t columns : {1, 3, 16, 511, 512, 513, 1024, 1025, 2049}) {
    std::vector<T> exponents = Numbers<T>(2 * columns);
    std::reverse(exponents.begin(), exponents.end());
    GuardedTensor<2, T> x(Shape2(2, columns), Numbers<T>(2 * columns),
                          GuardedLayout{.row_padding = 3});
    GuardedTensor<2, T> y(Shape2(2, columns), exponents, GuardedLayout{.row_padding = 1});
    GuardedTensor<2, T> out(Shape2(2, columns), GuardedLayout{.row_padding = 5, .misalignment = 1});
    const auto check = [&](const auto& e) {
      *out = e;
      this->ExpectAsSingleElements(*out, e);
      ASSERT_TRUE(out.GuardsIntact());
    };
    check(pow(*x, *y));
    check(pow(abs(*x), *y));
    check(pow(*x, round(*y)));
    check(pow(abs(*x), *y * T(0.1)));
    check(pow(*x, T(3)));
    check(pow(*x * *x, T(-2.5)));
    check(pow(T(1.1), *y));
    check(pow(T(-2), round(*x)));
    check(pow(T(1.1), tanh(*y)));
    check(pow(exp(*x * T(0.1)), *y));
    check(pow(abs(*x), tanh(*y)));
    check(pow(exp(*x * T(0.1)), pow(abs(*x), sigmoid(*y))) + *x);
    check(log(pow(abs(*x), T(0.7)) + T(1)) * pow(T(0.9), *y));
    *out = T(1);
    *out += pow(abs(*x), *y);
    const auto sum = T(1) + pow(abs(*x), *y);
    this->ExpectAsSingleElements(*out, sum);
  }
}

TYPED_TEST(SpanTest, ConvertedFunctionsHaveTheBitsOfSingleElements) {
  using T = TypeParam;
  using From = std::conditional_t<std::is_same_v<T, float>, double, float>;
  for (const index_t columns : {1, 3, 511, 512, 513, 1024, 1025, 2049}) {
    GuardedTensor<2, From> x(Shape2(2, columns), Numbers<From>(2 * columns),
                             GuardedLayout{.row_padding = 3});
    GuardedTensor<2, T> y(Shape2(2, columns), Numbers<T>(2 * columns));
    GuardedTensor<2, T> out(Shape2(2, columns), GuardedLayout{.row_padding = 5, .misalignment = 1});
    const auto check = [&](const auto& e) {
      *out = e;
      this->ExpectAsSingleElements(*out, e);
      ASSERT_TRUE(out.GuardsIntact());
    };
    check(tcast<T>(exp(*x)));
    check(tcast<T>(exp(*x) + *x) * *y);
    check(exp(tcast<T>(tanh(*x))) + tcast<T>(*x));
    check(pow(tcast<T>(sigmoid(*x)), *y));
    check(tcast<T>(tcast<From>(exp(*y)) + log(exp(*x) + exp(*x * *x))));
    check(*y + tcast<T>(tcast<int>(sigmoid(*x) * From(100))));
    *out = T(1);
    *out += tcast<T>(exp(*x));
    const auto sum = T(1) + tcast<T>(exp(*x));
    this->ExpectAsSingleElements(*out, sum);
  }
}

// Nodes with loops of their own take functions by blocks, and stand in an expression as blocks.
TEST_F(FloatSpanTest, NodesThatMoveElementsOfFunctionsHaveTheBitsOfSingleElements) {
  using T = float;
  for (const index_t columns : {2, 40, 513, 1500}) {
    GuardedTensor<2, T> x(Shape2(6, columns), Numbers<T>(6 * columns),
                          GuardedLayout{.row_padding = 3});
    const auto check = [&](const auto& e) {
      GuardedTensor<2, T> y(e.shape(), Numbers<T>(e.shape().Size()));
      GuardedTensor<2, T> out(e.shape(), GuardedLayout{.row_padding = 5, .misalignment = 1});
      *out = e;
      ExpectAsSingleElements(*out, e);
      const auto inside = T(2) * e + tanh(*y);
      *out = inside;
      ExpectAsSingleElements(*out, inside);
      ASSERT_TRUE(out.GuardsIntact());
    };
    check(slice<1>(exp(*x), 1, columns));
    check(pad(exp(*x) * *x, 2));
    check(reshape(log(*x * *x), Shape2(3, 2 * columns)));
    check(swapaxis<1, 0>(sigmoid(*x)));
    check(reduce_keepdim<red::sum, false>(exp(T(0.01) * *x), 0));
    check(reduce_keepdim<red::maximum, false>(tanh(*x), 1));
    check(slice<1>(pad(exp(slice<1>(exp(*x), 0, 2)), 1), 1, 3));
  }
}

// The lanes of a last packet that memory does not fill have numbers as well.
TYPED_TEST(SpanTest, TailsRaiseNoExceptionsThatTheirElementsDoNot) {
  using T = TypeParam;
  for (index_t columns = 1; columns < 20; ++columns) {
    // Matrices, whose loops are compiled already.
    const Shape<2> shape = Shape2(1, columns);
    GuardedTensor<2, T> x(shape, std::vector<T>(static_cast<size_t>(columns), T(0.25)));
    GuardedTensor<2, T> out(shape);
    const auto check = [&](const auto& e) {
      std::feclearexcept(FE_ALL_EXCEPT);
      *out = e;
      EXPECT_EQ(std::fetestexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW), 0);
    };
    check(atanh(*x));
    check(log(*x));
    check(log(T(0.5) - *x));
    check(acosh(*x + T(1)));
    check(pow(*x, *x));
    check(pow(*x, T(-3)));
    check(pow(T(3), *x));
  }
}

// Nothing of the reflection, which has poles at whole numbers, reaches positive ones.
TEST(GammaSpanTest, PositiveWholeNumbersRaiseNoExceptions) {
  GuardedTensor<1, float> x(Shape1(20)), out(Shape1(20));
  for (index_t i = 0; i < 20; ++i) (*x)[i] = static_cast<float>(i + 1);
  (*x)[0] = 0.25f;  // which is reflected
  const auto check = [&](const auto& e) {
    std::feclearexcept(FE_ALL_EXCEPT);
    *out = e;
    EXPECT_EQ(std::fetestexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW), 0);
  };
  check(digamma(*x));
  check(lgamma(*x));
  check(gamma(*x));
}

// Where results lie a little after what they are computed from, kernels go from the end on.
TYPED_TEST(SpanTest, ResultsMayLieAtAnyDistanceFromOperands) {
  using T = TypeParam;
  constexpr index_t kPage = 4096 / sizeof(T);
  for (const index_t columns : {1, 3, 15, 16, 17, 33, 1000}) {
    const std::vector<T> values = Numbers<T>(columns);
    for (const index_t distance : {-65, -16, -1, 0, 1, 15, 16, 17, 65, 127, 128, 500}) {
      std::vector<T> memory(6 * kPage, T(7));
      const Tensor<cpu, 1, T> x(memory.data(), Shape1(columns));
      Tensor<cpu, 1, T> out(x.dptr_ + 3 * kPage + distance, Shape1(columns));
      std::copy(values.begin(), values.end(), x.dptr_);
      out = exp(x);
      this->ExpectAsSingleElements(out, exp(x));
      EXPECT_EQ(out.dptr_[-1], T(7)) << distance;
      EXPECT_EQ(out.dptr_[columns], T(7)) << distance;
      std::vector<T> exponents(memory.size(), T(0.25));
      const Tensor<cpu, 1, T> y(exponents.data() + 3 * kPage, Shape1(columns));
      out = pow(x, y);
      this->ExpectAsSingleElements(out, pow(x, y));
      out = pow(y, x);
      this->ExpectAsSingleElements(out, pow(y, x));
    }
  }
}

TEST_F(FloatSpanTest, FunctionsNestAndStandAnywhereInAnExpression) {
  using T = float;
  constexpr index_t kColumns = 1500;
  GuardedTensor<2, T> x(Shape2(3, kColumns), Numbers<T>(3 * kColumns),
                        GuardedLayout{.row_padding = 1});
  GuardedTensor<2, T> y(Shape2(3, kColumns), Numbers<T>(3 * kColumns));
  GuardedTensor<2, T> out(Shape2(3, kColumns));
  const auto check = [&](const auto& e) {
    *out = e;
    ExpectAsSingleElements(*out, e);
  };
  check(exp(tanh(*x * T(0.5)) + sigmoid(*y)) - *x);
  check(log(exp(square(*x - *y)) + exp(*x + *y)) - *y * log(*y));
  check(max(exp(*x), tanh(*y)) * exp(-*x));
}

TEST_F(FloatSpanTest, KernelsScaleAndMoveWhatTheyRead) {
  using T = float;
  std::vector<T> values = Numbers<T>(3000);
  values[4] = T(0);  // -0.0 is among them
  GuardedTensor<2, T> x(Shape2(2, 1500), values, GuardedLayout{.row_padding = 1});
  GuardedTensor<2, T> out(Shape2(2, 1500));
  const auto check = [&](const auto& e) {
    *out = e;
    ExpectAsSingleElements(*out, e);
  };
  check(sigmoid(*x * T(2)) + T(1));
  check(sigmoid(T(-0.3) * *x));
  check(tanh(*x * T(1)));
  check(log(*x + T(3)));
  check(log(T(3) + *x));
  check(exp(*x - T(0.7)));
  check(exp(-*x));
  // The sign of a zero is that of the sum or the difference.
  for (const T zero : {T(0), T(-0.0)}) {
    check(tanh(*x + zero));
    check(tanh(zero + *x));
    check(erf(*x - zero));
    check(expm1(zero - *x));
    check(log1p(*x * zero));
  }
  check(exp(tanh(*x) * T(2)));
  check(tanh(exp(*x - T(1)) + T(0.5)) * *x);
  check(exp(-(*x * T(2) - T(1))));
  check(exp(*x / T(3)));
  check(exp(*x * std::numeric_limits<T>::max()));
}

TEST_F(FloatSpanTest, TheDestinationMayBeAnOperand) {
  using T = float;
  const std::vector<T> values = Numbers<T>(1300);
  GuardedTensor<1, T> x(Shape1(1300), values), expected(Shape1(1300), values);
  GuardedTensor<1, T> copy(Shape1(1300), values);
  const auto e = *copy + exp(*copy * T(0.1)) * *copy;
  for (index_t i = 0; i < 1300; ++i) expected->dptr_[i] = e.Eval(0, i);
  *x = *x + exp(*x * T(0.1)) * *x;
  for (index_t i = 0; i < 1300; ++i) {
    ASSERT_TRUE(SameBits(x->dptr_[i], expected->dptr_[i])) << i;
  }
  // Of a function of two operands either, or both, or what they are computed from.
  const auto check = [&](const auto& power) {
    GuardedTensor<1, T> both(Shape1(1300), values);
    *both = power(*both, *both);
    for (index_t i = 0; i < 1300; ++i) {
      ASSERT_TRUE(SameBits(both->dptr_[i], power(*copy, *copy).Eval(0, i))) << i;
    }
  };
  check([](const auto& a, const auto& b) { return pow(a, b); });
  check([](const auto& a, const auto& b) { return pow(abs(a), tanh(b)); });
  check([](const auto& a, const auto& b) { return pow(a, round(b)); });
  check([](const auto& a, const auto& b) { return pow(T(2), a + b); });
  check([](const auto& a, const auto& b) { return pow(a * b, T(1.5)); });
}

TYPED_TEST(SpanTest, SumsIntoTheDestinationAndStoresInside) {
  using T = TypeParam;
  GuardedTensor<1, T> x(Shape1(1000)), sum(Shape1(1000)), stored(Shape1(1000));
  *x = T(0.25);
  *sum = T(1);
  *sum += exp(Store(*stored, *x * T(2)));
  for (index_t i = 0; i < 1000; ++i) {
    ASSERT_EQ(stored->dptr_[i], T(0.5));
    ASSERT_NEAR(sum->dptr_[i], 1 + std::exp(0.5), 1e-6);
  }
}

template <typename T, typename From>
void ExpectWholeNumbersOfFunctions() {
  for (const index_t n : {1, 513, 1024, 3000}) {
    GuardedTensor<1, From> from(Shape1(n));
    GuardedTensor<1, T> result(Shape1(n));
    for (index_t i = 0; i < n; ++i) {
      (*from)[i] = static_cast<From>(0.003) * static_cast<From>(i % 1000);
    }
    const auto e = tcast<T>(exp(*from) * log(*from + From(1)));
    *result = e;
    for (index_t i = 0; i < n; ++i) ASSERT_EQ((*result)[i], e.Eval(0, i)) << i;
  }
}

TEST(SpanCastTest, WholeNumbersOfFunctions) {
  ExpectWholeNumbersOfFunctions<int64_t, float>();
  ExpectWholeNumbersOfFunctions<int32_t, double>();
  ExpectWholeNumbersOfFunctions<uint8_t, double>();
}

// The places that the kernels of one block ask for.
std::vector<const void*> AskedFor(expr::BlockPrefetch* ahead, int kernels) {
  std::vector<const void*> places;
  for (int k = 0; k < kernels; ++k) {
    const tensor_internal::PrefetchList share = ahead->Take();
    places.insert(places.end(), share.places, share.places + share.count);
  }
  return places;
}

TEST(BlockPrefetchTest, KernelsShareTheNextBlocksPlaces) {
  TensorContainer<cpu, 2, double> a(Shape2(2, 2000)), b(a.shape_), c(a.shape_), r(a.shape_);
  const auto e = log(exp((a - b) * (a - b)) + exp(a + b)) - c * log(c);
  const index_t block = expr::kSpanBlock<double>;
  expr::BlockPrefetch ahead;
  ahead.Begin(e, 1, block, r[1].dptr_ + block);
  const std::vector<const void*> second{a[1].dptr_ + block, b[1].dptr_ + block, c[1].dptr_ + block,
                                        r[1].dptr_ + block};
  EXPECT_EQ(AskedFor(&ahead, 4), second);
  ahead.MoveOn();
  const std::vector<const void*> third{a[1].dptr_ + 2 * block, b[1].dptr_ + 2 * block,
                                       c[1].dptr_ + 2 * block, r[1].dptr_ + 2 * block};
  EXPECT_EQ(AskedFor(&ahead, 4), third);
}

TEST(BlockPrefetchTest, CheapFunctionsPrefetchNothing) {
  TensorContainer<cpu, 1> a(Shape1(5000)), b(a.shape_), r(a.shape_);
  const auto e = exp(a + b);
  expr::BlockPrefetch ahead;
  ahead.Begin(e, 0, 1024, r.dptr_ + 1024);
  EXPECT_TRUE(AskedFor(&ahead, 1).empty());
  expr::BlockPrefetch none;
  EXPECT_TRUE(AskedFor(&none, 1).empty());
}

}  // namespace
}  // namespace tessera
