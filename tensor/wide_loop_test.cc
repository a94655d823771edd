// Loops over wide packets give, element by element, the bits that the functors' Map gives, and so
// do reductions over rows.
#include "tessera/tensor/wide_loop.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/dense.h"
#include "tessera/tensor/elementwise.h"
#include "tessera/tensor/guarded_tensor.h"
#include "tessera/tensor/reduce.h"
#include "tessera/tensor/test_values.h"

namespace tessera {
namespace {

// Turns of two packets of float, with what they leave, from every offset within a packet.
constexpr index_t kLongest = 70;
constexpr index_t kOffsets = 9;

template <typename T>
bool SameBits(T a, T b) {
  if (std::isnan(a) && std::isnan(b)) return true;  // whose payload the order of operands decides
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

// Special values beside each other in every combination of three.
template <typename T>
std::vector<T> Operand(int which) {
  const std::vector<T> special = SpecialValues<T>();
  std::vector<T> values =
      RandomValues<T>(kLongest + kOffsets, -3, 3, 7 + static_cast<uint64_t>(which));
  size_t i = 0;
  for (T& value : values) {
    if (i % 3 != 2) value = special[(i * (which == 0 ? 1 : which == 1 ? 5 : 11)) % special.size()];
    ++i;
  }
  return values;
}

template <typename T>
class WideLoopTest : public testing::Test {
 protected:
  GuardedTensor<1, T> a{Shape1(kLongest + kOffsets), Operand<T>(0)};
  GuardedTensor<1, T> b{Shape1(kLongest + kOffsets), Operand<T>(1)};
  GuardedTensor<1, T> c{Shape1(kLongest + kOffsets), Operand<T>(2)};

  /// Evaluates make(a, b, c) into pieces of r and expects of each element what Saver makes of the
  /// old one and the expression's own Eval.
  template <typename Saver, typename Make>
  void Expect(const char* name, const Make& make, expr::Stores stores = expr::Stores::kCached) {
    for (index_t offset = 0; offset < kOffsets; ++offset) {
      for (const index_t size : {index_t{1}, index_t{31}, index_t{32}, index_t{33}, kLongest}) {
        const auto piece = [&](GuardedTensor<1, T>& tensor) {
          return (*tensor).Slice(offset, offset + size);
        };
        const auto e = expr::AsNode(make(piece(a), piece(b), piece(c)));
        GuardedTensor<1, T> r(Shape1(kLongest + kOffsets), Operand<T>(2));
        const std::vector<T> before = Operand<T>(2);
        expr::EvaluateRow<Saver>((*r).dptr_ + offset, e, 0, 0, size, stores);
        for (index_t i = 0; i < kLongest + kOffsets; ++i) {
          T expected = before[static_cast<size_t>(i)];
          if (i >= offset && i < offset + size) {
            expr::SaveElement<Saver>(&expected, e.Eval(0, i - offset));
          }
          ASSERT_TRUE(SameBits((*r)[i], expected))
              << name << ": element " << i - offset << " of " << size << " from " << offset
              << " on is " << (*r)[i] << ", not " << expected;
        }
      }
    }
  }
};

using RealTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(WideLoopTest, RealTypes);

#define TESSERA_EXPECT_WIDE(...)                                                      \
  this->template Expect<sv::saveto>(#__VA_ARGS__,                                     \
                                    [](const auto& a, [[maybe_unused]] const auto& b, \
                                       [[maybe_unused]] const auto& c) { return __VA_ARGS__; })

TYPED_TEST(WideLoopTest, FunctorsOfOneOperand) {
  TESSERA_EXPECT_WIDE(F<op::identity>(a));
  TESSERA_EXPECT_WIDE(F<op::negation>(a));
  TESSERA_EXPECT_WIDE(F<op::square>(a));
  TESSERA_EXPECT_WIDE(F<op::square_root>(a));
  TESSERA_EXPECT_WIDE(F<op::rcp>(a));
  TESSERA_EXPECT_WIDE(F<op::relu>(a));
  TESSERA_EXPECT_WIDE(F<op::relu_grad>(a));
  TESSERA_EXPECT_WIDE(F<op::abs>(a));
}

TYPED_TEST(WideLoopTest, FunctorsOfTwoOperands) {
  TESSERA_EXPECT_WIDE(F<op::plus>(a, b));
  TESSERA_EXPECT_WIDE(F<op::minus>(a, b));
  TESSERA_EXPECT_WIDE(F<op::mul>(a, b));
  TESSERA_EXPECT_WIDE(F<op::div>(a, b));
  TESSERA_EXPECT_WIDE(F<op::right>(a, b));
  TESSERA_EXPECT_WIDE(F<op::maximum>(a, b));
  TESSERA_EXPECT_WIDE(F<op::minimum>(a, b));
  TESSERA_EXPECT_WIDE(F<op::eq>(a, b));
  TESSERA_EXPECT_WIDE(F<op::ne>(a, b));
  TESSERA_EXPECT_WIDE(F<op::lt>(a, b));
  TESSERA_EXPECT_WIDE(F<op::le>(a, b));
  TESSERA_EXPECT_WIDE(F<op::gt>(a, b));
  TESSERA_EXPECT_WIDE(F<op::ge>(a, b));
}

TYPED_TEST(WideLoopTest, FunctorsOfThreeOperandsAndNumbers) {
  using T = TypeParam;
  TESSERA_EXPECT_WIDE(F<op::clamp>(a, b, c));
  TESSERA_EXPECT_WIDE(F<op::blend>(a, b, c));
  TESSERA_EXPECT_WIDE(a * T(-0.0) + b);
  TESSERA_EXPECT_WIDE(T(3) * (a - T(0.1)) / (b * c));
}

TYPED_TEST(WideLoopTest, EveryWayOfSaving) {
  const auto sum = [](const auto& a, const auto& b, const auto&) { return a + b; };
  this->template Expect<sv::plusto>("+=", sum);
  this->template Expect<sv::minusto>("-=", sum);
  this->template Expect<sv::multo>("*=", sum);
  this->template Expect<sv::divto>("/=", sum);
}

TYPED_TEST(WideLoopTest, StreamedResultsAreTheSameAndStayInTheirPlace) {
  const auto sum = [](const auto& a, const auto& b, const auto& c) { return a * b - c; };
  this->template Expect<sv::saveto>("streamed", sum, expr::Stores::kStreamed);
}

// Each column by itself, in the order that kRowsPerBlock tells.
template <typename Red, typename E, typename T>
T ColumnByHand(const E& e, index_t rows, index_t x) {
  T result = Red::template InitialValue<T>();
  for (index_t begin = 0; begin < rows; begin += expr::kRowsPerBlock) {
    T block = Red::template InitialValue<T>();
    for (index_t y = begin; y < std::min(rows, begin + expr::kRowsPerBlock); ++y) {
      block = Red::OPType::Map(block, e.Eval(y, x));
    }
    result = Red::OPType::Map(result, block);
  }
  return result;
}

template <typename Red, typename T>
void ExpectReducedOverRows() {
  for (const index_t rows : {1, 2, 6, 256, 300}) {
    for (const index_t columns : {31, 32, 45, 128}) {
      const std::vector<T> values = RandomValues<T>(rows * columns, -3, 3);
      GuardedTensor<2, T> a(Shape2(rows, columns), values);
      GuardedTensor<1, T> result(Shape1(columns));
      const auto e = expr::AsNode(*a * *a - T(0.1));
      *result = reduce_except_dim<1, Red>(e);
      for (index_t x = 0; x < columns; ++x) {
        const T expected = ColumnByHand<Red, decltype(e), T>(e, rows, x);
        ASSERT_TRUE(SameBits((*result)[x], expected))
            << "column " << x << " of " << rows << "x" << columns;
      }
    }
  }
}

TYPED_TEST(WideLoopTest, ReductionsOverRows) {
  ExpectReducedOverRows<red::sum, TypeParam>();
  ExpectReducedOverRows<red::maximum, TypeParam>();
  ExpectReducedOverRows<red::minimum, TypeParam>();
}

// Says which packets it was asked for.
struct Asked : WideFunctor {
  static inline int wide = 0;
  static inline int narrow = 0;

  static float Map(float a) { return a; }
  template <typename P>
  static P PacketMap(const P& a) {
    ++(sizeof(P) > sizeof(PacketTraits<float>::type) ? wide : narrow);
    return a;
  }
};

// The same without saying that it takes wide ones.
struct OnlyNarrow {
  static float Map(float a) { return a; }
  template <typename P>
  static P PacketMap(const P& a) {
    return Asked::PacketMap(a);
  }
};

TEST(WideLoopTest, RunsWhereTheMachineTheFunctorAndTheLengthAllowIt) {
  constexpr index_t kSize = expr::kMinWideRow + 3;
  GuardedTensor<1, float> a(Shape1(kSize), RandomValues<float>(kSize, -1, 1));
  GuardedTensor<1, float> r(Shape1(kSize));
  const auto count = [&](const auto& assign) {
    Asked::wide = Asked::narrow = 0;
    assign();
  };
  const bool wide = RunsWide();
  count([&] { *r = F<Asked>(*a); });
  EXPECT_EQ(Asked::wide > 0, wide);
  EXPECT_EQ(Asked::narrow > 0, !wide && PacketTraits<float>::kVectorizable);
  count([&] { *r = F<OnlyNarrow>(*a); });
  EXPECT_EQ(Asked::wide, 0);
  const Tensor<cpu, 2, float> row = (*a).FlatTo2D();
  count([&] { *r = sum_rows(F<Asked>(row)); });
  EXPECT_EQ(Asked::wide > 0, wide);
  count([&] { *r = sum_rows(F<OnlyNarrow>(row)); });
  EXPECT_EQ(Asked::wide, 0);
  count([&] {
    (*r).Slice(0, expr::kMinWideRow - 1) = F<Asked>((*a).Slice(0, expr::kMinWideRow - 1));
  });
  EXPECT_EQ(Asked::wide, 0);
}

}  // namespace
}  // namespace tessera
