// The CPU evaluator over every kind of element type: extents around a packet, layouts, guard zones,
// special values. One operation in double, rounded once, is the exact answer for float and half.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/device/parallel.h"
#include "tessera/tensor/eval/evaluator_cpu.h"
#include "tessera/tensor/reduce/reductions.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

using tensor_internal::kDefaultElementsPerTask;
using tensor_internal::PacketTraits;

template <typename T>
class EvaluatorTest : public testing::Test {
 protected:
  static constexpr index_t kPacket = PacketTraits<T>::kSize;

  // Integers are added in 64 bits and wrap when they are stored.
  using Wide = std::conditional_t<kIsReal<T>, double, int64_t>;

  static std::vector<T> Values(index_t count, uint64_t stream) {
    return RandomValues<T>(count, std::is_unsigned_v<T> ? 1 : -50, 50, stream);
  }
  static std::vector<T> Divisors(index_t count, uint64_t stream) {
    return RandomValues<T>(count, 1, 7, stream);
  }
  static T Round(Wide exact) { return static_cast<T>(exact); }

  static std::vector<T> Map(const std::function<Wide(Wide, Wide)>& oracle, const std::vector<T>& a,
                            const std::vector<T>& b) {
    std::vector<T> result;
    for (size_t i = 0; i < a.size(); ++i) {
      result.push_back(Round(oracle(static_cast<Wide>(a[i]), static_cast<Wide>(b[i]))));
    }
    return result;
  }

  /// Extents on both sides of one, two and several packets.
  static std::vector<index_t> Extents() {
    std::vector<index_t> extents = {0, 1, 2, 3};
    for (const index_t packets : {1, 2, 3, 4, 8}) {
      for (const index_t more : {-1, 0, 1}) extents.push_back(packets * kPacket + more);
    }
    extents.insert(extents.end(), {31, 32, 33, 100});
    return extents;
  }
};

// One type with packets, one with packets that convert, and one without packets. The 16-bit types
// agree with float in sixteen_bit_functions_test, double has its packets in avx2_loop_test.
using ElementTypes = TestedTypes<float, half_t, uint8_t>;

struct ElementTypeNames {
  template <typename T>
  static std::string GetName(int) {
    return std::string(DTypeName(kDTypeOf<T>));
  }
};

TYPED_TEST_SUITE(EvaluatorTest, ElementTypes, ElementTypeNames);

TYPED_TEST(EvaluatorTest, VectorsOfEveryExtentAndAlignment) {
  using T = TypeParam;
  using Wide = typename TestFixture::Wide;
  for (const index_t extent : TestFixture::Extents()) {
    for (const index_t misalignment : {0, 1, 3}) {
      const std::vector<T> a = TestFixture::Values(extent, 1);
      const std::vector<T> b = TestFixture::Divisors(extent, 2);
      GuardedTensor<1, T> x(Shape1(extent), a, GuardedLayout{.misalignment = misalignment});
      GuardedTensor<1, T> y(Shape1(extent), b, GuardedLayout{.misalignment = 2 * misalignment});
      GuardedTensor<1, T> out(Shape1(extent), GuardedLayout{.misalignment = misalignment / 2});
      const auto expect = [&](const std::function<Wide(Wide, Wide)>& oracle,
                              const char* operation) {
        ExpectSameValues(out.values(), TestFixture::Map(oracle, a, b),
                         operation + std::to_string(extent));
        ASSERT_TRUE(out.GuardsIntact()) << operation << extent;
      };
      *out = *x + *y;
      expect([](Wide p, Wide q) { return p + q; }, "+");
      *out = *x - *y;
      expect([](Wide p, Wide q) { return p - q; }, "-");
      *out = *x * *y;
      expect([](Wide p, Wide q) { return p * q; }, "*");
      *out = *x / *y;
      expect([](Wide p, Wide q) { return p / q; }, "/");
      *out = -*x;
      expect([](Wide p, Wide) { return -p; }, "-x ");
      *out = F<op::relu>(*x);
      expect([](Wide p, Wide) { return p < 0 ? -p * 0 : p; }, "relu ");
      *out = T(3);
      expect([](Wide, Wide) { return Wide(3); }, "3 ");
      *out += *x;
      expect([](Wide p, Wide) { return 3 + p; }, "+= ");
    }
  }
}

