// Convolutions of groups of one channel and of several against sums in double, over sizes around
// packets, tiles and parts. BUILD runs it for each instruction set.
#include "tessera/tensor/nn/depthwise.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <ostream>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace tessera::tensor_internal {

// Prints a window in the messages of failures.
std::ostream& operator<<(std::ostream& out, const DepthwiseWindow& w) {
  return out << "kernel " << w.kernel << ", stride " << w.stride << ", plane " << w.height << " x "
             << w.width << ", pad " << w.pad_y << " x " << w.pad_x << ", positions " << w.out_height
             << " x " << w.out_width;
}

namespace {

DepthwiseWindow Window(int64_t kernel, int64_t stride, int64_t height, int64_t width, int64_t pad_y,
                       int64_t pad_x) {
  const auto positions = [=](int64_t extent, int64_t pad) {
    const int64_t room = extent + 2 * pad - kernel;
    return room < 0 ? 0 : room / stride + 1;
  };
  return {.kernel = kernel,
          .stride = stride,
          .height = height,
          .width = width,
          .out_height = positions(height, pad_y),
          .out_width = positions(width, pad_x),
          .pad_y = pad_y,
          .pad_x = pad_x};
}

// Calls visit(i_out, tap, i_plane) for each product.
template <typename Visit>
void ForEachProduct(const DepthwiseWindow& w, const Visit& visit) {
  for (int64_t o = 0; o < w.out_height * w.out_width; ++o) {
    for (int64_t tap = 0; tap < w.kernel * w.kernel; ++tap) {
      const int64_t y = o / w.out_width * w.stride + tap / w.kernel - w.pad_y;
      const int64_t x = o % w.out_width * w.stride + tap % w.kernel - w.pad_x;
      if (y < 0 || y >= w.height || x < 0 || x >= w.width) continue;
      visit(static_cast<size_t>(o), static_cast<size_t>(tap), static_cast<size_t>(y * w.width + x));
    }
  }
}

constexpr int64_t kSamples = 3;

// Returns numbers from 0 to 1 or, if `exact`, multiples of 1/8 from -1 to 1, of which every order
// of adding gives the same sums.
std::vector<float> Entries(int64_t count, bool exact, std::mt19937& random) {
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) {
    const auto integer = static_cast<int>(random() % (exact ? 17 : 20001));
    value = exact ? static_cast<float>(integer - 8) / 8 : static_cast<float>(integer) / 2e4f;
  }
  return values;
}

// The operands of all products of a window, with several samples of planes and results.
struct Operands {
  std::vector<float> planes, outs, weights;

  Operands(const DepthwiseWindow& w, bool exact, std::mt19937& random)
      : planes(Entries(kSamples * w.height * w.width, exact, random)),
        outs(Entries(kSamples * w.out_height * w.out_width, exact, random)),
        weights(Entries(w.kernel * w.kernel, exact, random)) {}
};

// An output between guard zones, which hold a number that no product has.
class Output {
 public:
  Output(int64_t size, float initial)
      : values_(static_cast<size_t>(size) + 2 * kGuard, kUntouched) {
    std::fill(values_.begin() + kGuard, values_.end() - kGuard, initial);
  }
  float* data() { return values_.data() + kGuard; }
  std::vector<float> Values() const {
    return std::vector<float>(values_.begin() + kGuard, values_.end() - kGuard);
  }
  bool GuardsAreUntouched() const {
    const auto untouched = [](float value) { return value == kUntouched; };
    return std::all_of(values_.begin(), values_.begin() + kGuard, untouched) &&
           std::all_of(values_.end() - kGuard, values_.end(), untouched);
  }

 private:
  static constexpr int64_t kGuard = 64;
  static constexpr float kUntouched = 12345;
  std::vector<float> values_;
};

