// Expressions of half_t, in packets where this build and the machine have them, have the bits that
// the functors' Map gives of each element alone.
#include "tessera/tensor/packet/half_packet.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/expr/elementwise.h"
#include "tessera/tensor/shape/broadcast.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

using base_internal::ConvertInLoop;
using tensor_internal::Avx2Packet;
using tensor_internal::PacketTraits;
using tensor_internal::RunsAvx2;

constexpr index_t kNumbers = 1 << 16;

half_t Number(index_t encoding) { return half_t::Binary(static_cast<uint16_t>(encoding)); }
bool IsNan(half_t a) { return std::isnan(static_cast<float>(a)); }

// Of two NaN that meet, either may be taken, and with it its sign.
bool Agrees(half_t a, half_t b, bool two_nans) {
  return a.bits() == b.bits() || (two_nans && IsNan(a) && IsNan(b));
}

class HalfPacketTest : public testing::Test {
 protected:
  HalfPacketTest() {
    for (index_t i = 0; i < kNumbers; ++i) (*every)[i] = Number(i);
  }

  template <typename Op>
  void ExpectUnary() {
    *result = F<Op>(*every);
    for (index_t i = 0; i < kNumbers; ++i) {
      ASSERT_EQ((*result)[i].bits(), static_cast<half_t>(Op::Map(Number(i))).bits())
          << expr::FunctorName<Op>() << " of " << i;
    }
  }

  /// Of every number beside `other`, and the other way round.
  template <typename Op>
  void ExpectBinary(half_t other) {
    const bool other_is_nan = IsNan(other);
    *result = F<Op>(*every, other);
    for (index_t i = 0; i < kNumbers; ++i) {
      const half_t a = Number(i);
      ASSERT_TRUE(Agrees((*result)[i], Op::Map(a, other), other_is_nan && IsNan(a)))
          << expr::FunctorName<Op>() << " of " << i << " and " << other.bits() << " is "
          << (*result)[i].bits();
    }
    *result = F<Op>(other, *every);
    for (index_t i = 0; i < kNumbers; ++i) {
      const half_t a = Number(i);
      ASSERT_TRUE(Agrees((*result)[i], Op::Map(other, a), other_is_nan && IsNan(a)))
          << expr::FunctorName<Op>() << " of " << other.bits() << " and " << i << " is "
          << (*result)[i].bits();
    }
  }
  template <typename Op>
  void ExpectBinary() {
    for (const half_t other : SpecialValues<half_t>()) ExpectBinary<Op>(other);
    ExpectBinary<Op>(std::numeric_limits<half_t>::signaling_NaN());
  }

  GuardedTensor<1, half_t> every{Shape1(kNumbers)};
  GuardedTensor<1, half_t> result{Shape1(kNumbers)};
};

TEST_F(HalfPacketTest, FunctorsOfOneOperandAtEveryNumber) {
  ExpectUnary<op::identity>();
  ExpectUnary<op::negation>();
  ExpectUnary<op::square>();
  ExpectUnary<op::square_root>();
  ExpectUnary<op::rcp>();
  ExpectUnary<op::relu>();
  ExpectUnary<op::relu_grad>();
  ExpectUnary<op::abs>();
  ExpectUnary<op::sign>();
}

TEST_F(HalfPacketTest, FunctorsOfEveryNumberAndSpecialOnes) {
  ExpectBinary<op::plus>();
  ExpectBinary<op::minus>();
  ExpectBinary<op::mul>();
  ExpectBinary<op::div>();
  ExpectBinary<op::right>();
  ExpectBinary<op::maximum>();
  ExpectBinary<op::minimum>();
  ExpectBinary<op::eq>();
  ExpectBinary<op::ne>();
  ExpectBinary<op::lt>();
  ExpectBinary<op::le>();
  ExpectBinary<op::gt>();
  ExpectBinary<op::ge>();
}