TYPED_TEST(EvaluatorTest, PaddedMatricesOfEveryWidth) {
  using T = TypeParam;
  using Wide = typename TestFixture::Wide;
  for (const index_t columns : TestFixture::Extents()) {
    for (const index_t rows : {0, 1, 2, 5}) {
      const std::vector<T> a = TestFixture::Values(rows * columns, 3);
      const std::vector<T> b = TestFixture::Divisors(rows * columns, 4);
      GuardedTensor<2, T> x(Shape2(rows, columns), a, GuardedLayout{.row_padding = 3});
      GuardedTensor<2, T> y(Shape2(rows, columns), b, GuardedLayout{.misalignment = 1});
      GuardedTensor<2, T> out(Shape2(rows, columns), GuardedLayout{.row_padding = 1});
      *out = *x - *y;
      ExpectSameValues(out.values(), TestFixture::Map([](Wide p, Wide q) { return p - q; }, a, b));
      ASSERT_TRUE(out.GuardsIntact()) << rows << "x" << columns;
    }
  }
}

TYPED_TEST(EvaluatorTest, HigherRanksKeepTheirOrder) {
  using T = TypeParam;
  const Shape<4> shape = Shape4(2, 3, 2, 9);
  const std::vector<T> a = TestFixture::Divisors(shape.Size(), 5);
  GuardedTensor<4, T> x(shape, a, GuardedLayout{.row_padding = 2});
  GuardedTensor<4, T> out(shape);
  *out = *x * 2;
  const std::vector<T> result = out.values();
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(static_cast<double>(result[i]), 2 * static_cast<double>(a[i]));
  }
  EXPECT_TRUE(out.GuardsIntact());
}

TYPED_TEST(EvaluatorTest, DestinationMayBeAnOperandAtItsOwnPlace) {
  using T = TypeParam;
  using Wide = typename TestFixture::Wide;
  for (const index_t extent : TestFixture::Extents()) {
    const std::vector<T> a = TestFixture::Divisors(extent, 6);
    const std::vector<T> b = TestFixture::Divisors(extent, 7);
    GuardedTensor<1, T> x(Shape1(extent), a);
    GuardedTensor<1, T> y(Shape1(extent), b, GuardedLayout{.misalignment = 1});
    *x = *x + *y;
    ExpectSameValues(x.values(), TestFixture::Map([](Wide p, Wide q) { return p + q; }, a, b));
    x.Set(a);
    *x *= *x;
    ExpectSameValues(x.values(), TestFixture::Map([](Wide p, Wide) { return p * p; }, a, b));
    EXPECT_TRUE(x.GuardsIntact());
  }
}

TYPED_TEST(EvaluatorTest, LargeTensorsAreCompleteInParallel) {
  using T = TypeParam;
  using Wide = typename TestFixture::Wide;
  const auto sum = [](Wide p, Wide q) { return p + q; };
  for (const index_t extent :
       {kDefaultElementsPerTask, kDefaultElementsPerTask + 1, 5 * kDefaultElementsPerTask - 3}) {
    const std::vector<T> a = TestFixture::Values(extent, 8);
    const std::vector<T> b = TestFixture::Divisors(extent, 9);
    GuardedTensor<1, T> x(Shape1(extent), a);
    GuardedTensor<1, T> y(Shape1(extent), b, GuardedLayout{.misalignment = 1});
    GuardedTensor<1, T> out(Shape1(extent));
    *out = *x + *y;
    ExpectSameValues(out.values(), TestFixture::Map(sum, a, b));
    EXPECT_TRUE(out.GuardsIntact());
  }
  // Padded rows, many short ones and a few long ones.
  for (const Shape<2>& shape : {Shape2(30001, 3), Shape2(3, 30001)}) {
    const std::vector<T> a = TestFixture::Values(shape.Size(), 10);
    const std::vector<T> b = TestFixture::Divisors(shape.Size(), 11);
    GuardedTensor<2, T> x(shape, a, GuardedLayout{.row_padding = 1});
    GuardedTensor<2, T> y(shape, b);
    GuardedTensor<2, T> out(shape, GuardedLayout{.row_padding = 2});
    *out = *x + *y;
    ExpectSameValues(out.values(), TestFixture::Map(sum, a, b));
    EXPECT_TRUE(out.GuardsIntact());
  }
}

