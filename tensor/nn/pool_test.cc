#include "tessera/tensor/nn/pool.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/tensor/testing/guarded_tensor.h"
#include "tessera/tensor/testing/test_values.h"

namespace tessera {
namespace {

constexpr auto kInvalidArgument = Error::kInvalidArgument;

static_assert(std::is_trivially_copyable_v<expr::PoolExp<PoolKind::kMax, Tensor<cpu, 4, float>>>);
static_assert(std::is_trivially_copyable_v<expr::UnpoolExp<PoolKind::kMax, cpu, float>>);

struct Case {
  Shape<4> image;
  index_t out_y, out_x;
  PoolGeometry g;
};

// The positions of MXNet's two conventions: "valid" drops what does not fill a window, "full" keeps
// it.
index_t Valid(index_t extent, index_t kernel, index_t stride, index_t pad) {
  return (extent + 2 * pad - kernel) / stride + 1;
}
index_t Full(index_t extent, index_t kernel, index_t stride, index_t pad) {
  return (extent + 2 * pad - kernel + stride - 1) / stride + 1;
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  const std::vector<PoolGeometry> geometries = {
      {},
      {.kernel_y = 2, .kernel_x = 2, .stride_y = 2, .stride_x = 2},
      {.kernel_y = 3, .kernel_x = 3, .stride_y = 2, .stride_x = 2, .pad_y = 1, .pad_x = 1},
      {.kernel_y = 3, .kernel_x = 2, .stride_y = 1, .stride_x = 1, .pad_y = 2, .pad_x = 1},
      {.kernel_y = 2, .kernel_x = 3, .stride_y = 3, .stride_x = 4, .pad_x = 1},
  };
  for (const PoolGeometry& g : geometries) {
    for (const Shape<4>& image : {Shape4(2, 3, 8, 8), Shape4(1, 2, 7, 10), Shape4(1, 1, 3, 3)}) {
      for (const auto& positions : {Valid, Full}) {
        cases.push_back({image, positions(image[2], g.kernel_y, g.stride_y, g.pad_y),
                         positions(image[3], g.kernel_x, g.stride_x, g.pad_x), g});
      }
    }
  }
  // One window over the whole image, and large enough to run in parallel.
  cases.push_back({Shape4(2, 2, 5, 6), 1, 1, {.kernel_y = 5, .kernel_x = 6}});
  cases.push_back({Shape4(8, 16, 30, 30),
                   15,
                   15,
                   {.kernel_y = 2, .kernel_x = 2, .stride_y = 2, .stride_x = 2}});
  return cases;
}

// Calls visit(output index, list of image indices in row order, divisor of the padded average).
template <typename Visit>
void ForEachWindow(const Case& c, const Visit& visit) {
  const PoolGeometry& g = c.g;
  index_t out = 0;
  for (index_t plane = 0; plane < c.image[0] * c.image[1]; ++plane) {
    for (index_t oy = 0; oy < c.out_y; ++oy) {
      for (index_t ox = 0; ox < c.out_x; ++ox, ++out) {
        std::vector<size_t> members;
        int divisor = 0;
        for (index_t y = oy * g.stride_y - g.pad_y; y < oy * g.stride_y - g.pad_y + g.kernel_y;
             ++y) {
          for (index_t x = ox * g.stride_x - g.pad_x; x < ox * g.stride_x - g.pad_x + g.kernel_x;
               ++x) {
            if (y < c.image[2] + g.pad_y && x < c.image[3] + g.pad_x) ++divisor;
            if (0 <= y && y < c.image[2] && 0 <= x && x < c.image[3]) {
              members.push_back(static_cast<size_t>((plane * c.image[2] + y) * c.image[3] + x));
            }
          }
        }
        visit(static_cast<size_t>(out), members, divisor);
      }
    }
  }
}

/// All elements of an expression, computed one by one.
template <typename E>
std::vector<typename E::value_type> ValuesOf(const E& e) {
  const Shape<2> shape = e.shape().FlatTo2D();
  std::vector<typename E::value_type> values;
  for (index_t y = 0; y < shape[0]; ++y) {
    for (index_t x = 0; x < shape[1]; ++x) values.push_back(e.Eval(y, x));
  }
  return values;
}

double Divisor(PoolKind kind, size_t members, int padded) {
  if (kind == PoolKind::kAverage && members > 0) return padded;
  if (kind == PoolKind::kAverageWithoutPad && members > 0) return static_cast<double>(members);
  return 1;
}

template <typename T>
class PoolTest : public testing::Test {
 protected:
  /// Whole numbers with many ties; sums of windows are exact in every type.
  static std::vector<T> Values(index_t count, uint64_t stream) {
    std::vector<T> values;
    for (const int32_t v : RandomValues<int32_t>(count, -3, 3, stream)) values.push_back(T(v));
    return values;
  }
  static void ExpectNear(const std::vector<T>& actual, const std::vector<double>& expected,
                         const std::string& what) {
    ExpectWithin<T>(
        actual, expected, [&](size_t i) { return 4 * UnitRoundoff<T>() * std::abs(expected[i]); },
        what);
  }

