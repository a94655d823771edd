// Rows chosen by number, sorts, softmax and batches of products: the GPU against the CPU.
#include <cmath>
#include <cstdint>

#include "tessera/tensor/device_agreement.h"

namespace tessera {
namespace {

/// The same of make(matrix, index), with an index for each of the matrix's rows; some of the
/// indices are no row or column.
template <typename I, typename Make>
void ExpectSameByIndex(const Make& make) {
  ExpectDevicesAgree(0, [&](auto* side) {
    const auto matrix = side->template Numbers<float>(Shape2(19, 13), 1);
    const auto index = side->template Numbers<I>(Shape1(19), 2, -3, 22);
    return ValueOf(side, make(matrix, index));
  });
}

template <typename I>
void ExpectRowsByIndex() {
  ExpectSameByIndex<I>([](const auto& m, const auto& index) { return take(index, m); });
  ExpectSameByIndex<I>([](const auto& m, const auto& index) { return take_grad(index, m, 7); });
  ExpectSameByIndex<I>([](const auto&, const auto& index) { return one_hot_encode(index, 13); });
  ExpectSameByIndex<I>(
      [](const auto& m, const auto& index) { return mat_choose_row_element(m, index); });
  ExpectSameByIndex<I>([](const auto& m, const auto& index) {
    return mat_fill_row_element(m, tcast<float>(index), index);
  });
  ExpectSameByIndex<I>([](const auto& m, const auto& index) { return mask(index, m); });
}

TEST(RowsGpuTest, ChosenByNumbersOfAnyType) {
  ExpectRowsByIndex<int32_t>();
  ExpectRowsByIndex<float>();
}

// 16-bit gradients add up in float on either device.
TEST(RowsGpuTest, GradientsOfSixteenBits) {
  ExpectDevicesAgree(0, [](auto* side) {
    const auto gradient = side->template Numbers<half_t>(Shape2(200, 13), 1);
    const auto index = side->template Numbers<int32_t>(Shape1(200), 2, 0, 7);
    return ValueOf(side, take_grad(index, gradient, 7));
  });
}

/// The same of what scatter(dst, index, src) leaves in dst.
template <typename Scatter>
void ExpectSameScattered(const Scatter& scatter) {
  for (const index_t columns : {1, 13, 300}) {
    ExpectDevicesAgree(0, [&](auto* side) {
      auto dst = side->template Numbers<float>(Shape2(7, columns), 1);
      auto index = side->template Numbers<int32_t>(Shape1(40), 2, -3, 10);
      const auto src = side->template Numbers<float>(Shape2(40, columns), 3);
      scatter(side, dst, index, src);
      return dst;
    });
  }
}

TEST(RowsGpuTest, WrittenToPlacesByNumber) {
  ExpectSameScattered(
      [](auto*, auto& dst, auto& index, const auto& src) { AddTakeGrad(dst, index, src); });
  ExpectSameScattered(
      [](auto*, auto& dst, auto& index, const auto& src) { AddTakeGrad<false>(dst, index, src); });
  ExpectSameScattered(
      [](auto*, auto& dst, auto& index, const auto& src) { IndexFill(dst, index, src); });
  ExpectSameScattered([](auto* side, auto& dst, auto& index, const auto& src) {
    auto places = ValueOf(side, range<int32_t>(0, 40));
    SortByKey(index, places);
    AddTakeGradLargeBatch(dst, index, places, src);
  });
}

TEST(SortGpuTest, KeysInOrderAndValuesAlong) {
  for (const bool ascending : {true, false}) {
    for (const bool of_keys : {true, false}) {
      ExpectDevicesAgree(0, [&](auto* side) {
        // Few different keys, so that there are equal ones; 0 becomes NaN.
        const auto whole = side->template Numbers<int32_t>(Shape1(1000), 1, 0, 30);
        auto keys = ValueOf(side, tcast<float>(whole));
        keys = keys / keys * keys;
        auto values = ValueOf(side, range(0.0f, 1000.0f));
        SortByKey(keys, values, ascending);
        return of_keys ? keys : values;
      });
    }
  }
}

TEST(SortGpuTest, ValuesInsideTheirSegments) {
  ExpectDevicesAgree(0, [](auto* side) {
    auto values = side->template Numbers<float>(Shape1(500), 1);
    auto segments = side->template Numbers<int32_t>(Shape1(500), 2, 0, 8);
    VectorizedSort(values, segments);
    return values;
  });
}

template <typename T>
class SoftmaxTypesGpuTest : public testing::Test {
 protected:
  // Of the type's own rounding.
  static constexpr double kTolerance = sizeof(T) == 8 ? 1e-14 : sizeof(T) == 4 ? 1e-6 : 1e-2;
};
using SoftmaxTypes = testing::Types<float, half_t>;
TYPED_TEST_SUITE(SoftmaxTypesGpuTest, SoftmaxTypes);

TYPED_TEST(SoftmaxTypesGpuTest, VectorsMatricesAndImages) {
  using T = TypeParam;
  const double tolerance = this->kTolerance;
  const auto check = [&](const auto& shape) {
    ExpectDevicesAgree(tolerance, [&](auto* side) {
      const auto x = side->template Numbers<T>(shape, 1, -30, 30);
      auto out = side->template Empty<T>(shape);
      Softmax(out, x);
      return out;
    });
  };
  check(Shape1(100));
  check(Shape2(23, 10));
  check(Shape3(5, 10, 33));
}

constexpr int kIgnored = 3;  // a label

TYPED_TEST(SoftmaxTypesGpuTest, GradientsFromLabels) {
  using T = TypeParam;
  const double tolerance = this->kTolerance;
  const auto check = [&](const auto& shape, const auto& label_shape, const auto& gradient) {
    ExpectDevicesAgree(tolerance, [&](auto* side) {
      const auto probability = side->template Numbers<T>(shape, 1, 0, 1);
      const auto label = side->template Numbers<int32_t>(label_shape, 2, -3, 12);
      auto out = side->template Empty<T>(shape);
      gradient(out, probability, label);
      return out;
    });
  };
  const auto check_shapes = [&](const auto& gradient) {
    check(Shape2(23, 10), Shape1(23), gradient);
    check(Shape3(5, 10, 33), Shape2(5, 33), gradient);
  };
  check_shapes([](auto& out, const auto& p, const auto& label) { SoftmaxGrad(out, p, label); });
  check_shapes(
      [](auto& out, const auto& p, const auto& label) { SoftmaxGrad(out, p, label, kIgnored); });
  check_shapes(
      [](auto& out, const auto& p, const auto& label) { SmoothSoftmaxGrad(out, p, label, 0.1); });
  check_shapes([](auto& out, const auto& p, const auto& label) {
    SmoothSoftmaxGrad(out, p, label, kIgnored, 0.1);
  });
}

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

}  // namespace
}  // namespace tessera
