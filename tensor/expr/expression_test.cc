#include "tessera/tensor/expr/expression.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/dense/allocate.h"
#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;

using Matrix = Tensor<cpu, 2, float>;
using Vector = Tensor<cpu, 1, float>;

// A user's functors: with the element form alone, with both, and with three operands.
struct Cube {
  TESSERA_HD static float Map(float a) { return a * a * a; }
};
struct Twice {
  template <typename T>
  TESSERA_HD static T Map(T a) {
    return a + a;
  }
  template <typename P>
  TESSERA_HD static P PacketMap(const P& a) {
    return pk::padd(a, a);
  }
};
struct Hypotenuse {
  TESSERA_HD static float Map(float a, float b) { return std::sqrt(a * a + b * b); }
};
struct Clamp {
  TESSERA_HD static float Map(float a, float low, float high) {
    return a < low ? low : (a > high ? high : a);
  }
};

// Expressions travel into CUDA kernels as arguments, byte by byte.
using Sum = decltype(Matrix() + Matrix());
using Cubed = decltype(F<Cube>(Matrix()));
using Clamped = decltype(F<Clamp>(Matrix(), Matrix(), Matrix()));
static_assert(std::is_trivially_copyable_v<Matrix>);
static_assert(std::is_trivially_copyable_v<Sum>);
static_assert(std::is_trivially_copyable_v<Cubed>);
static_assert(std::is_trivially_copyable_v<Clamped>);
static_assert(std::is_trivially_copyable_v<decltype(2.0f * Matrix() - 1)>);
static_assert(std::is_trivially_copyable_v<decltype(tcast<double>(Matrix().T()))>);

// Packets are used where every part has them, and not where one has not.
static_assert(Matrix::kHasPacket && Sum::kHasPacket && decltype(F<Twice>(Matrix()))::kHasPacket);
static_assert(!Cubed::kHasPacket && !decltype(Matrix() + F<Cube>(Matrix()))::kHasPacket);

// The form of an element-wise node is that of its operands taken together.
static_assert(Matrix::kForm == expr::form::kStored && Sum::kForm == expr::form::kMapped);
static_assert(decltype(Matrix() + 2.0f * Matrix().T())::kForm == expr::form::kMoved);

// What does not match names the reason in the type of a deleted function.
using DifferentTypes = expr::OperandsHaveDifferentElementTypes_ConvertOneWithTcast;
using DifferentRanks = expr::OperandsHaveDifferentRanks_BringThemToOneWithBroadcastOrReshape;
using DifferentDevices = expr::OperandsLieOnDifferentDevices_CopyOneFirst;
static_assert(std::is_same_v<expr::MismatchOf<Matrix, Tensor<cpu, 1, double>>, DifferentTypes>);
static_assert(std::is_same_v<expr::MismatchOf<Matrix, Vector>, DifferentRanks>);
static_assert(std::is_same_v<expr::MismatchOf<Sum, Tensor<gpu, 2, float>>, DifferentDevices>);

template <typename A, typename B>
concept CanAdd = requires(A a, B b) {
  a + b;
};
template <typename A, typename B>
concept CanApply = requires(A a, B b) {
  F<Hypotenuse>(a, b);
};
template <typename A, typename B, typename C>
concept CanApplyToThree = requires(A a, B b, C c) {
  F<op::clamp>(a, b, c);
};
template <typename A, typename B>
concept CanAssignWithoutAlias = requires(A a, B b) {
  NoAlias(a) = b;
};
template <typename A, typename B>
concept CanAssign = requires(A a, B b) {
  a = b;
};
template <typename A, typename B>
concept CanAccumulate = requires(A a, B b) {
  a += b;
};

