// Loops over wide packets give, element by element, the bits that the functors' Map gives, and so
// do reductions over rows and along them.
#include "tessera/tensor/eval/avx2_loop.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/expr/elementwise.h"
#include "tessera/tensor/reduce/reduce.h"
#include "tessera/tensor/reduce/reduce_axis.h"
#include "tessera/tensor/reduce/reductions.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

using tensor_internal::kHasAvx2PacketsOf;
using tensor_internal::PacketTraits;
using tensor_internal::RunsAvx2;

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
class Avx2LoopTest : public testing::Test {
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
TYPED_TEST_SUITE(Avx2LoopTest, RealTypes);

#define TESSERA_EXPECT_AVX2(...)                                                      \
  this->template Expect<sv::saveto>(#__VA_ARGS__,                                     \
                                    [](const auto& a, [[maybe_unused]] const auto& b, \
                                       [[maybe_unused]] const auto& c) { return __VA_ARGS__; })

TYPED_TEST(Avx2LoopTest, FunctorsOfOneOperand) {
  TESSERA_EXPECT_AVX2(F<op::identity>(a));
  TESSERA_EXPECT_AVX2(F<op::negation>(a));
  TESSERA_EXPECT_AVX2(F<op::square>(a));
  TESSERA_EXPECT_AVX2(F<op::square_root>(a));
  TESSERA_EXPECT_AVX2(F<op::rcp>(a));
  TESSERA_EXPECT_AVX2(F<op::relu>(a));
  TESSERA_EXPECT_AVX2(F<op::relu_grad>(a));
  TESSERA_EXPECT_AVX2(F<op::abs>(a));
}

TYPED_TEST(Avx2LoopTest, FunctorsOfTwoOperands) {
  TESSERA_EXPECT_AVX2(F<op::plus>(a, b));
  TESSERA_EXPECT_AVX2(F<op::minus>(a, b));
  TESSERA_EXPECT_AVX2(F<op::mul>(a, b));
  TESSERA_EXPECT_AVX2(F<op::div>(a, b));
  TESSERA_EXPECT_AVX2(F<op::right>(a, b));
  TESSERA_EXPECT_AVX2(F<op::maximum>(a, b));
  TESSERA_EXPECT_AVX2(F<op::minimum>(a, b));
  TESSERA_EXPECT_AVX2(F<op::eq>(a, b));
  TESSERA_EXPECT_AVX2(F<op::ne>(a, b));
  TESSERA_EXPECT_AVX2(F<op::lt>(a, b));
  TESSERA_EXPECT_AVX2(F<op::le>(a, b));
  TESSERA_EXPECT_AVX2(F<op::gt>(a, b));
  TESSERA_EXPECT_AVX2(F<op::ge>(a, b));
}

TYPED_TEST(Avx2LoopTest, FunctorsOfThreeOperandsAndNumbers) {
  using T = TypeParam;
  TESSERA_EXPECT_AVX2(F<op::clamp>(a, b, c));
  TESSERA_EXPECT_AVX2(F<op::blend>(a, b, c));
  TESSERA_EXPECT_AVX2(a * T(-0.0) + b);
  TESSERA_EXPECT_AVX2(T(3) * (a - T(0.1)) / (b * c));
}

TYPED_TEST(Avx2LoopTest, EveryWayOfSaving) {
  const auto sum = [](const auto& a, const auto& b, const auto&) { return a + b; };
  this->template Expect<sv::plusto>("+=", sum);
  this->template Expect<sv::minusto>("-=", sum);
  this->template Expect<sv::multo>("*=", sum);
  this->template Expect<sv::divto>("/=", sum);
}

TYPED_TEST(Avx2LoopTest, StreamedResultsAreTheSameAndStayInTheirPlace) {
  const auto sum = [](const auto& a, const auto& b, const auto& c) { return a * b - c; };
  this->template Expect<sv::saveto>("streamed", sum, expr::Stores::kStreamed);
}

// By the bytes that are moved, not by those of the result alone; what is read is in the caches.
TEST(StreamedStoresTest, BeginWhereTheCachesEnd) {
  constexpr index_t kElementsOfMiB = (index_t{1} << 20) / index_t{sizeof(float)};
  const auto streams = [](index_t mib, const auto& make) {
    // Nothing is read or written here.
    const Shape<1> shape = Shape1(mib * kElementsOfMiB);
    const auto at = [&](uintptr_t gib) {
      return Tensor<cpu, 1, float>(reinterpret_cast<float*>(gib << 30), shape);
    };
    const auto e = make(at(1), at(2), at(3));
    return expr::StoresInto<sv::saveto>(at(1), e, expr::PlanLoop(at(1), e)) ==
           expr::Stores::kStreamed;
  };
  const auto sum = [](const auto&, const auto& a, const auto& b) { return a + b; };
  const auto twice = [](const auto&, const auto& a, const auto&) { return a * 2.0f; };
  const auto number = [](const auto&, const auto&, const auto&) {
    return expr::ScalarExp<float>(1.0f);
  };
  const auto update = [](const auto& dst, const auto& a, const auto& b) { return dst - a * b; };
  EXPECT_FALSE(streams(15, sum));
  EXPECT_EQ(streams(17, sum), RunsAvx2() && kHasAvx2PacketsOf<float>);
  EXPECT_FALSE(streams(23, twice));
  EXPECT_EQ(streams(25, twice), RunsAvx2() && kHasAvx2PacketsOf<float>);
  EXPECT_FALSE(streams(31, number));
  EXPECT_EQ(streams(33, number), RunsAvx2() && kHasAvx2PacketsOf<float>);
  EXPECT_FALSE(streams(100, update));
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
    for (const index_t columns : {7, 17, 31, 32, 45, 64, 77, 128}) {
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

TYPED_TEST(Avx2LoopTest, ReductionsOverRows) {
  ExpectReducedOverRows<red::sum, TypeParam>();
  ExpectReducedOverRows<red::maximum, TypeParam>();
  ExpectReducedOverRows<red::minimum, TypeParam>();
}

// One row by itself, in the order that ReduceRow tells: the lanes of the chains of each block, the
// lanes of all blocks, and what turns of four packets leave over.
template <typename Red, typename E>
auto RowByHand(const E& e, index_t y, index_t columns) {
  using T = typename E::value_type;
  using Op = typename Red::OPType;
  constexpr index_t kSize = PacketTraits<T>::kSize;
  constexpr index_t kTurn = expr::kReduceChains * kSize;
  const T initial = Red::template InitialValue<T>();
  std::vector<T> lanes(kSize, initial);
  const index_t in_turns = columns / kTurn * kTurn;
  for (index_t begin = 0; begin < in_turns; begin += expr::kReduceBlock * kTurn) {
    std::vector<T> chains(kTurn, initial);
    const index_t end = std::min(in_turns, begin + expr::kReduceBlock * kTurn);
    for (index_t x = begin; x < end; ++x) {
      T& chain = chains[static_cast<size_t>(x % kTurn)];
      chain = Op::Map(chain, e.Eval(y, x));
    }
    for (size_t lane = 0; lane < lanes.size(); ++lane) {
      const T* const chain = &chains[lane];
      lanes[lane] = Op::Map(lanes[lane], Op::Map(Op::Map(chain[0], chain[kSize]),
                                                 Op::Map(chain[2 * kSize], chain[3 * kSize])));
    }
  }
  T result = initial, rest = initial;
  for (const T lane : lanes) result = Op::Map(result, lane);
  for (index_t x = in_turns; x < columns; ++x) rest = Op::Map(rest, e.Eval(y, x));
  return in_turns == columns ? result : Op::Map(result, rest);
}

// One after another, and several rows side by side with what they leave.
template <typename Red, typename T>
void ExpectReducedAlongRows() {
  const index_t block = expr::kReduceBlock * expr::kReduceChains * PacketTraits<T>::kSize;
  for (const index_t rows : {1, 3, 4, 7, 70}) {
    const index_t limit = expr::kSideBySideBytes / index_t{sizeof(T)};
    for (const index_t columns : {index_t{31}, index_t{32}, index_t{45}, limit - 1, limit,
                                  block - 1, block + 7, 2 * block + 33}) {
      if (columns < PacketTraits<T>::kSize * expr::kReduceChains) continue;
      const std::vector<T> values = RandomValues<T>(rows * columns, -3, 3);
      GuardedTensor<2, T> a(Shape2(rows, columns), values);
      GuardedTensor<1, T> along(Shape1(rows)), axis(Shape1(rows));
      const auto e = expr::AsNode(*a * *a - T(0.1));
      *along = expr::MakeAxisReduction<Red, expr::finish::None, 1, T>(e);
      *axis = reduce_with_axis<Red, false>(e, 1);
      for (index_t y = 0; y < rows; ++y) {
        const T expected = RowByHand<Red>(e, y, columns);
        ASSERT_TRUE(SameBits((*along)[y], expected))
            << "row " << y << " of " << rows << "x" << columns;
        ASSERT_TRUE(SameBits((*axis)[y], expected))
            << "row " << y << " of " << rows << "x" << columns;
        ASSERT_TRUE(SameBits(expr::ReduceRow<Red>(e, y, 0, columns), expected))
            << "row " << y << " of " << rows << "x" << columns;
      }
    }
  }
}

TYPED_TEST(Avx2LoopTest, ReductionsAlongRows) {
  ExpectReducedAlongRows<red::sum, TypeParam>();
  ExpectReducedAlongRows<red::maximum, TypeParam>();
  ExpectReducedAlongRows<red::minimum, TypeParam>();
}

// Roots have instructions of their own; see psqrt in avx2_packet.h.
TYPED_TEST(Avx2LoopTest, ReductionsOfRoots) {
  using T = TypeParam;
  for (const index_t columns : {40, 700, 3000}) {
    GuardedTensor<2, T> a(Shape2(6, columns), RandomValues<T>(6 * columns, 0, 3));
    GuardedTensor<2, T> roots(a->shape_);
    *roots = sqrt(*a);
    for (index_t i = 0; i < 6 * columns; ++i) {
      ASSERT_EQ(roots->dptr_[i], std::sqrt(a->dptr_[i])) << i;
    }
    GuardedTensor<1, T> rows(Shape1(6)), of_rows(Shape1(6));
    *rows = sum<1>(sqrt(*a));
    *of_rows = sum<1>(*roots);
    EXPECT_EQ(rows.values(), of_rows.values()) << columns;
    GuardedTensor<1, T> row(Shape1(columns)), of_columns(Shape1(columns));
    *row = sum<0>(sqrt(*a));
    *of_columns = sum<0>(*roots);
    EXPECT_EQ(row.values(), of_columns.values()) << columns;
    EXPECT_EQ(ReduceAll<red::maximum>(sqrt(*a)), ReduceAll<red::maximum>(*roots)) << columns;
  }
}

// Among elements of -0, whose sum with what a sum begins with is 0.
TYPED_TEST(Avx2LoopTest, ReductionsAlongRowsOfSpecialValues) {
  using T = TypeParam;
  constexpr index_t kColumns = 37;
  const std::vector<T> special = SpecialValues<T>();
  const auto rows = static_cast<index_t>(special.size()) + 4;
  GuardedTensor<2, T> a(Shape2(rows, kColumns),
                        std::vector<T>(static_cast<size_t>(rows * kColumns), T(-0.0)));
  for (size_t i = 0; i < special.size(); ++i) {
    const auto y = static_cast<index_t>(i);
    (*a)[y][5 * y % kColumns] = special[i];
  }
  GuardedTensor<1, T> r(Shape1(rows));
  const auto e = expr::AsNode(*a);
  const auto expect = [&]<typename Red>(Red) {
    *r = expr::MakeAxisReduction<Red, expr::finish::None, 1, T>(e);
    for (index_t y = 0; y < rows; ++y) {
      EXPECT_TRUE(SameBits((*r)[y], RowByHand<Red>(e, y, kColumns))) << "row " << y;
    }
  };
  expect(red::sum());
  expect(red::maximum());
  expect(red::minimum());
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

TEST(Avx2LoopTest, RunsWhereTheMachineTheFunctorAndTheLengthAllowIt) {
  constexpr index_t kSize = expr::kMinAvx2Row + 3;
  GuardedTensor<1, float> a(Shape1(kSize), RandomValues<float>(kSize, -1, 1));
  GuardedTensor<1, float> r(Shape1(kSize));
  const auto count = [&](const auto& assign) {
    Asked::wide = Asked::narrow = 0;
    assign();
  };
  const bool wide = RunsAvx2();
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
  float total = 0;
  count([&] { total = sum(F<Asked>(row)); });
  EXPECT_EQ(Asked::wide > 0, wide);
  count([&] { total += sum(F<OnlyNarrow>(row)); });
  EXPECT_EQ(Asked::wide, 0);
  GuardedTensor<2, float> matrix(Shape2(4, kSize), RandomValues<float>(4 * kSize, -1, 1));
  count([&] { (*r).Slice(0, 4) = sum<1>(F<Asked>(*matrix)); });
  EXPECT_EQ(Asked::wide > 0, wide);
  count([&] {
    (*r).Slice(0, expr::kMinAvx2Row - 1) = F<Asked>((*a).Slice(0, expr::kMinAvx2Row - 1));
  });
  EXPECT_EQ(Asked::wide, 0);
}

}  // namespace
}  // namespace tessera
