// Windows over operands that have no elements before the loop begins: a product, a reduction
// inside an expression, what another statement of a Fuse computes.
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/dense/store.h"
#include "tessera/tensor/expr/elementwise.h"
#include "tessera/tensor/fuse/fuse.h"
#include "tessera/tensor/linalg/dot.h"
#include "tessera/tensor/nn/channel_pool.h"
#include "tessera/tensor/nn/patch.h"
#include "tessera/tensor/nn/patch_batch.h"
#include "tessera/tensor/nn/pool.h"
#include "tessera/tensor/nn/window_pool.h"
#include "tessera/tensor/reduce/reductions.h"
#include "tessera/tensor/shape/broadcast.h"
#include "tessera/tensor/shape/reshape.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/node_test_util.h"

namespace tessera {
namespace {

/// Expects of windows(operand) what it gives over the operand's values in a tensor.
template <typename T, typename Operand, typename Windows>
void ExpectAsStored(const Operand& operand, const Windows& windows, const std::string& what) {
  GuardedTensor<Operand::kRank, T> stored(operand.shape());
  *stored = operand;
  const auto over_stored = windows(*stored);
  constexpr int kRank = decltype(over_stored)::kRank;
  GuardedTensor<kRank, T> expected(over_stored.shape()), out(over_stored.shape());
  *expected = over_stored;
  ASSERT_EQ(windows(operand).shape(), over_stored.shape()) << what;
  *out = windows(operand);
  ExpectSameValues(out.values(), expected.values(), what);
  *out += windows(operand) - 1;  // inside another expression
  *expected += over_stored - 1;
  ExpectSameValues(out.values(), expected.values(), what + ", as an operand");
  EXPECT_TRUE(out.GuardsIntact()) << what;
}

/// The same over each kind of operand that is materialized. All numbers are whole and small, so
/// that their order does not matter.
template <typename T, int N, typename Windows>
void ExpectAsStoredOverAll(const Shape<N>& shape, const Windows& windows, const std::string& what) {
  const index_t rows = shape[0], columns = shape.Size() / rows;
  Sample<N, T> x(shape, GuardedLayout{.row_padding = 1});
  Sample<2, T> a(Shape2(rows, 7), {}, 1), b(Shape2(7, columns), {}, 2);
  ExpectAsStored<T>(reshape(dot(*a, *b), shape), windows, what + " of a product");
  ExpectAsStored<T>(*x + reshape(dot(*a, *b), shape), windows, what + " of a sum with a product");
  ExpectAsStored<T>(*x - sum(*x), windows, what + " beside a sum");
  ExpectAsStored<T>(*x * maximum(*x), windows, what + " beside a maximum");
  ExpectAsStored<T>(*x - minimum<N - 1>(*x).spread(), windows, what + " beside rows' minima");
  ExpectAsStored<T>(sum<0>(*x).spread() - *x, windows, what + " beside sums across rows");
}

template <typename T>
class WindowOperandsTest : public testing::Test {};
using RealTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(WindowOperandsTest, RealTypes);

constexpr PoolGeometry kPool{
    .kernel_y = 3, .kernel_x = 2, .stride_y = 2, .stride_x = 1, .pad_y = 1, .pad_x = 1};

TYPED_TEST(WindowOperandsTest, PoolingGivesTheSame) {
  using T = TypeParam;
  const Shape<4> shape = Shape4(2, 3, 7, 17);
  ExpectAsStoredOverAll<T>(
      shape, [](const auto& e) { return pool<PoolKind::kMax>(e, 4, 18, kPool); }, "maximum");
  ExpectAsStoredOverAll<T>(
      shape, [](const auto& e) { return pool<PoolKind::kSum>(e, 4, 18, kPool); }, "sum");
  ExpectAsStoredOverAll<T>(
      shape, [](const auto& e) { return pool<red::maximum>(e, 3, 2, 2, 1); }, "window maximum");
  ExpectAsStoredOverAll<T>(
      shape, [](const auto& e) { return chpool<red::sum>(e, 2); }, "channels");
}

/// Counts what it is asked for.
struct Counted {
  static inline index_t calls = 0;
  static constexpr index_t kElementCost = 1;
  template <typename T>
  static T Map(T a) {
    ++calls;
    return a + 1;
  }
};

TYPED_TEST(WindowOperandsTest, AFunctionIsComputedOncePerElement) {
  using T = TypeParam;
  const Shape<4> shape = Shape4(2, 3, 7, 17);
  Sample<4, T> x(shape);
  const auto calls_of = [](const auto& windows) {
    GuardedTensor<std::remove_cvref_t<decltype(windows)>::kRank, T> out(windows.shape());
    Counted::calls = 0;
    *out = windows;
    return Counted::calls;
  };
  const auto counted = F<Counted>(*x);
  EXPECT_EQ(calls_of(pool<PoolKind::kMax>(counted, 4, 18, kPool)), shape.Size());
  EXPECT_EQ(calls_of(pool<red::sum>(counted, 3, 2, 2, 1)), shape.Size());
  EXPECT_EQ(calls_of(chpool<red::sum>(counted, 2)), shape.Size());
  EXPECT_EQ(calls_of(unpack_patch2col(counted, 3, 2, 1, 2, 1, 1)), shape.Size());
  EXPECT_EQ(calls_of(unpack_patch2col(F<Counted>((*x)[1]), PatchGeometry{.kernel_y = 3})),
            shape.Size() / 2);
  // Functions of what is moved, windows of windows, and functions that are moved, too.
  GuardedTensor<1, T> bias(Shape1(3));
  *bias = T(1);
  const auto biased = F<Counted>(*x + broadcast<1>(*bias, shape));
  EXPECT_EQ(calls_of(pool<PoolKind::kMax>(biased, 4, 18, kPool)), shape.Size());
  EXPECT_EQ(calls_of(pool<red::sum>(biased, 3, 1)), shape.Size());
  EXPECT_EQ(calls_of(chpool<red::sum>(pool<red::sum>(counted, 3, 1), 2)), shape.Size());
  EXPECT_EQ(calls_of(pool<red::sum>(reshape(counted, Shape3(6, 7, 17)), 3, 1)), shape.Size());
}

TYPED_TEST(WindowOperandsTest, UnpackingGivesTheSame) {
  using T = TypeParam;
  const PatchGeometry g{.kernel_y = 3, .kernel_x = 2, .stride_x = 2, .pad_y = 1};
  ExpectAsStoredOverAll<T>(
      Shape4(2, 3, 7, 17), [](const auto& e) { return unpack_patch2col(e, 3, 2, 1, 2, 1, 1); },
      "unpacked");
  ExpectAsStoredOverAll<T>(
      Shape3(3, 7, 17), [&](const auto& e) { return unpack_patch2col(e, g); }, "unpacked, padded");
}

TYPED_TEST(WindowOperandsTest, PackingGivesTheSame) {
  using T = TypeParam;
  const PatchGeometry g{.kernel_y = 3, .kernel_x = 2, .stride_x = 2, .pad_y = 1};
  ExpectAsStoredOverAll<T>(
      Shape2(18, 2 * 5 * 8),
      [](const auto& e) { return pack_col2patch(e, Shape4(2, 3, 7, 17), 3, 2, 1, 2, 1, 1); },
      "packed");
  ExpectAsStoredOverAll<T>(
      Shape2(18, 7 * 8), [&](const auto& e) { return pack_col2patch(e, Shape3(3, 7, 17), g); },
      "packed, padded");
}

// A window reads what the statement before has not yet written where one pass runs both.
TYPED_TEST(WindowOperandsTest, PoolingWhatAFuseComputesComesAfterIt) {
  using T = TypeParam;
  const Shape<4> shape = Shape4(2, 3, 7, 17);
  const PoolGeometry same{.kernel_y = 3, .kernel_x = 3, .pad_y = 1, .pad_x = 1};
  Sample<4, T> x(shape), doubled(shape), more(shape), kept(shape), pooled(shape), expected(shape);
  const auto values = [](auto& tensor) {
    return std::vector<T>(tensor->dptr_, tensor->dptr_ + tensor.shape().Size());
  };
  *kept = *x * 2;
  *expected = pool<PoolKind::kSum>(*kept, 7, 17, same);
  Fuse(Lazy(*doubled) = *x * 2, Lazy(*pooled) = pool<PoolKind::kSum>(*doubled, 7, 17, same));
  ExpectSameValues(values(pooled), values(expected), "assigned");
  kept.Restore();
  *pooled = T(0);
  Fuse(Lazy(*more) = Store(*kept, *x * 2) + 1,
       Lazy(*pooled) = pool<PoolKind::kSum>(*kept, 7, 17, same));
  ExpectSameValues(values(pooled), values(expected), "stored");
  *expected = pool<PoolKind::kSum>(*x * 2 + 1, 7, 17, same);
  Fuse(Lazy(*doubled) = *x * 2, Lazy(*pooled) = pool<PoolKind::kSum>(*doubled + 1, 7, 17, same));
  ExpectSameValues(values(pooled), values(expected), "of a function");
}

}  // namespace
}  // namespace tessera