TYPED_TEST(EvaluatorTest, SpecialValuesMeetInEveryPair) {
  using T = TypeParam;
  if constexpr (kIsReal<T>) {
    std::vector<T> a, b;
    for (const T& p : SpecialValues<T>()) {
      for (const T& q : SpecialValues<T>()) {
        a.push_back(p);
        b.push_back(q);
      }
    }
    const index_t extent = static_cast<index_t>(a.size());
    GuardedTensor<1, T> x(Shape1(extent), a);
    GuardedTensor<1, T> y(Shape1(extent), b);
    GuardedTensor<1, T> out(Shape1(extent));
    const auto expect = [&](const std::function<double(double, double)>& oracle,
                            const char* operation) {
      ExpectSameValues(out.values(), TestFixture::Map(oracle, a, b), operation);
    };
    *out = *x + *y;
    expect([](double p, double q) { return p + q; }, "+");
    *out = *x - *y;
    expect([](double p, double q) { return p - q; }, "-");
    *out = *x * *y;
    expect([](double p, double q) { return p * q; }, "*");
    *out = *x / *y;
    expect([](double p, double q) { return p / q; }, "/");
    // Of 16 bits sixteen_bit_functions_test tries functions at every value.
    if constexpr (sizeof(T) > 2) {
      *out = -*x;
      expect([](double p, double) { return -p; }, "-x");
      *out = F<op::identity>(*x);
      expect([](double p, double) { return p; }, "identity");
      *out = F<op::relu>(*x);
      expect([](double p, double) { return p < 0 ? 0 : p; }, "relu");
      *out = F<op::relu_grad>(*x);
      expect([](double p, double) { return p > 0 ? 1.0 : 0.0; }, "relu_grad");
      *out = F<op::abs>(*x);
      expect([](double p, double) { return std::fabs(p); }, "abs");
      *out = F<op::square>(*x);
      expect([](double p, double) { return p * p; }, "square");
      *out = F<op::square_root>(F<op::abs>(*x));
      expect([](double p, double) { return std::sqrt(std::fabs(p)); }, "square_root");
    }
    const auto larger = [](double p, double q) { return p > q ? p : q; };
    const double nan = std::numeric_limits<double>::quiet_NaN();
    *out = F<op::maximum>(*x, *y);
    // Of zeros with different signs either may be the larger: adding 0 leaves one zero.
    *out = *out + T(0);
    expect([&](double p, double q) { return p != p || q != q ? nan : larger(p, q) + 0.0; },
           "maximum");
    *out = F<op::minimum>(*x, *y);
    *out = *out + T(0);
    expect([&](double p, double q) { return p != p || q != q ? nan : -larger(-p, -q) + 0.0; },
           "minimum");
  } else {
    GuardedTensor<1, T> x(Shape1(6), SpecialValues<T>());
    GuardedTensor<1, T> out(Shape1(6));
    *out = F<op::maximum>(*x, F<op::identity>(*x)) / 3;
    std::vector<T> expected;
    for (const T value : SpecialValues<T>()) expected.push_back(value / 3);
    EXPECT_EQ(out.values(), expected);
  }
}

