// Batches of products, dot products of vectors, and reductions of one axis that are evaluated where
// they are used: the GPU against the CPU.
#include <cmath>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/device_agreement.h"

namespace tessera {
namespace {

template <typename T>
class BatchDotGpuTest : public testing::Test {
 protected:
  static constexpr double kTolerance = sizeof(T) == 8 ? 1e-13 : sizeof(T) == 4 ? 1e-5 : 5e-2;

  template <bool kLeft, bool kRight>
  static void ExpectProducts(index_t batch, index_t m, index_t k, index_t n) {
    for (const bool padded : {false, true}) {
      ExpectDevicesAgree(kTolerance, [&](auto* side) {
        const auto a = side->template Numbers<T>(kLeft ? Shape3(batch, k, m) : Shape3(batch, m, k),
                                                 1, -1, 1, padded);
        const auto b = side->template Numbers<T>(kRight ? Shape3(batch, n, k) : Shape3(batch, k, n),
                                                 2, -1, 1, padded);
        auto c = side->template Numbers<T>(Shape3(batch, m, n), 3, -1, 1, padded);
        c += T(0.5) * batch_dot<kLeft, kRight>(a, b);
        c -= batch_dot<kLeft, kRight>(a, b);
        return c;
      });
    }
  }
};
using ProductTypes = testing::Types<float, double, half_t, bfloat16_t>;
TYPED_TEST_SUITE(BatchDotGpuTest, ProductTypes);

TYPED_TEST(BatchDotGpuTest, EveryTranspositionAccumulated) {
  TestFixture::template ExpectProducts<false, false>(3, 33, 50, 20);
  TestFixture::template ExpectProducts<true, false>(3, 33, 50, 20);
  TestFixture::template ExpectProducts<false, true>(3, 33, 50, 20);
  TestFixture::template ExpectProducts<true, true>(3, 33, 50, 20);
}

TYPED_TEST(BatchDotGpuTest, BatchesOfOneAndMatricesWithoutExtent) {
  TestFixture::template ExpectProducts<false, false>(1, 7, 5, 9);
  TestFixture::template ExpectProducts<false, true>(5, 1, 17, 1);
  TestFixture::template ExpectProducts<false, false>(2, 3, 0, 4);
  TestFixture::template ExpectProducts<false, false>(0, 3, 2, 4);
  TestFixture::template ExpectProducts<false, false>(2, 0, 3, 4);
}

TEST(DotGpuTest, MatricesTimesVectors) {
  for (const bool padded : {false, true}) {
    ExpectDevicesAgree(1e-5, [&](auto* side) {
      const auto m = side->template Numbers<float>(Shape2(33, 47), 1, -1, 1, padded);
      const auto v = side->template Numbers<float>(Shape1(47), 2);
      const auto u = side->template Numbers<float>(Shape1(33), 3);
      auto result = side->template Empty<float>(Shape2(33, 47), padded);
      auto products = side->template Empty<float>(Shape1(47));
      products = dot(m.T(), dot(m, v) + u);
      result = dot(u.T(), products);
      return result;
    });
  }
}

// cuBLAS takes that many in several calls.
TEST(BatchGemmGpuTest, SeventyThousandProducts) {
  ExpectDevicesAgree(1e-5, [](auto* side) {
    const auto a = side->template Numbers<float>(Shape3(70001, 2, 3), 1, -1, 1, false);
    const auto b = side->template Numbers<float>(Shape3(70001, 2, 3), 2, -1, 1, false);
    auto c = side->template Numbers<float>(Shape3(70001, 2, 2), 3, -1, 1, false);
    BatchGEMM<false, true>(c, a, b, 2.0f, -1.0f);
    return c;
  });
}

TEST(BatchGemmGpuTest, VectorDotSumsProducts) {
  for (const index_t length : {1, 33, 10000}) {
    ExpectDevicesAgree(1e-6 * std::sqrt(static_cast<double>(length)), [&](auto* side) {
      const auto a = side->template Numbers<float>(Shape1(length), 1);
      const auto b = side->template Numbers<float>(Shape1(length), 2);
      auto out = side->template Empty<float>(Shape1(1));
      VectorDot(out, a, b);
      return out;
    });
  }
}

TEST(ReduceWithAxisGpuTest, ResultsAreComputedWhereTheyAreUsed) {
  ExpectDevicesAgree(1e-5, [](auto* side) {
    const auto x = side->template Numbers<float>(Shape3(4, 33, 7), 1);
    return ValueOf(side, reduce_keepdim<red::sum, false>(x * 2.0f, 1));
  });
  ExpectDevicesAgree(0, [](auto* side) {
    const auto x = side->template Numbers<float>(Shape2(9, 33), 1);
    return ValueOf(side, reduce_with_axis<red::maximum, true>(x, 1));
  });
  ExpectDevicesAgree(1e-5, [](auto* side) {
    const auto a = side->template Numbers<float>(Shape2(9, 33), 1);
    const auto b = side->template Numbers<float>(Shape2(33, 5), 2);
    return ValueOf(side, implicit_dot(a, b));
  });
}

}  // namespace
}  // namespace tessera
