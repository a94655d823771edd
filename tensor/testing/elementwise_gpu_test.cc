// Element-wise expressions, broadcasts and reductions: the GPU against the CPU.
#include <cmath>
#include <cstdint>
#include <limits>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/device_agreement.h"

namespace tessera {
namespace {

template <typename T>
class ElementwiseGpuTest : public testing::Test {
 protected:
  // Of the type's own rounding.
  static constexpr double kTolerance = sizeof(T) == 8 ? 1e-14 : sizeof(T) == 4 ? 1e-6 : 1e-2;
};
using Types = testing::Types<float, double, half_t, bfloat16_t>;
TYPED_TEST_SUITE(ElementwiseGpuTest, Types);

TYPED_TEST(ElementwiseGpuTest, ChainsOverPaddedRows) {
  using T = TypeParam;
  for (const index_t columns : {1, 2, 7, 32, 129, 1000}) {
    ExpectDevicesAgree(this->kTolerance, [&](auto* side) {
      const Shape<2> shape = Shape2(17, columns);
      auto a = side->template Numbers<T>(shape, 1), b = side->template Numbers<T>(shape, 2);
      auto c = side->template Numbers<T>(shape, 3, 0.5, 2);
      a += T(0.5) * b * c - a / c;
      return a;
    });
  }
}

TYPED_TEST(ElementwiseGpuTest, ContiguousOnesOfOneRun) {
  using T = TypeParam;
  for (const index_t size : {1, 3, 4, 1023, 100003}) {
    ExpectDevicesAgree(this->kTolerance, [&](auto* side) {
      auto a = side->template Numbers<T>(Shape1(size), 1, -1, 1, false);
      auto b = side->template Numbers<T>(Shape1(size), 2, -1, 1, false);
      a = a * b + T(1);
      return a;
    });
  }
}

TYPED_TEST(ElementwiseGpuTest, BroadcastAlongEitherAxis) {
  using T = TypeParam;
  ExpectDevicesAgree(this->kTolerance, [](auto* side) {
    auto m = side->template Numbers<T>(Shape2(9, 31), 1);
    auto row = side->template Numbers<T>(Shape1(31), 2);
    auto column = side->template Numbers<T>(Shape1(9), 3);
    m += broadcast<1>(row, m.shape_) * broadcast<0>(column, m.shape_);
    return m;
  });
}

TYPED_TEST(ElementwiseGpuTest, SumsOfRowsAndColumns) {
  using T = TypeParam;
  // The last two are reduced in pieces.
  for (const Shape<2> shape : {Shape2(1, 1), Shape2(300, 5), Shape2(7, 4097), Shape2(64, 64),
                               Shape2(3, 40001), Shape2(9000, 8)}) {
    // Sums round once for each element, in another order.
    const double tolerance = 4 * this->kTolerance * std::sqrt(static_cast<double>(shape.Size()));
    ExpectDevicesAgree(tolerance, [&](auto* side) {
      auto m = side->template Numbers<T>(shape, 1);
      auto sums = side->template Empty<T>(Shape1(shape[1]));
      sums = sum_rows(m);
      return sums;
    });
    ExpectDevicesAgree(tolerance, [&](auto* side) {
      auto m = side->template Numbers<T>(shape, 1);
      auto sums = side->template Empty<T>(Shape1(shape[0]));
      sums = sumall_except_dim<0>(m);
      return sums;
    });
  }
}

// Kept in the middle, and of rows with gaps or without; scaled, and combined with what there is.
TYPED_TEST(ElementwiseGpuTest, SumsOverAllButOneDimension) {
  using T = TypeParam;
  for (const Shape<4> shape : {Shape4(3, 5, 7, 8), Shape4(1, 4, 9, 33), Shape4(300, 4, 1, 1)}) {
    const double tolerance = 8 * this->kTolerance * std::sqrt(static_cast<double>(shape.Size()));
    for (const bool padded : {false, true}) {
      ExpectDevicesAgree(tolerance, [&](auto* side) {
        const auto x = side->template Numbers<T>(shape, 1, -1, 1, padded);
        auto sums = side->template Numbers<T>(Shape1(shape[1]), 2);
        sums += T(2) * sumall_except_dim<1>(x * x);
        return sums;
      });
      ExpectDevicesAgree(0, [&](auto* side) {
        const auto x = side->template Numbers<T>(shape, 1, -1, 1, padded);
        auto greatest = side->template Empty<T>(Shape1(shape[0]));
        greatest = reduce_except_dim<0, red::maximum>(x);
        return greatest;
      });
    }
  }
}

TYPED_TEST(ElementwiseGpuTest, ReductionsAlongEachAxisInsideExpressions) {
  using T = TypeParam;
  // Sums round once for each element, in another order.
  ExpectDevicesAgree(4 * this->kTolerance * std::sqrt(40.0), [](auto* side) {
    auto x = side->template Numbers<T>(Shape3(6, 40, 33), 1);
    x -= mean<0>(x).spread();
    x -= mean<1>(x).spread();
    x -= maximum<2>(x).spread();
    return x;
  });
}

// Divided by 0 and by -1, of which processors trap or leave the result undefined.
TEST(IntegersGpuTest, EveryQuotientIsDefined) {
  ExpectDevicesAgree(0, [](auto* side) {
    auto a = side->template Numbers<int32_t>(Shape2(33, 47), 1, -9, 9);
    const auto b = side->template Numbers<int32_t>(Shape2(33, 47), 2, -3, 3);
    a = a / b * 1000 + mod(a, b) * 10 + ((a & b) | 1);
    a[0] = std::numeric_limits<int32_t>::lowest();
    a[0] /= -1;
    return a;
  });
}

TEST(FunctionsGpuTest, FunctionsOfTwoOperands) {
  ExpectDevicesAgree(1e-5, [](auto* side) {
    auto a = side->template Numbers<float>(Shape2(33, 47), 1);
    const auto b = side->template Numbers<float>(Shape2(33, 47), 2);
    a = hypot(a, b) + 2 * atan2(a, b) - mod(3.0f, b + 3) * ((a > 0) & (b > 0));
    return a;
  });
}

// The sample of docs/tensor.md.
TEST(DocsGpuTest, WhatRunsOnAGpu) {
  TensorContainer<cpu, 2> host(Shape2(300, 41), 2.0f);
  host[7][0] = 3.0f;

  Stream<gpu>* const stream = NewStream<gpu>();
  TensorContainer<gpu, 2> x(host.shape_, 0.0f, /*pad=*/false, stream), y = x;
  Copy(x, host);                        // done when it returns
  y = exp(x - maximum<1>(x).spread());  // goes to y's stream, and returns at once
  const float total = sum(y);           // a number: waits for the stream
  Copy(host, y);
  DeleteStream(stream);

  EXPECT_EQ(host[8][1], 1.0f);
  EXPECT_NEAR(host[7][1], std::exp(-1.0), 1e-6);
  EXPECT_NEAR(total, 299 * 41 + 1 + 40 * std::exp(-1.0), 0.01);
}

}  // namespace
}  // namespace tessera