// From and to float: every number, and what lies between them.
TEST_F(HalfPacketTest, Conversions) {
  GuardedTensor<1, float> floats{Shape1(kNumbers)};
  *floats = tcast<float>(*every);
  for (index_t i = 0; i < kNumbers; ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>((*floats)[i]),
              std::bit_cast<uint32_t>(ConvertInLoop<float>(Number(i))))
        << i;
  }
  for (const uint32_t last : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x1fffu}) {
    GuardedTensor<1, float> between(Shape1(kNumbers), floats.values());
    for (index_t i = 0; i < kNumbers; ++i) {
      (*between)[i] = std::bit_cast<float>(std::bit_cast<uint32_t>((*floats)[i]) + last);
    }
    *result = tcast<half_t>(*between);
    for (index_t i = 0; i < kNumbers; ++i) {
      ASSERT_EQ((*result)[i].bits(), ConvertInLoop<half_t>((*between)[i]).bits()) << i;
    }
  }
  *floats = -tcast<float>(*every * half_t(3)) + 0.1f;
  *result = tcast<half_t>(tcast<float>(*every) * 3.0f) - *every;
  for (index_t i = 0; i < kNumbers; ++i) {
    const float tripled = Number(i) * half_t(3);
    const half_t difference = half_t(float(Number(i)) * 3.0f) - Number(i);
    ASSERT_TRUE(SameValue((*floats)[i], -tripled + 0.1f)) << i;
    ASSERT_EQ((*result)[i].bits(), difference.bits()) << i;
  }
}

// Rows of few packets, with what they leave, from every offset within one.
constexpr index_t kLongest = 70;
constexpr index_t kOffsets = 9;

std::vector<half_t> Operand(uint64_t stream) {
  const std::vector<half_t> special = SpecialValues<half_t>();
  std::vector<half_t> values = RandomValues<half_t>(kLongest + kOffsets, -3, 3, stream);
  for (size_t i = 0; i < values.size(); i += 3) values[i] = special[i * stream % special.size()];
  return values;
}

template <typename Saver, typename Make>
void ExpectOfRows(const Make& make, expr::Stores stores = expr::Stores::kCached) {
  GuardedTensor<1, half_t> a(Shape1(kLongest + kOffsets), Operand(1));
  GuardedTensor<1, half_t> b(Shape1(kLongest + kOffsets), Operand(5));
  GuardedTensor<1, half_t> c(Shape1(kLongest + kOffsets), Operand(11));
  const std::vector<half_t> before = Operand(7);
  for (index_t offset = 0; offset < kOffsets; ++offset) {
    for (const index_t size : {1, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, int{kLongest}}) {
      const auto piece = [&](GuardedTensor<1, half_t>& tensor) {
        return (*tensor).Slice(offset, offset + size);
      };
      const auto e = expr::AsNode(make(piece(a), piece(b), piece(c)));
      GuardedTensor<1, half_t> r(Shape1(kLongest + kOffsets), before);
      expr::EvaluateRow<Saver>((*r).dptr_ + offset, e, 0, 0, size, stores);
      for (index_t i = 0; i < kLongest + kOffsets; ++i) {
        half_t expected = before[static_cast<size_t>(i)];
        if (i >= offset && i < offset + size) {
          expr::SaveElement<Saver>(&expected, e.Eval(0, i - offset));
        }
        ASSERT_TRUE(Agrees((*r)[i], expected, /*two_nans=*/true))
            << "element " << i - offset << " of " << size << " from " << offset << " is " << (*r)[i]
            << ", not " << expected;
      }
    }
  }
}

TEST(HalfPacketRowsTest, HaveTheirElementsInEveryWayOfSaving) {
  const auto sum = [](const auto& a, const auto& b, const auto&) { return a + b; };
  ExpectOfRows<sv::saveto>(sum);
  ExpectOfRows<sv::plusto>(sum);
  ExpectOfRows<sv::minusto>(sum);
  ExpectOfRows<sv::multo>(sum);
  ExpectOfRows<sv::divto>(sum);
  ExpectOfRows<sv::saveto>(sum, expr::Stores::kStreamed);
  // Without arithmetic of its own.
  ExpectOfRows<sv::saveto>([](const auto& a, const auto&, const auto&) { return a; });
  ExpectOfRows<sv::minusto>([](const auto& a, const auto&, const auto&) { return a; });
}

