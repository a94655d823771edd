// Functions of two and three operands, comparisons, and integer types.
#include "tessera/tensor/expr/elementwise.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

using Vector = Tensor<cpu, 1>;
using Matrix = Tensor<cpu, 2>;
using ANumber = expr::ScalarExp<float>;

// Three operands fit each other, not only the first.
template <typename A, typename B, typename C>
concept CanClampAndBlend = requires(A a, B b, C c) {
  clamp(a, b, c);
  blend(a, b, c);
};
template <typename A, typename B, typename C>
concept CanClampOrBlend = requires(A a, B b, C c) {
  clamp(a, b, c);
}
|| requires(A a, B b, C c) { blend(a, b, c); };
static_assert(CanClampAndBlend<Matrix, Matrix, Matrix> && CanClampAndBlend<Matrix, int, ANumber>);
static_assert(CanClampAndBlend<ANumber, Matrix, Matrix> && CanClampAndBlend<ANumber, Vector, int>);
static_assert(!CanClampOrBlend<Matrix, Vector, int> && !CanClampOrBlend<Matrix, int, Vector>);
static_assert(!CanClampOrBlend<ANumber, Vector, Matrix>);
static_assert(!CanClampOrBlend<ANumber, Matrix, Tensor<gpu, 2>>);
static_assert(
    std::is_same_v<expr::MismatchOfThree<ANumber, Vector, Matrix>,
                   expr::OperandsHaveDifferentRanks_BringThemToOneWithBroadcastOrReshape>);

template <typename T>
class ElementwiseTest : public testing::Test {
 protected:
  // Every pair of special values, and then enough random ones that packets of any width are full.
  ElementwiseTest() {
    std::vector<T> special = SpecialValues<T>();
    if constexpr (kIsReal<T>) special.push_back(T(0.5f));
    for (const T p : special) {
      for (const T q : special) {
        first.push_back(p);
        second.push_back(q);
        third.push_back(special[(first.size() * 7) % special.size()]);
      }
    }
    for (const T value : RandomValues<T>(45, 0, 5, 1)) first.push_back(value);
    for (const T value : RandomValues<T>(45, 0, 5, 2)) second.push_back(value);
    for (const T value : RandomValues<T>(45, 0, 5, 3)) third.push_back(value);
  }

  using Oracle = std::function<T(T, T, T)>;

  template <typename Function>
  void Expect(const char* name, const Function& function, const Oracle& oracle) {
    const Shape<1> shape = Shape1(static_cast<index_t>(first.size()));
    GuardedTensor<1, T> a(shape, first), b(shape, second), c(shape, third), out(shape);
    *out = function(*a, *b, *c);
    EXPECT_TRUE(out.GuardsIntact());
    ExpectAsOracle(name, out.values(), oracle);
  }

  std::vector<T> first, second, third;

 private:
  void ExpectAsOracle(const char* name, const std::vector<T>& result, const Oracle& oracle) {
    for (size_t i = 0; i < first.size(); ++i) {
      const T expected = oracle(first[i], second[i], third[i]);
      // Of zeros with different signs either may be the larger.
      const bool same = SameValue(result[i], expected) || (result[i] == T(0) && expected == T(0));
      ASSERT_TRUE(same) << name << "(" << static_cast<double>(first[i]) << ", "
                        << static_cast<double>(second[i]) << ", " << static_cast<double>(third[i])
                        << ") is " << static_cast<double>(result[i]) << ", not "
                        << static_cast<double>(expected);
    }
  }
};

// One that computes in itself, one that computes in float, and integers with packets. Other types
// have their tests in evaluator_test, sixteen_bit_functions_test and elementwise_accuracy_test.
using ElementTypes = TestedTypes<float, bfloat16_t, int32_t>;
TYPED_TEST_SUITE(ElementwiseTest, ElementTypes);

template <typename T>
bool IsNan(T a) {
  return a != a;
}

TYPED_TEST(ElementwiseTest, Comparisons) {
  using T = TypeParam;
  const auto one_if = [](bool condition) { return condition ? T(1) : T(0); };
  this->Expect(
      "==", [](auto a, auto b, auto) { return a == b; },
      [&](T a, T b, T) { return one_if(a == b); });
  this->Expect(
      "!=", [](auto a, auto b, auto) { return a != b; },
      [&](T a, T b, T) { return one_if(a != b); });
  this->Expect(
      "<", [](auto a, auto b, auto) { return a < b; }, [&](T a, T b, T) { return one_if(a < b); });
  this->Expect(
      "<=", [](auto a, auto b, auto) { return a <= b; },
      [&](T a, T b, T) { return one_if(a <= b); });
  this->Expect(
      ">", [](auto a, auto b, auto) { return a > b; }, [&](T a, T b, T) { return one_if(a > b); });
  this->Expect(
      ">=", [](auto a, auto b, auto) { return a >= b; },
      [&](T a, T b, T) { return one_if(a >= b); });
  this->Expect(
      "> 2", [](auto a, auto, auto) { return a > 2; }, [&](T a, T, T) { return one_if(a > T(2)); });
  this->Expect(
      "2 >=", [](auto a, auto, auto) { return 2 >= a; },
      [&](T a, T, T) { return one_if(T(2) >= a); });
}