// What cannot match does not compile: element types, ranks, devices, and things that are no
// tensors.
static_assert(CanAdd<Matrix, Matrix> && CanAdd<Matrix, int> && CanAdd<double, Matrix>);
static_assert(!CanAdd<Matrix, Tensor<cpu, 2, double>>);
static_assert(!CanAdd<Matrix, Vector>);
static_assert(!CanAdd<Matrix, Tensor<gpu, 2, float>>);
static_assert(!CanAdd<Sum, Tensor<gpu, 2, float>>);
static_assert(!CanAdd<Matrix, std::string> && !CanAdd<Matrix, float*>);
static_assert(CanApply<Matrix, Sum> && !CanApply<Matrix, Vector>);
static_assert(!CanApply<Matrix, Tensor<cpu, 2, half_t>>);
static_assert(CanApplyToThree<Matrix, Sum, int> && CanApplyToThree<Matrix, int, int>);
static_assert(CanApplyToThree<Matrix, Matrix, Sum> && !CanApplyToThree<Matrix, int, Vector>);
static_assert(!CanApplyToThree<Matrix, Matrix, Tensor<gpu, 2, float>>);
static_assert(std::is_same_v<expr::MismatchOfThree<Matrix, int, Vector>, DifferentRanks>);
static_assert(CanAssignWithoutAlias<Matrix, Sum> && CanAssignWithoutAlias<Matrix, double>);
static_assert(!CanAssignWithoutAlias<Matrix, Vector>);
static_assert(CanAssign<Matrix, Sum> && CanAssign<Matrix, double> && CanAssign<Matrix, half_t>);
static_assert(!CanAssign<Matrix, Vector>);
static_assert(!CanAssign<Matrix, decltype(tcast<double>(Matrix()))>);
static_assert(!CanAssign<Tensor<gpu, 2, float>, Sum>);
static_assert(!CanAssign<Matrix, std::string> && !CanAssign<Matrix, std::vector<float>>);
static_assert(!CanAccumulate<Matrix, decltype(Vector() * 2)>);
static_assert(CanAssign<TensorContainer<cpu, 2>, Sum> &&
              !CanAssign<TensorContainer<cpu, 2>, Vector>);

// A floating-point number beside integers would lose its fraction, and does not compile.
using Integers = Tensor<cpu, 1, int32_t>;
using Bytes = Tensor<cpu, 1, uint8_t>;
using CutOff =
    expr::IntegersWouldCutOffAFloatingPointNumber_ConvertThemWithTcastOrItWithScalarOfTheirType;
static_assert(std::is_same_v<expr::MismatchOf<Integers, double>, CutOff>);
static_assert(std::is_same_v<expr::MismatchOf<half_t, Integers>, CutOff>);
static_assert(std::is_same_v<expr::MismatchOfThree<Integers, int, float>, CutOff>);
static_assert(CanAdd<Integers, int> && CanAdd<char, Integers> && CanAdd<Integers, bool>);
static_assert(!CanAdd<Integers, float> && !CanAdd<double, Integers> && !CanAdd<Bytes, half_t>);
static_assert(CanAdd<Integers, decltype(scalar<int32_t>(0.5))>);
static_assert(!CanAdd<Integers, decltype(scalar(0.5))>);
static_assert(CanAdd<decltype(tcast<float>(Integers())), double>);
static_assert(CanAdd<Tensor<cpu, 1, half_t>, double> && CanAdd<Vector, uint64_t>);
static_assert(!CanAdd<decltype(Integers() * 2), float> && !CanApply<Tensor<cpu, 1, bool>, float>);
static_assert(CanApplyToThree<Integers, int, int> && !CanApplyToThree<Integers, int, float>);
static_assert(!CanApplyToThree<Integers, float, Integers>);
static_assert(!CanApplyToThree<Integers, Integers, float>);
static_assert(CanAssign<Integers, int8_t> && !CanAssign<Integers, double>);
static_assert(CanAccumulate<Integers, int> && !CanAccumulate<Integers, float>);
static_assert(CanAssignWithoutAlias<Integers, int> && !CanAssignWithoutAlias<Integers, float>);
using ManyIntegers = TensorContainer<cpu, 1, int32_t>;
static_assert(CanAssign<ManyIntegers, int> && !CanAssign<ManyIntegers, float>);
static_assert(std::is_constructible_v<ManyIntegers, Shape<1>, int64_t>);
static_assert(!std::is_constructible_v<ManyIntegers, Shape<1>, double>);