TEST(HalfPacketRowsTest, OfSeveralSteps) {
  ExpectOfRows<sv::saveto>([](const auto& a, const auto& b, const auto& c) {
    return half_t(3) * (a - half_t(0.1)) / (b * c);  // each step rounds
  });
  ExpectOfRows<sv::saveto>(
      [](const auto& a, const auto& b, const auto& c) { return F<op::clamp>(a, b, c); });
  ExpectOfRows<sv::saveto>(
      [](const auto& a, const auto& b, const auto& c) { return F<op::blend>(a, b, c); });
  ExpectOfRows<sv::minusto>(
      [](const auto& a, const auto& b, const auto&) { return half_t(0.01) * a + max(a, b); });
}

TEST(HalfPacketRowsTest, TheDestinationMayBeAnOperand) {
  GuardedTensor<1, half_t> r(Shape1(kLongest), RandomValues<half_t>(kLongest, -3, 3));
  const std::vector<half_t> before = r.values();
  *r = *r * *r - *r;
  *r -= half_t(0.5) * *r;
  for (size_t i = 0; i < before.size(); ++i) {
    half_t expected = before[i] * before[i] - before[i];
    expected = expected - half_t(0.5) * expected;
    EXPECT_EQ(r.values()[i].bits(), expected.bits()) << i;
  }
}

TEST(HalfPacketRowsTest, RowsWithPaddingAndBroadcasts) {
  for (const index_t columns : {3, 8, 13, 40}) {
    const Shape<2> shape = Shape2(5, columns);
    GuardedTensor<2, half_t> a(shape, RandomValues<half_t>(shape.Size(), -3, 3, 1),
                               {.row_padding = 3});
    GuardedTensor<2, half_t> r(shape, RandomValues<half_t>(shape.Size(), -3, 3, 2),
                               {.row_padding = 3, .misalignment = 1});
    GuardedTensor<1, half_t> row(Shape1(columns), RandomValues<half_t>(columns, -3, 3, 3));
    GuardedTensor<1, half_t> column(Shape1(5), RandomValues<half_t>(5, -3, 3, 4));
    *r = *a * broadcast<1>(*row, shape) + broadcast<0>(*column, shape);
    for (index_t y = 0; y < 5; ++y) {
      for (index_t x = 0; x < columns; ++x) {
        ASSERT_EQ((*r)[y][x].bits(), ((*a)[y][x] * (*row)[x] + (*column)[y]).bits())
            << y << ", " << x << " of " << columns;
      }
    }
    EXPECT_TRUE(r.GuardsIntact());
  }
}

