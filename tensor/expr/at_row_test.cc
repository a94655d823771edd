#include "tessera/tensor/expr/at_row.h"

#include <cstdint>
#include <type_traits>
#include <utility>

#include "gtest/gtest.h"
#include "tessera/tensor/dense/store.h"
#include "tessera/tensor/dense/view.h"
#include "tessera/tensor/expr/elementwise.h"
#include "tessera/tensor/shape/broadcast.h"
#include "tessera/tensor/shape/slice.h"
#include "tessera/tensor/shape/transpose.h"
#include "tessera/tensor/testing/node_test_util.h"

namespace tessera {
namespace {

using expr::AtRow;
using expr::HasAtRow;
using expr::RowLoopOf;
using tensor_internal::PacketTraits;

template <typename E>
using AtRowOf = decltype(AtRow(std::declval<const E&>(), 0));

using Matrix = Tensor<cpu, 2>;
using Vector = Tensor<cpu, 1>;
using OfColumn = decltype(broadcast<0>(Vector(), Shape<2>()));
using OfRow = decltype(broadcast<1>(Vector(), Shape<2>()));
using Stretched = decltype(broadcast_to(Matrix(), Shape<2>()));

// A number for each row, and for what it stands beside an address.
static_assert(std::is_same_v<AtRowOf<OfColumn>, expr::ScalarExp<float>>);
static_assert(std::is_same_v<AtRowOf<decltype(Matrix() * broadcast<0>(Vector(), Shape<2>()))>,
                             decltype(expr::BlockExp<float>(nullptr) * 1.0f)>);
static_assert(std::is_same_v<AtRowOf<OfRow>,
                             expr::MappedRowExp<expr::BlockExp<float>, expr::MappedRows::kWhole>>);
static_assert(!HasAtRow<decltype(Matrix() * 2.0f)>);
static_assert(!HasAtRow<decltype(Store(Matrix(), Matrix() * broadcast<0>(Vector(), Shape<2>())))>);

// What the loop is does not depend on it: of an element that is repeated packets can be made.
template <typename E>
constexpr bool RunsTheSameLoop() {
  using Bound = AtRowOf<E>;
  using T = typename E::value_type;
  return RowLoopOf<sv::saveto, T, E>() == RowLoopOf<sv::saveto, T, Bound>() &&
         expr::HasAvx2Loop<sv::saveto, T, E>() == expr::HasAvx2Loop<sv::saveto, T, Bound>();
}
static_assert(RunsTheSameLoop<OfColumn>());
static_assert(RunsTheSameLoop<decltype(broadcast_to(Matrix(), Shape<2>()) * 2.0f)>());
static_assert(
    RunsTheSameLoop<decltype(broadcast<0>(tcast<float>(Tensor<cpu, 1, int32_t>()), Shape<2>()))>());
static_assert(
    RunsTheSameLoop<decltype(broadcast_to(tcast<float>(Tensor<cpu, 2, int32_t>()), Shape<2>()) *
                             2.0f)>());
static_assert(RunsTheSameLoop<decltype(swapaxis<0, 1>(Matrix()) * 2.0f)>());
static_assert(RunsTheSameLoop<decltype(mirror(Matrix()) * 2.0f)>());
static_assert(RunsTheSameLoop<decltype(mirror(Tensor<cpu, 2, int32_t>()) * 2)>());
static_assert(expr::HasAvx2Packet<Stretched>());

template <typename E>
void ExpectRows(const E& e) {
  const Shape<2> shape = e.shape().FlatTo2D();
  for (index_t y = 0; y < shape[0]; ++y) {
    const auto row = AtRow(e, y);
    for (index_t x = 0; x < shape[1]; ++x) ASSERT_EQ(row.Eval(y, x), e.Eval(y, x)) << y << ' ' << x;
    if constexpr (E::kHasPacket) {
      using T = typename E::value_type;
      using P = typename PacketTraits<T>::type;
      T packet[PacketTraits<T>::kSize];
      for (index_t x = 0; x + PacketTraits<T>::kSize <= shape[1]; ++x) {
        pk::pstoreu(packet, row.template EvalPacket<P>(y, x));
        for (const T& element : packet) ASSERT_EQ(element, e.Eval(y, x + (&element - packet)));
      }
    }
  }
}

template <typename T>
class AtRowTest : public testing::Test {};
TYPED_TEST_SUITE(AtRowTest, NodeElementTypes);

TYPED_TEST(AtRowTest, HasTheRowsElements) {
  using T = TypeParam;
  const Shape<3> shape = Shape3(3, 5, 9);
  for (const GuardedLayout& layout : OperandLayouts()) {
    Sample<3, T> a(shape, layout), planes(Shape3(3, 1, 1), layout, 1),
        rows(Shape3(3, 1, 9), layout, 2);
    Sample<2, T> matrix(Shape2(3, 9), layout, 3), wide(Shape2(15, 20), layout, 4);
    Sample<1, T> v0(Shape1(3), layout, 5), v1(Shape1(5), layout, 6), v2(Shape1(9), layout, 7);
    ExpectRows(*a + broadcast<0>(*v0, shape));
    ExpectRows(*a + broadcast<1>(*v1 + T(1), shape));
    ExpectRows(*a + broadcast<2>(*v2, shape));
    ExpectRows(broadcast_to(*planes, shape) * *a);
    ExpectRows(broadcast_to(*rows + T(2), shape) * T(2));
    ExpectRows(broadcast_to(broadcast<0>(*v0, Shape3(3, 1, 9)), shape));
    ExpectRows(*a + broadcast_with_axis(*matrix, 0, 5));
    ExpectRows(broadcast_with_axis(*matrix, 1, 5) * T(2));
    ExpectRows(slice<1>(*wide, 3, 12) + T(1));
    ExpectRows(swapaxis<0, 1>(*a) + T(1));
    ExpectRows(mirror(*a) + T(1));
    ExpectRows(flip(*a, 1) + T(1));
    ExpectRows(slice(*wide, Shape2(1, 0), wide.shape(), Shape2(2, 2)) + T(1));
    ExpectRows(flip(broadcast<0>(*v1, Shape2(5, 9)), 1) +
               View(*wide, Range(0, 10, 2), Range(0, 9)));
  }
}

// Of an expression that runs in blocks the part around the costly functions is bound.
TEST(AtRowInBlocksTest, HasTheElementsThatEvalHas) {
  const Shape<3> shape = Shape3(3, 5, 300);
  for (const GuardedLayout& layout : OperandLayouts()) {
    Sample<3, float> a(shape, layout), planes(Shape3(3, 1, 1), layout, 1), out(shape, layout);
    Sample<2, float> rows(Shape2(3, 300), layout, 2);
    Sample<1, float> v(Shape1(5), layout, 3);
    const auto e = tanh(*a * broadcast_to(*planes, shape)) * broadcast<1>(*v, shape) +
                   exp(broadcast_with_axis(*rows, 0, 5) - 1.0f);
    static_assert(RowLoopOf<sv::saveto, float, decltype(e)>() == expr::RowLoop::kSpans);
    *out = e;
    for (index_t y = 0; y < 15; ++y) {
      for (index_t x = 0; x < 300; ++x) ASSERT_EQ(out->Eval(y, x), e.Eval(y, x)) << y << ' ' << x;
    }
  }
}

}  // namespace
}  // namespace tessera