TEST(EvaluateTest, PacketsAndSingleElementsOfHalfAgree) {
  // Element i of a long vector and the same element evaluated alone go through different code;
  // span_test says it of float and double.
  using T = half_t;
  const std::vector<T> a = RandomValues<T>(100, -50, 50, 12);
  GuardedTensor<1, T> x(Shape1(100), a);
  GuardedTensor<1, T> all(Shape1(100));
  GuardedTensor<1, T> one(Shape1(1));
  const auto compare = [&](const auto& function) {
    *all = function(*x);
    for (index_t i = 0; i < 100; ++i) {
      *one = function(x->Slice(i, i + 1));
      ASSERT_TRUE(SameValue((*one)[0], (*all)[i])) << static_cast<double>(a[i]);
    }
  };
  compare([](const auto& v) { return F<op::exp>(v * T(0.1f)); });
  compare([](const auto& v) { return F<op::log>(v + T(60)); });
  compare([](const auto& v) { return F<op::tanh>(v * T(0.1f)); });
  compare([](const auto& v) { return F<op::sigmoid>(v); });
  compare([](const auto& v) { return F<op::softrelu>(v); });
  compare([](const auto& v) { return F<op::softsign>(v); });
}

// Integers: the narrowest, the one with packets, bool and the widest. Arithmetic wraps around; of
// bool, whose packets Eigen has too, it is that of numbers 0 and 1 of which everything but 0 is
// stored as true.
template <typename T>
class OtherTypesTest : public testing::Test {
 protected:
  static T Stored(uint64_t value) {
    if constexpr (std::is_same_v<T, bool>) {
      return value != 0;
    } else {
      return static_cast<T>(value);
    }
  }
  static uint64_t Wide(T value) { return static_cast<uint64_t>(value); }
};
using OtherTypes = TestedTypes<int8_t, int32_t, bool, uint64_t>;
TYPED_TEST_SUITE(OtherTypesTest, OtherTypes);

