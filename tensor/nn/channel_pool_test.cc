#include "tessera/tensor/nn/channel_pool.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/node_test_util.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;

static_assert(std::is_trivially_copyable_v<decltype(chpool<red::sum>(Tensor<cpu, 3>(), 1))>);

template <typename Red, typename T>
double Combine(double a, double b) {
  if (std::is_same_v<Red, red::sum>) return a + b;
  return std::is_same_v<Red, red::maximum> ? std::max(a, b) : std::min(a, b);
}

// The reduction of channels [begin, begin + size) at (n, ·, y, x).
template <typename Red, typename T>
double Pooled(const Sample<4, T>& a, Shape<4> index, index_t begin, index_t size) {
  double result = static_cast<double>(Red::template InitialValue<T>());
  for (index_t c = std::max<index_t>(0, begin); c < std::min(begin + size, a.shape()[1]); ++c) {
    index[1] = c;
    result = Combine<Red, T>(result, a.at(index));
  }
  return result;
}

struct Case {
  Shape<4> shape;
  index_t size, stride, pad;
};
std::vector<Case> Cases() {
  return {{Shape4(2, 5, 2, 9), 3, 1, 1},  {Shape4(1, 7, 3, 17), 3, 2, 0},
          {Shape4(2, 4, 1, 3), 4, 1, 0},  {Shape4(1, 6, 2, 5), 2, 3, 2},
          {Shape4(1, 1, 1, 1), 1, 1, 0},  {Shape4(0, 3, 2, 5), 3, 1, 1},
          {Shape4(1, 5, 1, 300), 5, 1, 2}};
}

template <typename T>
class ChannelPoolTest : public testing::Test {};
TYPED_TEST_SUITE(ChannelPoolTest, NodeElementTypes);

template <typename Red, typename T>
void ExpectPooled() {
  for (const Case& c : Cases()) {
    for (const GuardedLayout& layout : OperandLayouts()) {
      Sample<4, T> a(c.shape, layout);
      Shape<4> target = c.shape;
      target[1] = (c.shape[1] + 2 * c.pad - c.size) / c.stride + 1;
      ExpectElements<4>(
          chpool<Red>(*a, c.size, c.stride, c.pad), target,
          [&](const Shape<4>& i) { return Pooled<Red>(a, i, i[1] * c.stride - c.pad, c.size); },
          "chpool");
      // Centred: as many channels as before, whatever the size.
      ExpectElements<4>(
          chpool<Red>(*a, c.size), c.shape,
          [&](const Shape<4>& i) { return Pooled<Red>(a, i, i[1] - c.size / 2, c.size); },
          "centred");
    }
  }
}

TYPED_TEST(ChannelPoolTest, ReducesNeighbouringChannels) {
  using T = TypeParam;
  ExpectPooled<red::sum, T>();
  if constexpr (std::is_same_v<T, float>) {
    ExpectPooled<red::maximum, T>();
    ExpectPooled<red::minimum, T>();
  }
}

template <typename Red, typename T>
void ExpectUnpooled() {
  for (const Case& c : Cases()) {
    Sample<4, T> a(c.shape, GuardedLayout{.row_padding = 1});
    Shape<4> target = c.shape;
    target[1] = (c.shape[1] + 2 * c.pad - c.size) / c.stride + 1;
    GuardedTensor<4, T> pooled(target);
    *pooled = chpool<Red>(*a, c.size, c.stride, c.pad);
    // Few bits, so that bfloat16 holds the sums.
    Sample<4, T> grad(target, GuardedLayout{.row_padding = 2}, 3);
    const auto expected = [&](const Shape<4>& i) {
      double sum = 0;
      for (index_t p = 0; p < target[1]; ++p) {
        const index_t begin = p * c.stride - c.pad;
        if (i[1] < begin || i[1] >= begin + c.size) continue;
        Shape<4> at = i;
        at[1] = p;
        const bool taken =
            std::is_same_v<Red, red::sum> || Pooled<Red>(a, i, begin, c.size) == a.at(i);
        if (taken) sum += grad.at(at);
      }
      return sum;
    };
    ExpectElements<4>(ch_unpool<Red>(*a, *pooled, *grad, c.size, c.stride, c.pad), c.shape,
                      expected, "ch_unpool");
  }
}

TYPED_TEST(ChannelPoolTest, GradientGoesBackToTheChannels) {
  using T = TypeParam;
  ExpectUnpooled<red::sum, T>();
  if constexpr (std::is_same_v<T, float>) {
    ExpectUnpooled<red::maximum, T>();
    ExpectUnpooled<red::minimum, T>();
  }
}

// The normalization of neighbouring channels as networks write it.
TEST(ChannelPoolOfExpressionsTest, SumOfSquares) {
  Sample<4, float> a(Shape4(2, 6, 3, 9));
  ExpectElements<4>(
      chpool<red::sum>(F<op::square>(*a), 5) * 0.5f + 1.0f, a.shape(),
      [&](const Shape<4>& i) {
        double sum = 0;
        for (index_t c = std::max<index_t>(0, i[1] - 2); c < std::min<index_t>(6, i[1] + 3); ++c) {
          const double element = a.at(Shape4(i[0], c, i[2], i[3]));
          sum += element * element;
        }
        return 0.5 * sum + 1;
      },
      "sum of squares");
  Sample<3, float> grad(Shape3(4, 1, 9)), data(Shape3(4, 1, 9), {}, 1);
  ExpectElements<3>(
      ch_unpool<red::sum>(*data, *data, *grad * 2.0f, 3), Shape3(4, 1, 9),
      [&](const Shape<3>& i) {
        double sum = 0;
        for (index_t c = std::max<index_t>(0, i[0] - 1); c < std::min<index_t>(4, i[0] + 2); ++c) {
          sum += 2 * grad.at(Shape3(c, i[1], i[2]));
        }
        return sum;
      },
      "centred ch_unpool");
}

TEST(ChannelPoolErrorTest, WhatDoesNotFitIsRefused) {
  GuardedTensor<4, float> a(Shape4(1, 4, 2, 2)), b(Shape4(1, 3, 2, 2)), c(Shape4(1, 3, 2, 1));
  ExpectError([&] { chpool<red::sum>(*a, 5, 1, 0); }, kInvalidArgument,
              {"chpool", "5", "(1,4,2,2)"});
  ExpectError([&] { chpool<red::sum>(*a, 0); }, kInvalidArgument, {"chpool", "at least 1"});
  ExpectError([&] { chpool<red::sum>(*a, 3, -1, 0); }, kInvalidArgument, {"chpool", "at least 1"});
  ExpectError([&] { chpool<red::sum>(*a, 3, 0, 0); }, kInvalidArgument, {"chpool", "at least 1"});
  ExpectError([&] { ch_unpool<red::sum>(*a, *b, *a, 2, 1, 0); }, kInvalidArgument,
              {"ch_unpool", "(1,3,2,2)", "(1,4,2,2)"});
  ExpectError([&] { ch_unpool<red::sum>(*a, *c, *c, 2, 1, 0); }, kInvalidArgument,
              {"ch_unpool", "(1,3,2,1)", "(1,4,2,2)"});
}

}  // namespace
}  // namespace tessera
