#include "tessera/tensor/shape/reshape.h"

#include <algorithm>
#include <type_traits>

#include "gtest/gtest.h"
#include "tessera/tensor/linalg/dot.h"
#include "tessera/tensor/reduce/reductions.h"
#include "tessera/tensor/shape/slice.h"
#include "tessera/tensor/shape/transpose.h"
#include "tessera/tensor/testing/node_test_util.h"

namespace tessera {
namespace {

static_assert(std::is_trivially_copyable_v<decltype(reshape(Tensor<cpu, 3>(), Shape1(1)))>);

// A number, plain or computed, has no shape to begin with.
template <typename E>
concept CanReshape = requires(const E& e) {
  reshape(e, Shape1(1));
};
static_assert(CanReshape<Tensor<cpu, 3>>);
static_assert(!CanReshape<float> && !CanReshape<decltype(2 * sum(Tensor<cpu, 3>()))>);

template <int N>
index_t FlatIndex(const Shape<N>& shape, const Shape<N>& index) {
  index_t flat = 0;
  for (int i = 0; i < N; ++i) flat = flat * shape[i] + index[i];
  return flat;
}
template <int N>
Shape<N> IndexOf(const Shape<N>& shape, index_t flat) {
  Shape<N> index;
  for (int i = N - 1; i >= 0; --i) {
    index[i] = flat % shape[i];
    flat /= shape[i];
  }
  return index;
}

template <typename T>
class ReshapeTest : public testing::Test {};
TYPED_TEST_SUITE(ReshapeTest, NodeElementTypes);

template <typename T, int N, int M>
void ExpectReshaped(const Shape<N>& shape, const Shape<M>& target) {
  for (const GuardedLayout& layout : OperandLayouts()) {
    Sample<N, T> a(shape, layout);
    ExpectElements<M>(
        reshape(*a, target), target,
        [&](const Shape<M>& index) { return a.at(IndexOf(shape, FlatIndex(target, index))); },
        "reshape");
  }
}

TYPED_TEST(ReshapeTest, KeepsRowMajorOrder) {
  using T = TypeParam;
  ExpectReshaped<T>(Shape2(4, 9), Shape3(3, 2, 6));
  if constexpr (std::is_same_v<T, float>) {
    ExpectReshaped<T>(Shape2(6, 35), Shape2(10, 21));
    ExpectReshaped<T>(Shape2(6, 35), Shape2(6, 35));
    ExpectReshaped<T>(Shape4(2, 3, 5, 7), Shape1(210));
    ExpectReshaped<T>(Shape1(210), Shape5(2, 3, 5, 7, 1));
    ExpectReshaped<T>(Shape3(2, 3, 1), Shape2(1, 6));
    ExpectReshaped<T>(Shape2(0, 3), Shape3(5, 0, 2));
    ExpectReshaped<T>(Shape1(1), Shape1(1));
  }
}

// The chain in which a convolution's product becomes an image.
TEST(ReshapeOfExpressionsTest, InsideAndOutsideOtherNodes) {
  for (const GuardedLayout& layout : OperandLayouts()) {
    Sample<2, float> product(Shape2(3, 2 * 4 * 5), layout);
    ExpectElements<4>(
        swapaxis<1, 0>(reshape(*product, Shape4(3, 2, 4, 5))), Shape4(2, 3, 4, 5),
        [&](const Shape<4>& i) { return product.at(Shape2(i[1], (i[0] * 4 + i[2]) * 5 + i[3])); },
        "swapped");
    ExpectElements<1>(
        reshape(slice<1>(*product, 1, 40), Shape1(117)), Shape1(117),
        [&](const Shape<1>& i) { return product.at(Shape2(i[0] / 39, i[0] % 39 + 1)); }, "slice");
    ExpectElements<2>(
        reshape(swapaxis<1, 0>(*product), Shape2(12, 10)), Shape2(12, 10),
        [&](const Shape<2>& i) {
          const index_t flat = i[0] * 10 + i[1];
          return product.at(Shape2(flat % 3, flat / 3));
        },
        "of a transposed matrix");
  }
}

TEST(ReshapeOfExpressionsTest, ReductionsAndProductsAreMaterialized) {
  const GuardedLayout padded{.row_padding = 3};
  Sample<2, float> m(Shape2(4, 6), padded), less(Shape2(3, 8));
  double largest = m.at(Shape2(0, 0));
  ForEachIndex(m.shape(), [&](const Shape<2>& i) { largest = std::max(largest, m.at(i)); });
  *less = reshape(*m - maximum(*m), Shape2(3, 8));
  less.Expect(
      [&](const Shape<2>& i) {
        const index_t at = i[0] * 8 + i[1];
        return m.at(Shape2(at / 6, at % 6)) - largest;
      },
      "less the largest");
  Sample<2, float> column(Shape2(4, 1)), product(Shape2(2, 8));
  *column = reshape(sum<1>(*m), Shape2(4, 1));
  column.Expect(
      [&](const Shape<2>& i) {
        double row = 0;
        for (index_t x = 0; x < 6; ++x) row += m.at(Shape2(i[0], x));
        return row;
      },
      "a column of sums");
  *product = reshape(dot(*m, m->T()), Shape2(2, 8));
  product.Expect(
      [&](const Shape<2>& i) {
        const index_t at = i[0] * 8 + i[1];
        double element = 0;
        for (index_t x = 0; x < 6; ++x)
          element += m.at(Shape2(at / 4, x)) * m.at(Shape2(at % 4, x));
        return element;
      },
      "of a product");
}

TEST(ReshapeErrorTest, TheNumberOfElementsMustStay) {
  GuardedTensor<2, float> a(Shape2(3, 5));
  ExpectError([&] { reshape(*a, Shape3(2, 2, 4)); }, Error::kInvalidArgument,
              {"reshape", "(3,5)", "15", "(2,2,4)", "16"});
  ExpectError([&] { reshape(*a, Shape2(-3, -5)); }, Error::kInvalidArgument,
              {"reshape", "(-3,-5)"});
}

}  // namespace
}  // namespace tessera
