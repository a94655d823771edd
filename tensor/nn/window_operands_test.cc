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
template <typename Operand, typename Windows>
void ExpectAsStored(const Operand& operand, const Windows& windows, const std::string& what) {
  GuardedTensor<Operand::kRank, float> stored(operand.shape());
  *stored = operand;
  const auto over_stored = windows(*stored);
  constexpr int kRank = decltype(over_stored)::kRank;
  GuardedTensor<kRank, float> expected(over_stored.shape()), out(over_stored.shape());
  *expected = over_stored;
  ASSERT_EQ(windows(operand).shape(), over_stored.shape()) << what;
  *out = windows(operand);
  ExpectSameValues(out.values(), expected.values(), what);
  *out += windows(operand) - 1;  // inside another expression
  *expected += over_stored - 1;
  ExpectSameValues(out.values(), expected.values(), what + ", as an operand");
  EXPECT_TRUE(out.GuardsIntact()) << what;
}

/// Whole and small numbers, so that their order does not matter.
template <int N>
struct Operands {
  explicit Operands(const Shape<N>& given)
      : shape(given),
        x(given, GuardedLayout{.row_padding = 1}),
        a(Shape2(given[0], 7), {}, 1),
        b(Shape2(7, given.Size() / given[0]), {}, 2) {}

  Shape<N> shape;
  Sample<N, float> x;
  Sample<2, float> a, b;
};

/// Expects what ExpectAsStored does over a product and over a reduction inside an expression.
template <int N, typename Windows>
void ExpectAsStoredOverBoth(const Shape<N>& shape, const Windows& windows,
                            const std::string& what) {
  Operands<N> o(shape);
  ExpectAsStored(reshape(dot(*o.a, *o.b), shape), windows, what + " of a product");
  ExpectAsStored(*o.x - minimum<N - 1>(*o.x).spread(), windows, what + " beside rows' minima");
}

constexpr PoolGeometry kPool{
    .kernel_y = 3, .kernel_x = 2, .stride_y = 2, .stride_x = 1, .pad_y = 1, .pad_x = 1};

TEST(WindowOperandsTest, EveryOperandThatIsComputedFirstGivesTheSame) {
  Operands<4> o(Shape4(2, 3, 7, 17));
  const auto product = dot(*o.a, *o.b);
  const auto expect = [](const auto& operand, const std::string& what) {
    ExpectAsStored(
        operand, [](const auto& e) { return pool<PoolKind::kMax>(e, 4, 18, kPool); },
        "maximum " + what);
  };
  expect(reshape(product, o.shape), "of a product");
  expect(*o.x + reshape(product, o.shape), "of a sum with a product");
  expect(*o.x - sum(*o.x), "beside a sum");
  expect(*o.x * maximum(*o.x), "beside a maximum");
  expect(*o.x - minimum<3>(*o.x).spread(), "beside rows' minima");
  expect(sum<0>(*o.x).spread() - *o.x, "beside sums across rows");
}

TEST(WindowOperandsTest, PoolingGivesTheSame) {
  const Shape<4> shape = Shape4(2, 3, 7, 17);
  ExpectAsStoredOverBoth(
      shape, [](const auto& e) { return pool<PoolKind::kSum>(e, 4, 18, kPool); }, "sum");
  ExpectAsStoredOverBoth(
      shape, [](const auto& e) { return pool<red::maximum>(e, 3, 2, 2, 1); }, "window maximum");
  ExpectAsStoredOverBoth(
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

TEST(WindowOperandsTest, AFunctionIsComputedOncePerElement) {
  const Shape<4> shape = Shape4(2, 3, 7, 17);
  Sample<4, float> x(shape);
  const auto calls_of = [](const auto& windows) {
    GuardedTensor<std::remove_cvref_t<decltype(windows)>::kRank, float> out(windows.shape());
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
  GuardedTensor<1, float> bias(Shape1(3));
  *bias = 1.0f;
  const auto biased = F<Counted>(*x + broadcast<1>(*bias, shape));
  EXPECT_EQ(calls_of(pool<PoolKind::kMax>(biased, 4, 18, kPool)), shape.Size());
  EXPECT_EQ(calls_of(pool<red::sum>(biased, 3, 1)), shape.Size());
  EXPECT_EQ(calls_of(chpool<red::sum>(pool<red::sum>(counted, 3, 1), 2)), shape.Size());
  EXPECT_EQ(calls_of(pool<red::sum>(reshape(counted, Shape3(6, 7, 17)), 3, 1)), shape.Size());
}

TEST(WindowOperandsTest, UnpackingGivesTheSame) {
  const PatchGeometry g{.kernel_y = 3, .kernel_x = 2, .stride_x = 2, .pad_y = 1};
  ExpectAsStoredOverBoth(
      Shape4(2, 3, 7, 17), [](const auto& e) { return unpack_patch2col(e, 3, 2, 1, 2, 1, 1); },
      "unpacked");
  ExpectAsStoredOverBoth(
      Shape3(3, 7, 17), [&](const auto& e) { return unpack_patch2col(e, g); }, "unpacked, padded");
}

TEST(WindowOperandsTest, PackingGivesTheSame) {
  const PatchGeometry g{.kernel_y = 3, .kernel_x = 2, .stride_x = 2, .pad_y = 1};
  ExpectAsStoredOverBoth(
      Shape2(18, 2 * 5 * 8),
      [](const auto& e) { return pack_col2patch(e, Shape4(2, 3, 7, 17), 3, 2, 1, 2, 1, 1); },
      "packed");
  ExpectAsStoredOverBoth(
      Shape2(18, 7 * 8), [&](const auto& e) { return pack_col2patch(e, Shape3(3, 7, 17), g); },
      "packed, padded");
}

// A window reads what the statement before has not yet written where one pass runs both.
TEST(WindowOperandsTest, PoolingWhatAFuseComputesComesAfterIt) {
  const Shape<4> shape = Shape4(2, 3, 7, 17);
  const PoolGeometry same{.kernel_y = 3, .kernel_x = 3, .pad_y = 1, .pad_x = 1};
  Sample<4, float> x(shape), doubled(shape), more(shape), kept(shape), pooled(shape),
      expected(shape);
  const auto values = [](auto& tensor) {
    return std::vector<float>(tensor->dptr_, tensor->dptr_ + tensor.shape().Size());
  };
  *kept = *x * 2;
  *expected = pool<PoolKind::kSum>(*kept, 7, 17, same);
  Fuse(Lazy(*doubled) = *x * 2, Lazy(*pooled) = pool<PoolKind::kSum>(*doubled, 7, 17, same));
  ExpectSameValues(values(pooled), values(expected), "assigned");
  kept.Restore();
  *pooled = 0.0f;
  Fuse(Lazy(*more) = Store(*kept, *x * 2) + 1,
       Lazy(*pooled) = pool<PoolKind::kSum>(*kept, 7, 17, same));
  ExpectSameValues(values(pooled), values(expected), "stored");
  *expected = pool<PoolKind::kSum>(*x * 2 + 1, 7, 17, same);
  Fuse(Lazy(*doubled) = *x * 2, Lazy(*pooled) = pool<PoolKind::kSum>(*doubled + 1, 7, 17, same));
  ExpectSameValues(values(pooled), values(expected), "of a function");
}

}  // namespace
}  // namespace tessera