// Assigning a tensor to a temporary handle would change no element.
template <typename A, typename B>
concept CanAssignToTemporary = requires(B b) {
  std::declval<A>() = b;
};
static_assert(std::is_same_v<decltype(std::declval<Matrix>()[0]), Vector>);
static_assert(CanAssign<Matrix&, Matrix> && !CanAssignToTemporary<Matrix, Matrix>);
static_assert(!CanAssignToTemporary<Matrix, TensorContainer<cpu, 2>>);
static_assert(!CanAssignToTemporary<const Matrix, Matrix>);
static_assert(CanAssignToTemporary<Matrix, decltype(+Matrix())>);
static_assert(CanAssignToTemporary<Matrix, float>);

// Tensors have no printed form, numbers have, and a program may give tensors its own.
std::ostream& operator<<(std::ostream& os, const Matrix& m) { return os << m.shape_; }
template <typename E>
concept CanPrint = requires(std::ostream& os, const E& e) {
  os << e;
};
static_assert(!CanPrint<Sum> && !CanPrint<Tensor<cpu, 3, float>>);
static_assert(CanPrint<decltype(expr::ScalarExp<float>(1.0f) + 1.0f)>);
static_assert(CanPrint<Matrix> && CanPrint<TensorContainer<cpu, 2>>);

// A container takes its shape from an assignment; a handle is const or assigned to.
static_assert(!std::is_constructible_v<TensorContainer<cpu, 2>, Sum>);
static_assert(!CanAssign<const Matrix, Sum> && CanAssign<Matrix&, TensorContainer<cpu, 2>&>);

class ExpressionTest : public testing::Test {
 protected:
  static constexpr index_t kSize = 37;  // not a whole number of packets

  GuardedTensor<1, float> a{Shape1(kSize), RandomValues<float>(kSize, -4, 4, 1)};
  GuardedTensor<1, float> b{Shape1(kSize), RandomValues<float>(kSize, 1, 5, 2)};
  GuardedTensor<1, float> c{Shape1(kSize), RandomValues<float>(kSize, 5, 9, 3)};
  GuardedTensor<1, float> out{Shape1(kSize)};

  /// Expects out[i] to be what `oracle` says of a[i], b[i] and c[i], within `ulps` roundings.
  template <typename Oracle>
  void ExpectOut(const Oracle& oracle, double ulps = 0) {
    std::vector<double> expected;
    for (index_t i = 0; i < kSize; ++i) {
      expected.push_back(oracle(double{(*a)[i]}, double{(*b)[i]}, double{(*c)[i]}));
    }
    if (ulps == 0) {
      // One operation in double, rounded once, is what the operation in float must give.
      ExpectSameValues(out.values(), std::vector<float>(expected.begin(), expected.end()));
    } else {
      ExpectWithin(out.values(), expected,
                   [&](size_t i) { return ulps * 0x1p-23 * std::max(1.0, std::abs(expected[i])); });
    }
    EXPECT_TRUE(out.GuardsIntact());
  }
};

TEST_F(ExpressionTest, ArithmeticIsElementwise) {
  *out = *a + *b;
  ExpectOut([](double x, double y, double) { return x + y; });
  *out = *a - *b;
  ExpectOut([](double x, double y, double) { return x - y; });
  *out = *a * *b;
  ExpectOut([](double x, double y, double) { return x * y; });
  *out = *a / *b;
  ExpectOut([](double x, double y, double) { return x / y; });
  *out = -*a;
  ExpectOut([](double x, double, double) { return -x; });
  *out = +*a;
  ExpectOut([](double x, double, double) { return x; });
  EXPECT_NE(out->dptr_, a->dptr_);
}

TEST_F(ExpressionTest, ScalarsStandOnEitherSide) {
  *out = *a + 2;
  ExpectOut([](double x, double, double) { return x + 2; });
  *out = 2.0 - *a;
  ExpectOut([](double x, double, double) { return 2 - x; });
  *out = *a * half_t(0.5f);
  ExpectOut([](double x, double, double) { return x * 0.5; });
  *out = 3 / *b;
  ExpectOut([](double, double y, double) { return 3 / y; });
  *out = F<Hypotenuse>(*a, 3);
  ExpectOut([](double x, double, double) { return std::sqrt(x * x + 9); }, 2);
  *out = F<Hypotenuse>(4.0, *a);
  ExpectOut([](double x, double, double) { return std::sqrt(x * x + 16); }, 2);
}

