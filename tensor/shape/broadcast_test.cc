#include "tessera/tensor/shape/broadcast.h"

#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/reduce/reduce.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;

static_assert(
    std::is_trivially_copyable_v<decltype(broadcast<1>(Tensor<cpu, 1, float>(), Shape3(1, 1, 1)))>);

// Compares broadcast<kAxis> with the index that the flat position has along that axis.
template <int kAxis, typename T, int N>
void ExpectBroadcast(const Shape<N>& shape) {
  const std::vector<T> values = RandomValues<T>(shape[kAxis], 1, 100, kAxis);
  GuardedTensor<1, T> vector(Shape1(shape[kAxis]), values);
  GuardedTensor<N, T> out(shape, GuardedLayout{.row_padding = 1});
  *out = broadcast<kAxis>(*vector, shape) + T(1);
  const index_t inner = shape.ProdShape(kAxis + 1, N);
  std::vector<T> expected;
  for (index_t i = 0; i < shape.Size(); ++i) {
    expected.push_back(
        static_cast<T>(values[static_cast<size_t>(i / inner % shape[kAxis])] + T(1)));
  }
  ExpectSameValues(out.values(), expected, "axis " + std::to_string(kAxis));
  EXPECT_TRUE(out.GuardsIntact());
}

template <typename T>
class BroadcastTest : public testing::Test {};
using ElementTypes = TestedTypes<float, half_t, uint8_t>;
TYPED_TEST_SUITE(BroadcastTest, ElementTypes);

TYPED_TEST(BroadcastTest, SpreadsAVectorAlongAnyAxis) {
  using T = TypeParam;
  ExpectBroadcast<0, T>(Shape1(9));
  for (const index_t width : {0, 1, 3, 4, 5, 8, 17, 33}) {
    ExpectBroadcast<0, T>(Shape2(3, width));
    ExpectBroadcast<1, T>(Shape2(3, width));
    ExpectBroadcast<1, T>(Shape4(2, 3, 4, width));
    ExpectBroadcast<3, T>(Shape4(2, 3, 4, width));
    // The first and the last axis but one are as the second to the loops, whatever the type.
    if constexpr (std::is_same_v<T, float>) {
      ExpectBroadcast<0, T>(Shape4(2, 3, 4, width));
      ExpectBroadcast<2, T>(Shape4(2, 3, 4, width));
    }
  }
  ExpectBroadcast<1, T>(Shape4(0, 3, 4, 5));
  ExpectBroadcast<1, T>(Shape4(2, 0, 4, 5));
  ExpectBroadcast<1, T>(Shape4(2, 3, 0, 5));
}

TYPED_TEST(BroadcastTest, RepmatRepeatsRows) {
  using T = TypeParam;
  const std::vector<T> values = RandomValues<T>(5, 1, 100);
  GuardedTensor<1, T> vector(Shape1(5), values);
  GuardedTensor<2, T> out(Shape2(3, 5));
  *out = repmat(*vector, 3);
  std::vector<T> expected;
  for (int i = 0; i < 3; ++i) expected.insert(expected.end(), values.begin(), values.end());
  ExpectSameValues(out.values(), expected);
}

TEST(BroadcastTest, TakesWhatIsComputedAsAWhole) {
  GuardedTensor<2, float> m(Shape2(2, 3), std::vector<float>{1, 2, 3, 4, 5, 6});
  GuardedTensor<2, float> out(Shape2(2, 3));
  *out = repmat(sum_rows(*m), 2);
  EXPECT_EQ(out.values(), (std::vector<float>{5, 7, 9, 5, 7, 9}));
  *out = broadcast<0>(sumall_except_dim<0>(*m), out->shape_) - *m;
  EXPECT_EQ(out.values(), (std::vector<float>{5, 4, 3, 11, 10, 9}));
}

TEST(BroadcastErrorTest, VectorsThatDoNotFitAreRefused) {
  GuardedTensor<1, float> vector(Shape1(3));
  ExpectError([&] { broadcast<0>(*vector, Shape2(4, 3)); }, kInvalidArgument,
              {"broadcast<0>", "(3,)", "dimension 0", "(4,3)"});
  GuardedTensor<2, float> out(Shape2(4, 3));
  ExpectError([&] { *out += repmat(*vector, 5); }, kInvalidArgument, {"(5,3)", "(4,3)"});
}

}  // namespace
}  // namespace tessera
