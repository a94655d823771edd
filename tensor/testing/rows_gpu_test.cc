// Rows chosen by number: the GPU against the CPU.
#include <cstdint>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/device_agreement.h"

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

}  // namespace
}  // namespace tessera