TEST_F(ExpressionTest, CompoundAssignmentsCombineWithTheOldValue) {
  const auto start_from_c = [&] { *out = F<op::identity>(*c); };
  start_from_c();
  *out += *a;
  ExpectOut([](double x, double, double z) { return z + x; });
  start_from_c();
  *out -= *a;
  ExpectOut([](double x, double, double z) { return z - x; });
  start_from_c();
  *out *= *a;
  ExpectOut([](double x, double, double z) { return z * x; });
  start_from_c();
  *out /= *b;
  ExpectOut([](double, double y, double z) { return z / y; });
  start_from_c();
  *out += 1;
  ExpectOut([](double, double, double z) { return z + 1; });
  start_from_c();
  *out *= 0.5;
  ExpectOut([](double, double, double z) { return z * 0.5; });
}

TEST_F(ExpressionTest, UserFunctorsWorkWithAndWithoutAPacketForm) {
  *out = F<Cube>(*a);
  ExpectOut([](double x, double, double) { return x * x * x; }, 64);
  *out = F<Twice>(*a);
  ExpectOut([](double x, double, double) { return x + x; });
  *out = F<Twice>(F<Cube>(*a) + *b);
  ExpectOut([](double x, double y, double) { return 2 * (x * x * x + y); }, 64);
  *out = F<Clamp>(*a, *b - 5, *c - 5);
  ExpectOut([](double x, double y, double z) { return std::min(std::max(x, y - 5), z - 5); }, 4);
}

TEST_F(ExpressionTest, DeepExpressionsEvaluateEveryOperand) {
  *out = (*a + *b) * (*c - 1) / (*b + 2) - -*a * (*a * 0.25f + (*c - *b)) + 7;
  ExpectOut([](double x, double y,
               double z) { return (x + y) * (z - 1) / (y + 2) + x * (x * 0.25 + (z - y)) + 7; },
            16);
}

TEST_F(ExpressionTest, ExpressionsKeptInAVariableStayValid) {
  // The handles and nodes that it was built from are gone when it is evaluated.
  const auto make = [&] {
    Vector left = *a;
    Vector right = *b;
    auto difference = left - right;
    return difference * (left + 1);
  };
  const auto kept = make();
  *out = kept;
  ExpectOut([](double x, double y, double) { return (x - y) * (x + 1); }, 16);
  *a += 1;  // the memory, not a copy of it, is what the expression names
  *out = kept;
  ExpectOut([](double x, double y, double) { return (x - y) * (x + 1); }, 16);
}

template <typename E, int kForm>
void AddTwiceAndOne(Vector dst, const expr::Exp<E, float, kForm>& e) {
  dst += e;
  dst += F<Twice>(e) * 0.5f + 1.0f;
}

TEST_F(ExpressionTest, FunctionsTakeAnyExpressionByItsBase) {
  *out = 0.0f;
  AddTwiceAndOne(*out, *a);
  ExpectOut([](double x, double, double) { return 2 * x + 1; }, 4);
  *out = *b * 1.0f;
  AddTwiceAndOne(*out, *a + *c);
  ExpectOut([](double x, double y, double z) { return y + 2 * (x + z) + 1; }, 8);
}

TEST_F(ExpressionTest, TypecastConvertsAsStaticCastDoes) {
  GuardedTensor<1, int32_t> whole(Shape1(kSize));
  *whole = tcast<int32_t>(*a * 10);
  GuardedTensor<1, double> wide(Shape1(kSize));
  *wide = tcast<double>(*a) / 3;
  GuardedTensor<1, half_t> narrow(Shape1(kSize));
  *narrow = tcast<half_t>(*a);
  for (index_t i = 0; i < kSize; ++i) {
    EXPECT_EQ((*whole)[i], static_cast<int32_t>((*a)[i] * 10));
    EXPECT_EQ((*wide)[i], double{(*a)[i]} / 3);
    EXPECT_EQ((*narrow)[i], static_cast<half_t>((*a)[i]));
  }
}