// Computes all rows of a result or of a plane, in calls of `rows` rows.
std::vector<float> Correlate(const DepthwiseWindow& w, const Operands& in, float start, bool add,
                             float old, int64_t rows) {
  Output out(w.out_height * w.out_width, old);
  for (int64_t y = 0; y < w.out_height; y += rows) {
    DepthwiseCorrelate(w, in.planes.data(), in.weights.data(), start, add, y,
                       std::min(w.out_height, y + rows), out.data());
  }
  EXPECT_TRUE(out.GuardsAreUntouched()) << w;
  return out.Values();
}
std::vector<float> Spread(const DepthwiseWindow& w, const Operands& in, float start, bool add,
                          float old, int64_t rows) {
  Output plane(w.height * w.width, old);
  for (int64_t y = 0; y < w.height; y += rows) {
    DepthwiseSpread(w, in.outs.data(), in.weights.data(), start, add, y,
                    std::min(w.height, y + rows), plane.data());
  }
  EXPECT_TRUE(plane.GuardsAreUntouched()) << w;
  return plane.Values();
}
std::vector<double> WeightGradient(const DepthwiseWindow& w, const Operands& in, int64_t begin,
                                   int64_t end) {
  std::vector<double> sums(in.weights.size(), std::numeric_limits<double>::quiet_NaN());
  DepthwiseWeightGradient(w,
                          {.planes = in.planes.data(),
                           .plane_stride = w.height * w.width,
                           .outs = in.outs.data(),
                           .out_stride = w.out_height * w.out_width},
                          begin, end, sums.data());
  return sums;
}

std::vector<double> ExpectedWeightGradient(const DepthwiseWindow& w, const Operands& in) {
  std::vector<double> sums(in.weights.size());
  for (int64_t n = 0; n < kSamples; ++n) {
    const float* const plane = in.planes.data() + n * w.height * w.width;
    const float* const out = in.outs.data() + n * w.out_height * w.out_width;
    ForEachProduct(w, [&](size_t o, size_t tap, size_t i) {
      sums[tap] += static_cast<double>(out[o]) * static_cast<double>(plane[i]);
    });
  }
  return sums;
}

void CheckExactly(const DepthwiseWindow& w, std::mt19937& random) {
  SCOPED_TRACE(testing::Message() << w);
  const Operands in(w, true, random);
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kStart = 0.5f, kOld = 2;

  std::vector<float> out(static_cast<size_t>(w.out_height * w.out_width), kStart);
  std::vector<float> plane(static_cast<size_t>(w.height * w.width), kStart);
  ForEachProduct(w, [&](size_t o, size_t tap, size_t i) {
    out[o] += in.weights[tap] * in.planes[i];
    plane[i] += in.weights[tap] * in.outs[o];
  });
  ASSERT_EQ(Correlate(w, in, kStart, false, kNaN, w.out_height), out);
  ASSERT_EQ(Spread(w, in, kStart, false, kNaN, w.height), plane);
  for (float& value : out) value += kOld;
  for (float& value : plane) value += kOld;
  ASSERT_EQ(Correlate(w, in, kStart, true, kOld, w.out_height), out);
  ASSERT_EQ(Spread(w, in, kStart, true, kOld, w.height), plane);

  const std::vector<double> sums = ExpectedWeightGradient(w, in);
  const int64_t rows = kSamples * w.out_height, cut = rows * 2 / 5;
  ASSERT_EQ(WeightGradient(w, in, 0, rows), sums);
  std::vector<double> parts = WeightGradient(w, in, 0, cut);
  const std::vector<double> rest = WeightGradient(w, in, cut, rows);
  for (size_t tap = 0; tap < parts.size(); ++tap) parts[tap] += rest[tap];
  ASSERT_EQ(parts, sums);
}