TYPED_TEST(ElementwiseTest, ExtremesAndChoices) {
  using T = TypeParam;
  this->Expect(
      "max", [](auto a, auto b, auto) { return max(a, b); },
      [](T a, T b, T) { return IsNan(a)   ? a
                               : IsNan(b) ? b
                                          : (a > b ? a : b); });
  this->Expect(
      "min", [](auto a, auto b, auto) { return min(a, b); },
      [](T a, T b, T) { return IsNan(a)   ? a
                               : IsNan(b) ? b
                                          : (a < b ? a : b); });
  this->Expect(
      "max 2", [](auto a, auto, auto) { return max(a, 2); },
      [](T a, T, T) { return IsNan(a) ? a : (a > T(2) ? a : T(2)); });
  this->Expect(
      "min 2", [](auto a, auto, auto) { return min(2, a); },
      [](T a, T, T) { return IsNan(a) ? a : (a < T(2) ? a : T(2)); });
  this->Expect(
      "blend", [](auto a, auto b, auto c) { return blend(a, b, c); },
      [](T a, T b, T c) { return a != T(0) ? b : c; });
  this->Expect(
      "blend of a comparison", [](auto a, auto b, auto) { return blend(a < b, 3, b); },
      [](T a, T b, T) { return a < b ? T(3) : b; });
  this->Expect(
      "blend of numbers", [](auto a, auto, auto) { return blend(a, 1, 2); },
      [](T a, T, T) { return a != T(0) ? T(1) : T(2); });
  this->Expect(
      "clamp", [](auto a, auto b, auto c) { return clamp(a, b, c); },
      [](T a, T b, T c) { return a < b ? b : (c < a ? c : a); });
  this->Expect(
      "clamp to numbers", [](auto a, auto, auto) { return clamp(a, 1, 3); },
      [](T a, T, T) { return a < T(1) ? T(1) : (T(3) < a ? T(3) : a); });
  if constexpr (std::numeric_limits<T>::is_signed) {
    this->Expect(
        "abs", [](auto a, auto b, auto) { return abs(max(a, -100) - b * 0); },
        [](T a, T b, T) {
          const T m = IsNan(a) ? a : (a > T(-100) ? a : T(-100));
          const T d = static_cast<T>(m - static_cast<T>(b * T(0)));
          return IsNan(d) ? d : d < T(0) ? static_cast<T>(-d) : d;
        });
    this->Expect(
        "sign", [](auto a, auto, auto) { return sign(a); },
        [](T a, T, T) { return a > T(0)   ? T(1)
                               : a < T(0) ? T(-1)
                                          : a; });
  }
}

TYPED_TEST(ElementwiseTest, PowersAreThoseOfC) {
  using T = TypeParam;
  // Those of float, whose last bits are their own, are elementwise_accuracy_test's part.
  if constexpr (kIsReal<T> && !std::is_same_v<T, float>) {
    const auto power = [](T a, T b) {
      return static_cast<T>(std::pow(static_cast<float>(a), static_cast<float>(b)));
    };
    this->Expect(
        "pow", [](auto a, auto b, auto) { return pow(a, b); },
        [&](T a, T b, T) { return power(a, b); });
    this->Expect(
        "pow 3", [](auto a, auto, auto) { return pow(a, 3); },
        [&](T a, T, T) { return power(a, T(3)); });
    this->Expect(
        "2 pow", [](auto a, auto, auto) { return pow(2, a); },
        [&](T a, T, T) { return power(T(2), a); });
  }
}

// A user's functor under the other name that its packet form may have.
struct Tripled {
  static inline int packets = 0;
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return a + a + a;
  }
  template <typename P>
  TESSERA_HD static P MapPacket(const P& a) {
    ++packets;
    return pk::padd(a, pk::padd(a, a));
  }
};

TEST(MapPacketTest, IsUsedWherePacketMapIsMissing) {
  GuardedTensor<1, float> a(Shape1(37), RandomValues<float>(37, -1, 1)), out(Shape1(37));
  static_assert(decltype(F<Tripled>(*a))::kHasPacket);
  *out = F<Tripled>(*a);
  for (index_t i = 0; i < 37; ++i) EXPECT_EQ((*out)[i], (*a)[i] + (*a)[i] + (*a)[i]);
  EXPECT_GT(Tripled::packets, 0);
}

TEST(SixteenBitTest, FunctionsAreThoseOfFloatRounded) {
  GuardedTensor<1, half_t> a(Shape1(40), RandomValues<half_t>(40, 0.1, 3)), out(Shape1(40));
  *out = log(exp(*a) + sigmoid(*a));
  for (index_t i = 0; i < 40; ++i) {
    const float x = static_cast<float>((*a)[i]);
    const half_t e(std::exp(x)), s(1 / (1 + std::exp(-x)));
    EXPECT_NEAR(static_cast<float>((*out)[i]),
                std::log(static_cast<float>(e) + static_cast<float>(s)), 4e-3f);
  }
}

}  // namespace
}  // namespace tessera