TEST_F(ExpressionTest, TransposeExchangesRowsAndColumns) {
  GuardedTensor<2, float> source(Shape2(5, 7), RandomValues<float>(35, -1, 1),
                                 GuardedLayout{.row_padding = 3});
  GuardedTensor<2, float> result(Shape2(7, 5), GuardedLayout{.row_padding = 2});
  *result = source->T() + 1;
  for (index_t y = 0; y < 7; ++y) {
    for (index_t x = 0; x < 5; ++x) EXPECT_EQ((*result)[y][x], (*source)[x][y] + 1);
  }
  EXPECT_TRUE(result.GuardsIntact());
  static_assert(std::is_same_v<decltype(source->T().T()), const Matrix&>);
}

TEST(TransposeTest, AnyMatrixExpressionCanBeTransposed) {
  GuardedTensor<2, float> x(Shape2(5, 7), RandomValues<float>(35, -4, 4, 1));
  GuardedTensor<2, float> y(Shape2(5, 7), RandomValues<float>(35, -4, 4, 2));
  GuardedTensor<2, float> result(Shape2(7, 5));
  *result = (*x + *y * 2.0f).T();
  for (index_t row = 0; row < 5; ++row) {
    for (index_t column = 0; column < 7; ++column) {
      EXPECT_EQ((*result)[column][row], (*x)[row][column] + (*y)[row][column] * 2.0f);
    }
  }
}

TEST_F(ExpressionTest, ScalarsConvertToTheElementType) {
  GuardedTensor<1, int32_t> whole(Shape1(4), std::vector<int32_t>{10, 20, 30, 40});
  *whole = *whole * scalar<int32_t>(2.9);  // 2.9 becomes 2
  EXPECT_EQ(whole.values(), (std::vector<int32_t>{20, 40, 60, 80}));
  *whole = scalar<int32_t>(7.9f);
  EXPECT_EQ(whole.values(), (std::vector<int32_t>{7, 7, 7, 7}));
  enum { kThree = 3 };
  *whole += kThree;
  *whole = *whole * int64_t{2} - 'a' + true;
  EXPECT_EQ(whole.values(), std::vector<int32_t>(4, 20 - 'a' + 1));
  GuardedTensor<1, float> rounded(Shape1(4));
  *rounded = (int64_t{1} << 24) + 1;
  EXPECT_EQ(rounded.values(), std::vector<float>(4, 16777216.0f));
}

TEST_F(ExpressionTest, NumbersThatIntegersCannotHoldAreRefused) {
  GuardedTensor<1, int8_t> small(Shape1(2), std::vector<int8_t>{1, 2});
  GuardedTensor<1, uint8_t> bytes(Shape1(2), std::vector<uint8_t>{1, 2});
  GuardedTensor<1, uint64_t> wide(Shape1(2), std::vector<uint64_t>{1, 2});
  const auto expect = [](const std::function<void()>& call, const std::string& operation,
                         const std::string& number, const std::string& range) {
    ExpectError(call, kInvalidArgument,
                {"element-wise " + operation + ": the number " + number + " does not fit", range,
                 "tcast", "scalar"});
  };
  expect([&] { *small + 200; }, "plus", "200", "-128 to 127");
  expect([&] { -129 * *small; }, "mul", "-129", "-128 to 127");
  expect([&] { F<op::clamp>(*small, 0, 128); }, "clamp", "128", "-128 to 127");
  expect([&] { *bytes - -1; }, "minus", "-1", "0 to 255");
  expect([&] { *wide + -1; }, "plus", "-1", "0 to 18446744073709551615");
  expect([&] { *small + (uint64_t{1} << 63); }, "plus", "9223372036854775808", "-128 to 127");
  expect([&] { *bytes = 256; }, "assignment", "256", "0 to 255");
  expect([&] { *bytes += 256; }, "assignment", "256", "0 to 255");
  expect([&] { NoAlias(*bytes) = -1; }, "assignment", "-1", "0 to 255");
  expect([] { TensorContainer<cpu, 1, int8_t>(Shape1(2), 200); }, "assignment", "200",
         "-128 to 127");
  expect([] { TensorContainer<cpu, 1, int8_t>().Resize(Shape1(2), 200); }, "assignment", "200",
         "-128 to 127");
  EXPECT_EQ(bytes.values(), (std::vector<uint8_t>{1, 2}));
  *small = *small + 125;
  *bytes = 255;
  *wide = std::numeric_limits<uint64_t>::max();
  EXPECT_EQ(small.values(), (std::vector<int8_t>{126, 127}));
  EXPECT_EQ(bytes.values(), (std::vector<uint8_t>{255, 255}));
  EXPECT_EQ(wide.values()[0], ~uint64_t{0});
}