  template <PoolKind kKind>
  static void ExpectPool(const Case& c, index_t padding, const std::string& what) {
    const std::vector<T> values = Values(c.image.Size(), 1);
    GuardedTensor<4, T> image(c.image, values, GuardedLayout{.row_padding = padding});
    GuardedTensor<4, T> out(Shape4(c.image[0], c.image[1], c.out_y, c.out_x),
                            GuardedLayout{.row_padding = padding});
    std::vector<double> expected(static_cast<size_t>(out->shape_.Size()));
    ForEachWindow(c, [&](size_t at, const std::vector<size_t>& members, int divisor) {
      double maximum = -std::numeric_limits<double>::infinity(), sum = 0;
      for (const size_t i : members) {
        maximum = std::max(maximum, static_cast<double>(values[i]));
        sum += static_cast<double>(values[i]);
      }
      expected[at] = kKind == PoolKind::kMax && !members.empty()
                         ? maximum
                         : sum / Divisor(kKind, members.size(), divisor);
    });
    *out = pool<kKind>(*image, c.out_y, c.out_x, c.g);
    if (kKind == PoolKind::kMax) {
      // A window without elements has the lowest value, which double may not be able to say.
      std::vector<T> actual = out.values();
      ForEachWindow(c, [&](size_t at, const std::vector<size_t>& members, int) {
        if (!members.empty()) return;
        ASSERT_EQ(actual[at], red::maximum::InitialValue<T>());
        actual[at] = T(0);
      });
      ExpectNear(actual, expected, what);
    } else {
      ExpectNear(out.values(), expected, what);
    }
    EXPECT_TRUE(out.GuardsIntact()) << what;
    // Element by element, and as inside a larger expression.
    const std::vector<T> rows = out.values();
    ExpectSameValues(ValuesOf(pool<kKind>(*image, c.out_y, c.out_x, c.g)), rows, what);
    *out = F<op::identity>(pool<kKind>(*image, c.out_y, c.out_x, c.g));
    ExpectSameValues(out.values(), rows, what);

    // The gradient is the transpose of the forward pass at this image: for sums and averages what a
    // window gave to its result comes back by the same factor; a maximum comes from one element.
    const std::vector<T> head = Values(static_cast<index_t>(rows.size()), 2);
    GuardedTensor<4, T> grad(out->shape_, head, GuardedLayout{.row_padding = padding});
    GuardedTensor<4, T> in_grad(c.image, GuardedLayout{.row_padding = padding});
    std::vector<double> expected_grad(values.size());
    ForEachWindow(c, [&](size_t at, const std::vector<size_t>& members, int divisor) {
      const double share = static_cast<double>(head[at]) / Divisor(kKind, members.size(), divisor);
      bool given = false;
      for (const size_t i : members) {
        if (kKind == PoolKind::kMax) {
          if (given || static_cast<double>(values[i]) != expected[at]) continue;
          given = true;
        }
        expected_grad[i] += share;
      }
    });
    *in_grad = unpool<kKind>(*image, *out, *grad, c.g);
    // Shares of both signs may cancel; there are at most nine of them.
    ExpectWithin<T>(
        in_grad.values(), expected_grad, [](size_t) { return 9 * 3 * UnitRoundoff<T>(); }, what);
    EXPECT_TRUE(in_grad.GuardsIntact()) << what;
  }
};

using ElementTypes = TestedTypes<float, half_t>;
TYPED_TEST_SUITE(PoolTest, ElementTypes);

TYPED_TEST(PoolTest, ForwardAndGradientMatchPlainLoops) {
  int number = 0;
  for (const Case& c : Cases()) {
    for (const index_t padding : {0, 3}) {
      const std::string what = "case " + std::to_string(number);
      TestFixture::template ExpectPool<PoolKind::kMax>(c, padding, what + " max");
      TestFixture::template ExpectPool<PoolKind::kSum>(c, padding, what + " sum");
      TestFixture::template ExpectPool<PoolKind::kAverage>(c, padding, what + " average");
      TestFixture::template ExpectPool<PoolKind::kAverageWithoutPad>(c, padding,
                                                                     what + " without pad");
    }
    ++number;
  }
}

TEST(PoolSpecialTest, FirstOfEqualMaximaTakesTheGradient) {
  const Shape<4> shape = Shape4(1, 1, 2, 4);
  GuardedTensor<4, float> image(shape, {7, 7, 1, 2, 7, 7, 2, 2});
  GuardedTensor<4, float> pooled(Shape4(1, 1, 1, 2)),
      grad(Shape4(1, 1, 1, 2), std::vector<float>{10, 20});
  const PoolGeometry g{.kernel_y = 2, .kernel_x = 2, .stride_y = 2, .stride_x = 2};
  GuardedTensor<4, float> in_grad(shape);
  *pooled = pool<PoolKind::kMax>(*image, 1, 2, g);
  EXPECT_EQ(pooled.values(), (std::vector<float>{7, 2}));
  *in_grad = unpool<PoolKind::kMax>(*image, *pooled, *grad, g);
  EXPECT_EQ(in_grad.values(), (std::vector<float>{10, 0, 0, 20, 0, 0, 0, 0}));
}

// Tasks take rows without regard to where a plane ends; each element has the same bits in any of
// them.
TEST(PoolSpecialTest, GradientsOfAMaximumOfAnyRows) {
  const Shape<4> shape = Shape4(2, 2, 7, 9);
  constexpr index_t kRows = 2 * 2 * 7, kColumns = 9;
  GuardedTensor<4, float> image(shape, RandomValues<float>(shape.Size(), -3, 3, 1),
                                GuardedLayout{.row_padding = 1});
  for (const PoolGeometry& g : {PoolGeometry{3, 3, 1, 1, 1, 1}, PoolGeometry{2, 2, 2, 2, 0, 0},
                                PoolGeometry{5, 2, 3, 1, 2, 0}, PoolGeometry{1, 1, 3, 3, 0, 0}}) {
    const index_t out_y = (7 + 2 * g.pad_y - g.kernel_y) / g.stride_y + 1;
    const index_t out_x = (9 + 2 * g.pad_x - g.kernel_x) / g.stride_x + 1;
    GuardedTensor<4, float> pooled(Shape4(2, 2, out_y, out_x));
    GuardedTensor<4, float> grad(pooled->shape_,
                                 RandomValues<float>(pooled->shape_.Size(), -1, 1, 2));
    *pooled = pool<PoolKind::kMax>(*image, out_y, out_x, g);
    const auto e = unpool<PoolKind::kMax>(*image, *pooled, *grad, g);
    for (index_t begin = 0; begin < kRows; ++begin) {
      for (index_t end = begin + 1; end <= kRows; ++end) {
        std::vector<float> rows(static_cast<size_t>(kRows * kColumns), 77.0f);
        ASSERT_TRUE(e.EvalRows(begin, end, rows.data(), kColumns));
        for (index_t i = 0; i < kRows * kColumns; ++i) {
          const index_t y = i / kColumns;
          ASSERT_EQ(rows[static_cast<size_t>(i)],
                    begin <= y && y < end ? e.Eval(y, i % kColumns) : 77.0f)
              << begin << ' ' << end << ' ' << i;
        }
      }
    }
  }
}

TEST(PoolSpecialTest, NanIsTheMaximumOfItsWindow) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  GuardedTensor<4, float> image(Shape4(1, 1, 1, 4), {nan, 1, 2, -1});
  GuardedTensor<4, float> pooled(Shape4(1, 1, 1, 2));
  *pooled = pool<PoolKind::kMax>(*image, 1, 2, {.kernel_x = 2, .stride_x = 2});
  ExpectSameValues(pooled.values(), {nan, 2});
}

template <PoolKind kKind, typename T>
void ExpectRowsHaveTheBitsOfElements() {
  // Numbers whose sums round, zeros of both signs, infinities and NaNs.
  std::vector<T> values = RandomValues<T>(2 * 9 * 150, T(-3), T(3));
  for (size_t i = 0; i < values.size(); i += 3) values[i] = T(i % 2 == 0 ? 0.0 : -0.0);
  for (size_t i = 77; i < values.size(); i += 211) {
    values[i] =
        i % 2 == 0 ? std::numeric_limits<T>::quiet_NaN() : T(-std::numeric_limits<T>::infinity());
  }
  for (const index_t width : {1, 3, 4, 5, 8, 15, 16, 17, 31, 33, 63, 64, 65, 66, 127, 128, 150}) {
    for (const PoolGeometry& g : std::initializer_list<PoolGeometry>{
             {.kernel_y = 2, .kernel_x = 2, .stride_y = 2, .stride_x = 2},
             {.kernel_y = 3, .kernel_x = 3, .pad_y = 1, .pad_x = 1},
             {.kernel_y = 3, .kernel_x = 3, .stride_y = 2, .stride_x = 2, .pad_y = 1, .pad_x = 1},
             {.kernel_y = 2, .kernel_x = 5, .stride_x = 3, .pad_x = 4},
             {.kernel_x = 1, .stride_x = 2},
             {.kernel_y = 4, .kernel_x = 2, .stride_y = 3, .stride_x = 5, .pad_y = 3, .pad_x = 9},
             // More elements than the loop over rows takes.
             {.kernel_y = 9, .kernel_x = 170, .pad_y = 4, .pad_x = 99}}) {
      const Shape<4> shape = Shape4(2, 1, 9, width);
      GuardedTensor<4, T> image(shape, std::vector<T>(values.begin(), values.begin() + 18 * width),
                                GuardedLayout{.row_padding = width % 2});
      // Some windows lie beyond the image.
      const index_t out_x = (width + 2 * g.pad_x) / g.stride_x + 2;
      GuardedTensor<4, T> out(Shape4(2, 1, 5, out_x));
      const auto expect_same = [&](const auto& expression) {
        *out = expression;
        const std::vector<T> expected = ValuesOf(expression), actual = out.values();
        for (size_t i = 0; i < expected.size(); ++i) {
          const double a = static_cast<double>(actual[i]), e = static_cast<double>(expected[i]);
          ASSERT_TRUE((std::isnan(a) && std::isnan(e)) ||
                      (a == e && std::signbit(a) == std::signbit(e)))
              << a << " instead of " << e << " at " << i << ", width " << width << ", kernel "
              << g.kernel_x;
        }
        EXPECT_TRUE(out.GuardsIntact());
      };
      expect_same(pool<kKind>(*image, 5, out_x, g));
      expect_same(pool<kKind>(*image * T(3), 5, out_x, g));
    }
  }
}

TYPED_TEST(PoolTest, RowsHaveTheBitsOfElements) {
  ExpectRowsHaveTheBitsOfElements<PoolKind::kMax, TypeParam>();
  ExpectRowsHaveTheBitsOfElements<PoolKind::kSum, TypeParam>();
  ExpectRowsHaveTheBitsOfElements<PoolKind::kAverage, TypeParam>();
  ExpectRowsHaveTheBitsOfElements<PoolKind::kAverageWithoutPad, TypeParam>();
}

TEST(PoolSpecialTest, IntegersPoolToo) {
  GuardedTensor<4, int32_t> image(Shape4(1, 1, 1, 5), {4, -2, 9, 3, 3});
  GuardedTensor<4, int32_t> pooled(Shape4(1, 1, 1, 4));
  const PoolGeometry g{.kernel_x = 2, .stride_x = 2};  // the last window lies beyond the image
  *pooled = pool<PoolKind::kMax>(*image, 1, 4, g);
  EXPECT_EQ(pooled.values(),
            (std::vector<int32_t>{4, 9, 3, std::numeric_limits<int32_t>::lowest()}));
  *pooled = pool<PoolKind::kAverageWithoutPad>(*image, 1, 4, g);
  EXPECT_EQ(pooled.values(), (std::vector<int32_t>{1, 6, 3, 0}));
}

TEST(PoolErrorTest, WhatDoesNotFitIsRefused) {
  GuardedTensor<4, float> image(Shape4(1, 2, 4, 4));
  GuardedTensor<4, float> pooled(Shape4(1, 2, 2, 2)), other(Shape4(1, 2, 2, 3)),
      channels(Shape4(1, 3, 2, 2));
  const PoolGeometry g{.kernel_y = 2, .kernel_x = 2, .stride_y = 2, .stride_x = 2};
  ExpectError([&] { unpool<PoolKind::kSum>(*image, *pooled, *other, g); }, kInvalidArgument,
              {"unpool", "(1,2,2,2)", "(1,2,2,3)"});
  ExpectError([&] { unpool<PoolKind::kSum>(*image, *channels, *channels, g); }, kInvalidArgument,
              {"unpool", "(1,3,2,2)", "(1,2,4,4)"});
  ExpectError([&] { pool<PoolKind::kMax>(*image, -1, 2, g); }, kInvalidArgument, {"pool", "-1x2"});
  for (const PoolGeometry& wrong :
       {PoolGeometry{.kernel_y = 0}, PoolGeometry{.stride_x = 0}, PoolGeometry{.pad_y = -1}}) {
    ExpectError([&] { pool<PoolKind::kMax>(*image, 2, 2, wrong); }, kInvalidArgument,
                {"pool", "at least"});
    ExpectError([&] { unpool<PoolKind::kMax>(*image, *pooled, *pooled, wrong); }, kInvalidArgument,
                {"unpool", "at least"});
  }
}

}  // namespace
}  // namespace tessera