// Widths are around packets of all sizes, parts that are read in place, and parts of 128 columns.
TEST(DepthwiseTest, GivesTheExactSumsOfExactProducts) {
  std::mt19937 random(1);
  constexpr int64_t kWidths[] = {1,  2,  3,  4,  5,  7,  8,  9,  14, 15,  16,  17,  18,  28, 31,
                                 33, 65, 67, 79, 81, 90, 97, 98, 99, 112, 128, 131, 150, 277};
  constexpr int64_t kHeights[] = {1, 2, 3, 4, 5, 6, 7, 11, 14, 37};
  int64_t count = 0;
  for (const int64_t width : kWidths) {
    for (const int64_t kernel : {3, 5}) {
      for (const int64_t stride : {1, 2}) {
        for (const int64_t pad : {0, 1, 2, 3, 6}) {
          const int64_t height = kHeights[count++ * 7 % 10];
          const DepthwiseWindow w = Window(kernel, stride, height, width, (pad + count) % 4, pad);
          if (w.out_height * w.out_width > 0) CheckExactly(w, random);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(DepthwiseTest, AResultWithoutPositionsGivesAPlaneOfTheStart) {
  for (const int64_t stride : {1, 2}) {
    const DepthwiseWindow w = Window(5, stride, 3, 4, 0, 0);
    std::mt19937 random(1);
    const Operands in(w, true, random);
    EXPECT_EQ(Spread(w, in, 3, false, 0, w.height), std::vector<float>(12, 3.0f));
    EXPECT_EQ(WeightGradient(w, in, 0, 0), std::vector<double>(25, 0.0));
  }
}

// Narrow rows are stored as packets that reach into the next rows.
TEST(DepthwiseTest, ACallWritesNoOtherRows) {
  std::mt19937 random(1);
  for (const int64_t width : {2, 3, 7, 13, 30}) {
    for (const int64_t stride : {1, 2}) {
      const DepthwiseWindow w = Window(3, stride, 23, width, 1, 1);
      SCOPED_TRACE(testing::Message() << w);
      const Operands in(w, false, random);
      const auto check = [](int64_t row_size, int64_t rows, const auto& all, const auto& compute) {
        for (const int64_t end : {5, 6, 9}) {
          Output out(rows * row_size, 7);
          compute(2, end, out.data());
          std::vector<float> expected(static_cast<size_t>(rows * row_size), 7.0f);
          std::copy(all.begin() + 2 * row_size, all.begin() + end * row_size,
                    expected.begin() + 2 * row_size);
          EXPECT_EQ(out.Values(), expected) << end;
        }
      };
      check(w.out_width, w.out_height, Correlate(w, in, 0.1f, false, 0, w.out_height),
            [&](int64_t begin, int64_t end, float* out) {
              DepthwiseCorrelate(w, in.planes.data(), in.weights.data(), 0.1f, false, begin, end,
                                 out);
            });
      check(w.width, w.height, Spread(w, in, 0.1f, false, 0, w.height),
            [&](int64_t begin, int64_t end, float* plane) {
              DepthwiseSpread(w, in.outs.data(), in.weights.data(), 0.1f, false, begin, end, plane);
            });
    }
  }
}

TEST(DepthwiseTest, BitsDoNotDependOnTheRowsOfACall) {
  std::mt19937 random(1);
  for (const int64_t kernel : {3, 5}) {
    for (const int64_t stride : {1, 2}) {
      for (const int64_t width : {7, 13, 150}) {
        const DepthwiseWindow w = Window(kernel, stride, 61, width, 1, 2);
        SCOPED_TRACE(testing::Message() << w);
        const Operands in(w, false, random);
        const std::vector<float> out = Correlate(w, in, 0.1f, true, 0.3f, w.out_height);
        const std::vector<float> plane = Spread(w, in, 0.1f, true, 0.3f, w.height);
        for (const int64_t rows : {1, 2, 3, 7, 30}) {
          EXPECT_EQ(Correlate(w, in, 0.1f, true, 0.3f, rows), out) << rows;
          EXPECT_EQ(Spread(w, in, 0.1f, true, 0.3f, rows), plane) << rows;
        }
      }
    }
  }
}

// The bound is 1e-6 of the largest value, over positive entries, whose sums do not cancel.
TEST(DepthwiseTest, ErrorsAreSmall) {
  std::mt19937 random(1);
  for (const int64_t kernel : {3, 5}) {
    for (const int64_t stride : {1, 2}) {
      const DepthwiseWindow w = Window(kernel, stride, 114, 113, 1, 1);
      SCOPED_TRACE(testing::Message() << w);
      const Operands in(w, false, random);
      std::vector<double> out(static_cast<size_t>(w.out_height * w.out_width));
      std::vector<double> plane(static_cast<size_t>(w.height * w.width));
      ForEachProduct(w, [&](size_t o, size_t tap, size_t i) {
        const double weight = static_cast<double>(in.weights[tap]);
        out[o] += weight * static_cast<double>(in.planes[i]);
        plane[i] += weight * static_cast<double>(in.outs[o]);
      });
      const auto expect_near = [](const auto& actual, const std::vector<double>& expected) {
        const double bound = 1e-6 * *std::max_element(expected.begin(), expected.end());
        ASSERT_EQ(actual.size(), expected.size());
        for (size_t i = 0; i < expected.size(); ++i) {
          ASSERT_NEAR(static_cast<double>(actual[i]), expected[i], bound) << i;
        }
      };
      expect_near(Correlate(w, in, 0, false, 0, w.out_height), out);
      expect_near(Spread(w, in, 0, false, 0, w.height), plane);
      expect_near(WeightGradient(w, in, 0, kSamples * w.out_height), ExpectedWeightGradient(w, in));
    }
  }
}

// The operands of a group's products.
struct OperandsOfGroup {
  GroupExtents group;
  std::vector<float> planes, outs, weights, biases;

  OperandsOfGroup(const DepthwiseWindow& w, const GroupExtents& extents, bool exact,
                  std::mt19937& random)
      : group(extents),
        planes(Entries(kSamples * group.channels * w.height * w.width, exact, random)),
        outs(Entries(kSamples * group.filters * w.out_height * w.out_width, exact, random)),
        weights(Entries(group.filters * group.channels * w.kernel * w.kernel, exact, random)),
        biases(Entries(group.filters, exact, random)) {}

  // Calls visit(i_out, i_weight, i_plane) for each product of a sample.
  template <typename Visit>
  void ForEach(const DepthwiseWindow& w, const Visit& visit) const {
    const auto size = static_cast<size_t>(w.out_height * w.out_width);
    const auto taps = static_cast<size_t>(w.kernel * w.kernel);
    const auto plane = static_cast<size_t>(w.height * w.width);
    const auto filters = static_cast<size_t>(group.filters);
    const auto channels = static_cast<size_t>(group.channels);
    ForEachProduct(w, [&](size_t o, size_t tap, size_t at) {
      for (size_t f = 0; f < filters; ++f) {
        for (size_t c = 0; c < channels; ++c) {
          visit(f * size + o, (f * channels + c) * taps + tap, c * plane + at);
        }
      }
    });
  }
};

std::vector<float> CorrelateGroup(const DepthwiseWindow& w, const OperandsOfGroup& in, bool biased,
                                  bool add, float old, int64_t rows) {
  Output outs(in.group.filters * w.out_height * w.out_width, old);
  for (int64_t y = 0; y < w.out_height; y += rows) {
    GroupCorrelate(w, in.group, in.planes.data(), in.weights.data(),
                   biased ? in.biases.data() : nullptr, add, y, std::min(w.out_height, y + rows),
                   outs.data());
  }
  EXPECT_TRUE(outs.GuardsAreUntouched()) << w;
  return outs.Values();
}
std::vector<double> WeightGradientOfGroup(const DepthwiseWindow& w, const OperandsOfGroup& in,
                                          int64_t begin, int64_t end) {
  std::vector<double> sums(in.weights.size(), std::numeric_limits<double>::quiet_NaN());
  GroupWeightGradient(w, in.group,
                      {.planes = in.planes.data(),
                       .plane_stride = in.group.channels * w.height * w.width,
                       .outs = in.outs.data(),
                       .out_stride = in.group.filters * w.out_height * w.out_width},
                      begin, end, sums.data());
  return sums;
}

void CheckGroupExactly(const DepthwiseWindow& w, const GroupExtents& group, std::mt19937& random) {
  SCOPED_TRACE(testing::Message() << w << ", channels " << group.channels << ", filters "
                                  << group.filters);
  const OperandsOfGroup in(w, group, true, random);
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  constexpr float kOld = 2;

  const int64_t size = w.out_height * w.out_width;
  std::vector<float> outs(static_cast<size_t>(group.filters * size));
  in.ForEach(w, [&](size_t o, size_t i, size_t p) { outs[o] += in.weights[i] * in.planes[p]; });
  ASSERT_EQ(CorrelateGroup(w, in, false, false, kNaN, w.out_height), outs);
  for (size_t o = 0; o < outs.size(); ++o) {
    outs[o] += in.biases[o / static_cast<size_t>(size)] + kOld;
  }
  ASSERT_EQ(CorrelateGroup(w, in, true, true, kOld, w.out_height), outs);

  std::vector<double> sums(in.weights.size());
  for (int64_t n = 0; n < kSamples; ++n) {
    const float* const planes = in.planes.data() + n * group.channels * w.height * w.width;
    const float* const of_sample = in.outs.data() + n * group.filters * size;
    in.ForEach(w, [&](size_t o, size_t i, size_t p) {
      sums[i] += static_cast<double>(of_sample[o]) * static_cast<double>(planes[p]);
    });
  }
  const int64_t rows = kSamples * w.out_height, cut = rows * 2 / 5;
  ASSERT_EQ(WeightGradientOfGroup(w, in, 0, rows), sums);
  std::vector<double> parts = WeightGradientOfGroup(w, in, 0, cut);
  const std::vector<double> rest = WeightGradientOfGroup(w, in, cut, rows);
  for (size_t i = 0; i < parts.size(); ++i) parts[i] += rest[i];
  ASSERT_EQ(parts, sums);
}

// Widths are around packets of all sizes and parts of 64 columns, filters around tiles of four.
TEST(GroupTest, GivesTheExactSumsOfExactProducts) {
  std::mt19937 random(1);
  constexpr int64_t kWidths[] = {1, 2, 3, 4, 5, 7, 8, 9, 14, 16, 17, 28, 31, 33, 64, 65, 67, 130};
  constexpr int64_t kHeights[] = {1, 2, 3, 4, 5, 7, 11, 14, 37};
  constexpr int64_t kChannels[] = {2, 3, 4, 16, 7, 1, 8};
  constexpr int64_t kFilters[] = {4, 1, 2, 9, 3, 8, 7, 16, 5, 6, 13};
  size_t count = 0;
  for (const int64_t width : kWidths) {
    for (const int64_t kernel : {3, 5}) {
      for (const int64_t stride : {1, 2}) {
        for (const int64_t pad : {0, 1, 4}) {
          const GroupExtents group = {.channels = kChannels[count % 7],
                                      .filters = kFilters[count % 11]};
          const int64_t height = kHeights[count % 9], pad_y = static_cast<int64_t>(count % 4);
          ++count;
          const DepthwiseWindow w = Window(kernel, stride, height, width, pad_y, pad);
          if (w.out_height * w.out_width > 0) CheckGroupExactly(w, group, random);
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// The transpose of a padding wider than the kernel reads from behind the plane's first elements.
TEST(GroupTest, NegativePaddingLeavesElementsOut) {
  std::mt19937 random(1);
  CheckGroupExactly({.kernel = 3,
                     .stride = 1,
                     .height = 9,
                     .width = 20,
                     .out_height = 5,
                     .out_width = 12,
                     .pad_y = -1,
                     .pad_x = -3},
                    {.channels = 3, .filters = 5}, random);
}

TEST(GroupTest, BitsDependNeitherOnTheRowsOfACallNorOnTheOtherFilters) {
  std::mt19937 random(1);
  for (const int64_t kernel : {3, 5}) {
    for (const int64_t stride : {1, 2}) {
      const DepthwiseWindow w = Window(kernel, stride, 61, 70, 1, 2);
      SCOPED_TRACE(testing::Message() << w);
      const OperandsOfGroup in(w, {.channels = 5, .filters = 7}, false, random);
      const std::vector<float> outs = CorrelateGroup(w, in, true, true, 0.3f, w.out_height);
      for (const int64_t rows : {1, 2, 3, 7, 30}) {
        EXPECT_EQ(CorrelateGroup(w, in, true, true, 0.3f, rows), outs) << rows;
      }
      OperandsOfGroup first = in;
      first.group.filters = 1;
      const std::vector<float> of_first = CorrelateGroup(w, first, true, true, 0.3f, w.out_height);
      EXPECT_TRUE(std::equal(of_first.begin(), of_first.end(), outs.begin()));
    }
  }
}

TEST(GroupTest, AGroupOfOneChannelHasTheBitsOfADepthwiseConvolution) {
  std::mt19937 random(1);
  const DepthwiseWindow w = Window(3, 1, 30, 41, 1, 1);
  const OperandsOfGroup in(w, {.channels = 1, .filters = 1}, false, random);
  Output out(w.out_height * w.out_width, 0.3f);
  DepthwiseCorrelate(w, in.planes.data(), in.weights.data(), in.biases[0], true, 0, w.out_height,
                     out.data());
  EXPECT_EQ(CorrelateGroup(w, in, true, true, 0.3f, w.out_height), out.Values());
}

// The bound is 1e-6 of the largest value, over positive entries, whose sums do not cancel.
TEST(GroupTest, ErrorsAreSmall) {
  std::mt19937 random(1);
  const DepthwiseWindow w = Window(3, 1, 60, 61, 1, 1);
  const OperandsOfGroup in(w, {.channels = 4, .filters = 4}, false, random);
  std::vector<double> outs(static_cast<size_t>(4 * w.out_height * w.out_width));
  std::vector<double> sums(in.weights.size());
  in.ForEach(w, [&](size_t o, size_t i, size_t p) {
    const double element = static_cast<double>(in.planes[p]);
    outs[o] += static_cast<double>(in.weights[i]) * element;
    sums[i] += static_cast<double>(in.outs[o]) * element;
  });
  const auto expect_near = [](const auto& actual, const std::vector<double>& expected) {
    const double bound = 1e-6 * *std::max_element(expected.begin(), expected.end());
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_NEAR(static_cast<double>(actual[i]), expected[i], bound) << i;
    }
  };
  expect_near(CorrelateGroup(w, in, false, false, 0, w.out_height), outs);
  expect_near(WeightGradientOfGroup(w, in, 0, w.out_height), sums);
}

}  // namespace
}  // namespace tessera::tensor_internal