TYPED_TEST(OtherTypesTest, ArithmeticWrapsAround) {
  using T = TypeParam;
  const auto wide = [](T value) { return TestFixture::Wide(value); };
  for (const index_t n : {0, 1, 15, 16, 17, 31, 32, 33, 100}) {
    // A vector of bool has no elements to point to. The one before and the one after stay as they
    // are.
    const auto memory = std::make_unique<T[]>(static_cast<size_t>(3 * (n + 2)));
    const auto vector = [&](index_t i) {
      return Tensor<cpu, 1, T>(memory.get() + i * (n + 2) + 1, Shape1(n));
    };
    Tensor<cpu, 1, T> a = vector(0), b = vector(1), out = vector(2);
    // Spreads small numbers over all bits, so that those of every type are exceeded.
    constexpr uint64_t kSpread = 0x9e3779b97f4a7c15;
    for (index_t i = 0; i < n; ++i) {
      a[i] = TestFixture::Stored(kSpread * static_cast<uint64_t>(i % 3 == 0 ? 0 : 37 * i));
      b[i] = TestFixture::Stored(kSpread * static_cast<uint64_t>(i % 4 < 2 ? 0 : 91 - 5 * i));
      if (i % 5 == 1) a[i] = std::numeric_limits<T>::lowest();
    }
    const auto expect = [&](const char* what, const std::function<uint64_t(T, T)>& oracle) {
      for (index_t i = 0; i < n; ++i) {
        const T expected = TestFixture::Stored(oracle(a[i], b[i]));
        ASSERT_EQ(+out[i], +expected) << what << ", element " << i << " of " << n;
      }
      ASSERT_EQ(+out.dptr_[-1], +T(0)) << what;
      ASSERT_EQ(+out.dptr_[n], +T(0)) << what;
    };
    out = a + b;
    expect("+", [&](T p, T q) { return wide(p) + wide(q); });
    out = a - b;
    expect("-", [&](T p, T q) { return wide(p) - wide(q); });
    out = a * b;
    expect("*", [&](T p, T q) { return wide(p) * wide(q); });
    out = -a;
    expect("-a", [&](T p, T) { return 0 - wide(p); });
    out = F<op::abs>(a);
    expect("abs", [&](T p, T) { return std::min(p, T(0)) != T(0) ? 0 - wide(p) : wide(p); });
    out = F<op::square>(a);
    expect("square", [&](T p, T) { return wide(p) * wide(p); });
    out = F<op::softsign>(a);
    expect("softsign", [&](T, T) { return uint64_t{0}; });
    out = b / 1;
    expect("/ 1", [&](T, T q) { return wide(q); });
    out = F<op::lt>(a, b);
    expect("<", [&](T p, T q) { return uint64_t{p < q}; });
    out = F<op::ne>(a, b);
    expect("!=", [&](T p, T q) { return uint64_t{p != q}; });
    out = F<op::maximum>(a, b);
    expect("maximum", [&](T p, T q) { return wide(std::max(p, q)); });
    out = F<op::blend>(a, b, a);
    expect("blend", [&](T p, T q) { return wide(p != T(0) ? q : p); });
    out = tcast<T>(tcast<int64_t>(b));
    expect("tcast", [&](T, T q) { return wide(q); });
    out = T(1);
    expect("1", [&](T, T) { return uint64_t{1}; });
    out -= b;
    expect("-=", [&](T, T q) { return 1 - wide(q); });
    out = F<op::identity>(a);
    out += b;
    expect("+=", [&](T p, T q) { return wide(p) + wide(q); });
    out *= b;
    // What is stored between the two is 0 or 1 where T is bool.
    expect("*=", [&](T p, T q) { return wide(TestFixture::Stored(wide(p) + wide(q))) * wide(q); });
    uint64_t total = 0;
    for (index_t i = 0; i < n; ++i) total += wide(a[i]);
    EXPECT_EQ(+T(sum(a)), +TestFixture::Stored(total)) << n;
    // The scale is taken up in 64 bits.
    const T scale = std::numeric_limits<T>::max();
    Tensor<cpu, 1, T> one(out.dptr_, Shape1(std::min<index_t>(1, n)));
    one = scale * sumall_except_dim<0>(Tensor<cpu, 2, T>(a.dptr_, Shape2(one.shape_[0], n)));
    if (n > 0) {
      EXPECT_EQ(+one[0], +TestFixture::Stored(total * wide(scale))) << n;
    }
  }
}

/// Notes where ranges begin.
struct NotedRanges : expr::Exp<NotedRanges, float> {
  using value_type = float;
  using device_type = cpu;
  static constexpr int kRank = 1;
  static constexpr bool kHasPacket = false;

  index_t extent;
  std::mutex* mutex;
  std::vector<index_t>* begins;

  NotedRanges(index_t n, std::mutex* guard, std::vector<index_t>* found)
      : extent(n), mutex(guard), begins(found) {}
  Shape<1> shape() const { return Shape1(extent); }
  float Eval(index_t, index_t) const { return 0; }
  bool IsFlat() const { return true; }
  void EvalRow(index_t, index_t begin, index_t, float*) const {
    const std::lock_guard<std::mutex> lock(*mutex);
    begins->push_back(begin);
  }
};

TEST(EvaluateTest, NoTwoTasksWriteOneLine) {
  const index_t length = 3 * ElementsPerTask() + 5;
  std::vector<float> memory(static_cast<size_t>(length + 16));
  for (index_t offset = 0; offset < 16; ++offset) {
    const Tensor<cpu, 1, float> dst(memory.data() + offset, Shape1(length));
    std::mutex mutex;
    std::vector<index_t> begins;
    expr::Evaluate<sv::saveto>(dst, NotedRanges(length, &mutex, &begins));
    EXPECT_EQ(begins.size(), 4u);
    for (const index_t begin : begins) {
      if (begin == 0) continue;
      EXPECT_EQ(reinterpret_cast<uintptr_t>(dst.dptr_ + begin) % 64, 0u) << begin;
    }
  }
}

}  // namespace
}  // namespace tessera
