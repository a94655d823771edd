// Rows without packets, computed in blocks, have the elements that the expression's own Eval gives.
#include <cstdint>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/dense/dense.h"
#include "tessera/tensor/dense/store.h"
#include "tessera/tensor/expr/elementwise.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

// Blocks of both kinds of loops, with what they leave, from every offset within a vector.
constexpr index_t kLongest = 4 * expr::kElementBlock + 5;
constexpr index_t kOffsets = 4;

struct SumOfSquares {  // it has no packets
  template <typename T>
  static T Map(T a, T b) {
    return static_cast<T>(a * a + b * b);
  }
};

template <typename T>
class ElementBlocksTest : public testing::Test {
 protected:
  static std::vector<T> Operand(uint64_t stream) {
    return RandomValues<T>(kLongest + kOffsets, 0, 10, stream);
  }
  GuardedTensor<1, T> a{Shape1(kLongest + kOffsets), Operand(1)};
  GuardedTensor<1, T> b{Shape1(kLongest + kOffsets), Operand(2)};
  GuardedTensor<1, float> f{Shape1(kLongest + kOffsets),
                            RandomValues<float>(kLongest + kOffsets, 0, 100)};

  /// Evaluates make(a, b, f) into pieces of r and expects of each element what Saver makes of the
  /// old one and the expression's own Eval.
  template <typename Saver, typename Make>
  void Expect(const char* name, const Make& make) {
    for (index_t offset = 0; offset < kOffsets; ++offset) {
      for (const index_t size : {index_t{1}, expr::kElementBlock - 1, expr::kElementBlock,
                                 2 * expr::kElementBlock, kLongest}) {
        const auto piece = [&](auto& tensor) { return (*tensor).Slice(offset, offset + size); };
        const auto e = expr::AsNode(make(piece(a), piece(b), piece(f)));
        using Value = typename decltype(e)::value_type;
        static_assert(expr::RowLoopOf<Saver, Value, std::remove_cv_t<decltype(e)>>() ==
                      expr::RowLoop::kElements);
        static_assert(expr::FitsBlocks<std::remove_cv_t<decltype(e)>>());
        const auto before = RandomValues<Value>(kLongest + kOffsets, 0, 10, 3);
        GuardedTensor<1, Value> r(Shape1(kLongest + kOffsets), before);
        expr::EvaluateRow<Saver>((*r).dptr_ + offset, e, 0, 0, size);
        for (index_t i = 0; i < kLongest + kOffsets; ++i) {
          Value expected = before[static_cast<size_t>(i)];
          if (i >= offset && i < offset + size) {
            expr::SaveElement<Saver>(&expected, e.Eval(0, i - offset));
          }
          ASSERT_EQ((*r)[i], expected)
              << name << ": element " << i - offset << " of " << size << " from " << offset;
        }
      }
    }
  }
};

using NumberTypes = testing::Types<uint8_t, int8_t, int64_t, bfloat16_t>;
TYPED_TEST_SUITE(ElementBlocksTest, NumberTypes);

#define TESSERA_EXPECT_BLOCKS(Saver, ...)                                              \
  this->template Expect<sv::Saver>(                                                    \
      #__VA_ARGS__, []([[maybe_unused]] const auto& a, [[maybe_unused]] const auto& b, \
                       [[maybe_unused]] const auto& f) { return __VA_ARGS__; })

TYPED_TEST(ElementBlocksTest, Arithmetic) {
  TESSERA_EXPECT_BLOCKS(saveto, a + b);
  TESSERA_EXPECT_BLOCKS(plusto, a * b - a);
  TESSERA_EXPECT_BLOCKS(minusto, a);
  TESSERA_EXPECT_BLOCKS(multo, a + b * a);
  TESSERA_EXPECT_BLOCKS(divto, a + TypeParam(1));
  TESSERA_EXPECT_BLOCKS(saveto, max(a, b));
  TESSERA_EXPECT_BLOCKS(saveto, a < b);
  TESSERA_EXPECT_BLOCKS(saveto, clamp(a, TypeParam(2), TypeParam(7)));
  TESSERA_EXPECT_BLOCKS(saveto, blend(a > b, a, b));
  TESSERA_EXPECT_BLOCKS(saveto, F<SumOfSquares>(a, b));
}

TYPED_TEST(ElementBlocksTest, Conversions) {
  TESSERA_EXPECT_BLOCKS(saveto, tcast<half_t>(f * 0.37f));
  TESSERA_EXPECT_BLOCKS(saveto, tcast<float>(tcast<half_t>(f)) + f);
  if constexpr (sizeof(TypeParam) < 8) {
    TESSERA_EXPECT_BLOCKS(saveto, (tcast<float>(a) - 3.0f) * 0.25f);
    TESSERA_EXPECT_BLOCKS(plusto, tcast<float>(a) + f);
    TESSERA_EXPECT_BLOCKS(saveto, tcast<TypeParam>(f));
  }
  TESSERA_EXPECT_BLOCKS(saveto, tcast<int32_t>(a) * 1000);
  TESSERA_EXPECT_BLOCKS(saveto, tcast<double>(f * 0.1f));
}

TYPED_TEST(ElementBlocksTest, TheDestinationMayBeAnOperand) {
  GuardedTensor<1, TypeParam> r(Shape1(kLongest), RandomValues<TypeParam>(kLongest, 0, 10, 4));
  const std::vector<TypeParam> before = r.values();
  *r = *r * *r + *r;
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(r.values()[i], static_cast<TypeParam>(before[i] * before[i] + before[i]));
  }
  const std::vector<TypeParam> now = r.values();
  (*r).Slice(1, kLongest) = (*r).Slice(0, kLongest - 1) + TypeParam(1);  // through a temporary
  for (size_t i = 1; i < now.size(); ++i) {
    EXPECT_EQ(r.values()[i], static_cast<TypeParam>(now[i - 1] + 1));
  }
}

// A functor that reads what it wrote for an element before.
struct Occurrences {
  static inline int32_t seen[8] = {};
  static int32_t Map(int32_t a) { return seen[a & 7]++; }
};
TEST(ElementBlocksOfFunctorsTest, MayKeepState) {
  GuardedTensor<1, int32_t> x(Shape1(kLongest)), counts(Shape1(kLongest));
  std::vector<int32_t> expected;
  for (index_t i = 0; i < kLongest; ++i) {
    (*x)[i] = static_cast<int32_t>(i % 3);
    expected.push_back(static_cast<int32_t>(i / 3));
  }
  *counts = F<Occurrences>(*x);
  EXPECT_EQ(counts.values(), expected);
}
static_assert(!expr::KeepsNoState<decltype(F<Occurrences>(Tensor<cpu, 1, int32_t>()) + 1)>());
static_assert(expr::KeepsNoState<decltype(tcast<float>(Tensor<cpu, 1, uint8_t>()) * 2.0f)>());

// What is stored on the way may be read by a later element.
static_assert(
    !expr::FitsBlocks<decltype(Store(Tensor<cpu, 1, uint8_t>(), Tensor<cpu, 1, uint8_t>()))>());
// The vectors would be put together number by number.
static_assert(!expr::FitsBlocks<decltype(tcast<float>(Tensor<cpu, 1, int64_t>()))>());
static_assert(!expr::FitsBlocks<decltype(tcast<int64_t>(Tensor<cpu, 1, float>()))>());
// Each sum is rounded by branches.
static_assert(!expr::FitsBlocks<decltype(Tensor<cpu, 1, half_t>() + Tensor<cpu, 1, half_t>())>());

}  // namespace
}  // namespace tessera