TEST_F(ExpressionTest, IntegerDivisionsEndNoProcess) {
  constexpr int32_t kLeast = std::numeric_limits<int32_t>::lowest();
  GuardedTensor<1, int32_t> x(Shape1(5), {7, -7, kLeast, 0, 9});
  GuardedTensor<1, int32_t> y(Shape1(5), {0, 2, -1, 0, -4});
  GuardedTensor<1, int32_t> quotient(Shape1(5));
  *quotient = *x / *y;
  EXPECT_EQ(quotient.values(), (std::vector<int32_t>{0, -3, kLeast, 0, -2}));
  *quotient = *x / 0;
  EXPECT_EQ(quotient.values(), std::vector<int32_t>(5, 0));
  *quotient = 6 / *y;
  EXPECT_EQ(quotient.values(), (std::vector<int32_t>{0, 3, -6, 0, -1}));
  *x /= *y;
  EXPECT_EQ(x.values(), (std::vector<int32_t>{0, -3, kLeast, 0, -2}));
}

TEST_F(ExpressionTest, AVectorsTransposeIsAColumn) {
  GuardedTensor<2, float> column(Shape2(kSize, 1)), rows(Shape2(kSize, 1));
  *column = a->T();
  *rows = (2.0f * column->T()).T() + b->T();
  for (index_t i = 0; i < kSize; ++i) {
    EXPECT_EQ((*column)[i][0], (*a)[i]);
    EXPECT_EQ((*rows)[i][0], 2 * (*a)[i] + (*b)[i]);
  }
  static_assert(std::is_same_v<decltype(a->T().T()), const Vector&>);
}

TEST_F(ExpressionTest, OperandsOfDifferentShapesAreRefused) {
  GuardedTensor<2, float> wide(Shape2(2, 3));
  GuardedTensor<2, float> tall(Shape2(3, 2));
  const std::vector<std::string> words = {"element-wise", "(2,3)", "(3,2)"};
  const auto expect = [&](const std::string& operation, const std::function<void()>& call) {
    ExpectError(call, kInvalidArgument, words);
    ExpectError(call, kInvalidArgument, {operation + ": the operands' shapes"});
  };
  expect("element-wise plus", [&] { *wide + *tall; });
  expect("element-wise Hypotenuse", [&] { F<Hypotenuse>(*wide, *tall); });
  expect("element-wise Clamp", [&] { F<Clamp>(*wide, *wide, *tall); });
  ExpectError([&] { *wide - tall->T() * 2 + *tall; }, kInvalidArgument, words);
}

TEST_F(ExpressionTest, DestinationsOfAnotherShapeAreRefusedAndUnchanged) {
  GuardedTensor<2, float> wide(Shape2(2, 3), std::vector<float>(6, 5.0f));
  GuardedTensor<2, float> tall(Shape2(3, 2), std::vector<float>(6, 1.0f));
  const std::vector<std::string> words = {"assignment", "(2,3)", "(3,2)", "destination"};
  ExpectError([&] { *wide = *tall * 2; }, kInvalidArgument, words);
  ExpectError([&] { *wide += *tall; }, kInvalidArgument, words);
  EXPECT_EQ(wide.values(), std::vector<float>(6, 5.0f));
}

}  // namespace
}  // namespace tessera