/// Calls each function of pk that avx2_packet.h has with its template arguments, as Eigen 5 does.
template <typename P>
void ExpectExplicitCalls() {
  using T = typename pk::unpacket_traits<P>::type;
  const auto all = [](double value) { return pk::pset1<P>(static_cast<T>(value)); };
  const auto same = [](const P& x, const P& y) {
    T first[pk::unpacket_traits<P>::size], second[pk::unpacket_traits<P>::size];
    pk::pstoreu<T, P>(first, x);
    pk::pstoreu<T, P>(second, y);
    return std::memcmp(first, second, sizeof(first)) == 0;
  };
  const P a = all(2), b = all(3);
  EXPECT_TRUE(same(pk::padd<P>(a, b), all(5)));
  EXPECT_TRUE(same(pk::psub<P>(a, b), all(-1)));
  EXPECT_TRUE(same(pk::pmul<P>(a, b), all(6)));
  EXPECT_TRUE(same(pk::pdiv<P>(b, a), all(1.5)));
  EXPECT_TRUE(same(pk::pmadd<P>(a, b, a), all(8)));
  EXPECT_TRUE(same(pk::pabs<P>(all(-2)), a));
  EXPECT_TRUE(same(pk::psqrt<P>(b), pk::psqrt(b)));
  EXPECT_TRUE(same(pk::pzero<P>(a), all(0)));
  EXPECT_TRUE(same(pk::pselect<P>(pk::pcmp_lt<P>(a, b), a, b), a));
  EXPECT_TRUE(same(pk::pselect<P>(pk::pcmp_le<P>(b, a), a, b), b));
  EXPECT_TRUE(same(pk::pselect<P>(pk::pcmp_eq<P>(a, a), a, b), a));
  EXPECT_TRUE(same(pk::pand<P>(a, pk::pcmp_lt<P>(a, b)), a));
  EXPECT_TRUE(same(pk::pandnot<P>(a, pk::pcmp_lt<P>(a, b)), all(0)));
  EXPECT_TRUE(same(pk::por<P>(a, all(0)), a));
  EXPECT_TRUE(same(pk::pxor<P>(a, a), all(0)));
}

TEST(PacketFunctionsTest, TakeTheirTemplateArguments) {
  ExpectExplicitCalls<PacketTraits<float>::type>();
  ExpectExplicitCalls<PacketTraits<double>::type>();
  EXPECT_EQ(pk::padd<float>(2, 3), 5);
  EXPECT_EQ(pk::pmul<double>(2, 3), 6);
#if TESSERA_HAS_AVX2_PACKETS
  if (!RunsAvx2()) return;
  ExpectExplicitCalls<Avx2Packet<float>>();
  ExpectExplicitCalls<Avx2Packet<double>>();
  ExpectExplicitCalls<Avx2Packet<half_t>>();
#endif
}

using Half = Tensor<cpu, 1, half_t>;
template <typename E>
constexpr bool kInPackets = expr::HasAvx2Loop<sv::saveto, typename E::value_type, E>();
constexpr bool kHasPackets = TESSERA_HAS_AVX2_PACKETS;
static_assert(kInPackets<decltype(Half() + Half())> == kHasPackets);
static_assert(kInPackets<decltype(clamp(-sqrt(Half()), half_t(1), half_t(2)))> == kHasPackets);
static_assert(kInPackets<decltype(tcast<half_t>(2.0f * tcast<float>(Half())))> == kHasPackets);
static_assert(kInPackets<decltype(tcast<float>(abs(Half())))> == kHasPackets);
static_assert(!kInPackets<decltype(tcast<half_t>(Tensor<cpu, 1, int32_t>()))>);
static_assert(!kInPackets<Half>);

// Its Map rounds once, its packet form at each step.
struct RoundsOnce : WideFunctor {
  static half_t Map(half_t a) { return half_t(static_cast<float>(a) * static_cast<float>(a) + 1); }
  template <typename P>
  static P MapPacket(const P& a) {
    return pk::padd(pk::pmul(a, a), pk::pset1<P>(typename pk::unpacket_traits<P>::type(1)));
  }
};
// Both do so.
struct RoundsTwice : StepwiseFunctor {
  template <typename T>
  static T Map(T a) {
    return a * a + T(1);
  }
  template <typename P>
  static P MapPacket(const P& a) {
    return pk::padd(pk::pmul(a, a), pk::pset1<P>(typename pk::unpacket_traits<P>::type(1)));
  }
};
static_assert(!kInPackets<decltype(F<RoundsOnce>(Half()) + Half())>);
static_assert(!kInPackets<decltype(tcast<float>(F<RoundsOnce>(Half())))>);
static_assert(kInPackets<decltype(F<RoundsTwice>(Half()))> == kHasPackets);

TEST_F(HalfPacketTest, FunctorsOfPrograms) {
  ExpectUnary<RoundsOnce>();
  ExpectUnary<RoundsTwice>();
}

}  // namespace
}  // namespace tessera
