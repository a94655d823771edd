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
static_assert(CanClampAndBlend<Tensor<cpu, 1, int32_t>, int, int>);
static_assert(!CanClampOrBlend<Tensor<cpu, 1, int32_t>, int, float>);
static_assert(!CanClampOrBlend<float, Tensor<cpu, 1, int32_t>, int>);
static_assert(!CanClampOrBlend<int, float, Tensor<cpu, 1, int32_t>>);
static_assert(
    std::is_same_v<expr::MismatchOfThree<ANumber, Vector, Matrix>,
                   expr::OperandsHaveDifferentRanks_BringThemToOneWithBroadcastOrReshape>);

// Functions of two operands take matching expressions and numbers that lose no fraction.
template <typename A, typename B>
concept CanUseAll = requires(A a, B b) {
  max(a, b), min(a, b), pow(a, b), mod(a, b), hypot(a, b), atan2(a, b), (a & b), (a | b), a < b,
      a == b;
};
template <typename A, typename B>
concept CanUseAny = requires(A a, B b) {
  max(a, b);
}
|| requires(A a, B b) { min(a, b); }
|| requires(A a, B b) { pow(a, b); }
|| requires(A a, B b) { mod(a, b); }
|| requires(A a, B b) { hypot(a, b); }
|| requires(A a, B b) { atan2(a, b); }
|| requires(A a, B b) { a& b; }
|| requires(A a, B b) { a | b; }
|| requires(A a, B b) { a < b; }
|| requires(A a, B b) { a == b; };
using Integers = Tensor<cpu, 1, int32_t>;
static_assert(CanUseAll<Vector, Vector> && CanUseAll<Vector, int> && CanUseAll<double, Vector>);
static_assert(CanUseAll<Integers, Integers> && CanUseAll<Integers, char>);
static_assert(!CanUseAny<Integers, double> && !CanUseAny<half_t, Integers>);
static_assert(!CanUseAny<Vector, Integers> && !CanUseAny<Vector, Matrix>);

template <typename T>
class ElementwiseTest : public testing::Test {
 protected:
  // Every pair of special values, and then enough random ones that packets of any width are full.
  ElementwiseTest() {
    std::vector<T> special = SpecialValues<T>();
    if constexpr (kIsReal<T>) special.push_back(T(0.5f));
    if constexpr (std::numeric_limits<T>::is_signed) special.push_back(T(-1));
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

TYPED_TEST(ElementwiseTest, ClampTakesANumberBesideExpressions) {
  using T = TypeParam;
  this->Expect(
      "clamp of a number", [](auto, auto b, auto c) { return clamp(2, b, c); },
      [](T, T b, T c) { return T(2) < b ? b : (c < T(2) ? c : T(2)); });
  this->Expect(
      "clamp of a number between a number and elements",
      [](auto, auto, auto c) { return clamp(2, 1, c); },
      [](T, T, T c) { return c < T(2) ? c : T(2); });
}

TYPED_TEST(ElementwiseTest, AndAndOrCombineBitsOrComparisons) {
  using T = TypeParam;
  const auto both = [](T a, T b) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(a & b);
    return a != T(0) && b != T(0) ? T(1) : T(0);
  };
  const auto any = [](T a, T b) {
    if constexpr (std::is_integral_v<T>) return static_cast<T>(a | b);
    return a != T(0) || b != T(0) ? T(1) : T(0);
  };
  this->Expect(
      "&", [](auto a, auto b, auto) { return a & b; }, [&](T a, T b, T) { return both(a, b); });
  this->Expect(
      "|", [](auto a, auto b, auto) { return a | b; }, [&](T a, T b, T) { return any(a, b); });
  this->Expect(
      "& of comparisons", [](auto a, auto b, auto) { return (a > 1) & (b < 3); },
      [&](T a, T b, T) { return a > T(1) && b < T(3) ? T(1) : T(0); });
  this->Expect(
      "6 |", [](auto a, auto, auto) { return 6 | a; }, [&](T a, T, T) { return any(T(6), a); });
  this->Expect(
      "& 6", [](auto a, auto, auto) { return a & 6; }, [&](T a, T, T) { return both(a, T(6)); });
}

TYPED_TEST(ElementwiseTest, ModulusHasTheSignOfTheDivisor) {
  using T = TypeParam;
  const auto modulus = [](T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      const int64_t x = a, y = b;
      return y == 0 ? T(0) : static_cast<T>((x % y + y) % y);
    } else {
      const double x = static_cast<double>(a), y = static_cast<double>(b);
      const double rest = std::remainder(x, y);
      return static_cast<T>(rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest);
    }
  };
  this->Expect(
      "mod", [](auto a, auto b, auto) { return mod(a, b); },
      [&](T a, T b, T) { return modulus(a, b); });
  this->Expect(
      "mod 3", [](auto a, auto, auto) { return mod(a, 3); },
      [&](T a, T, T) { return modulus(a, T(3)); });
  this->Expect(
      "7 mod", [](auto, auto b, auto) { return mod(7, b); },
      [&](T, T b, T) { return modulus(T(7), b); });
}

TYPED_TEST(ElementwiseTest, HypotenusesAndAnglesAreThoseOfC) {
  using T = TypeParam;
  if constexpr (kIsReal<T>) {
    const auto length = [](T a, T b) {
      return static_cast<T>(std::hypot(static_cast<float>(a), static_cast<float>(b)));
    };
    const auto angle = [](T a, T b) {
      return static_cast<T>(std::atan2(static_cast<float>(a), static_cast<float>(b)));
    };
    this->Expect(
        "hypot", [](auto a, auto b, auto) { return hypot(a, b); },
        [&](T a, T b, T) { return length(a, b); });
    this->Expect(
        "hypot 4", [](auto a, auto, auto) { return hypot(4, a); },
        [&](T a, T, T) { return length(T(4), a); });
    this->Expect(
        "atan2", [](auto a, auto b, auto) { return atan2(a, b); },
        [&](T a, T b, T) { return angle(a, b); });
    this->Expect(
        "atan2 of 1", [](auto a, auto, auto) { return atan2(a, 1.0); },
        [&](T a, T, T) { return angle(a, T(1)); });
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
