#include "tessera/ops/loops/reduce.h"

#include <gtest/gtest.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/reduce_function.h"
#include "tessera/ops/loops/reducers.h"

namespace tessera::ops_internal {
namespace {

/// Elements of some type, with their values as doubles.
struct Array {
  Array(const TShape& extents, DType type, const std::vector<double>& numbers)
      : shape(extents), dtype(type), values(numbers), bytes(numbers.size() * 8 + 8) {
    StoreRow(values.data(), shape.Size(), /*add=*/false, dtype, bytes.data());
  }
  TBlob blob() { return TBlob(bytes.data(), shape, dtype, Device::Cpu()); }
  double operator[](index_t i) const {
    double value = 0;
    LoadRow(bytes.data() + i * DTypeSizeBytes(dtype), dtype, 1, 1, &value);
    return value;
  }

  TShape shape;
  DType dtype;
  std::vector<double> values;
  std::vector<char> bytes;
};

std::vector<double> SmallIntegers(index_t count, std::mt19937* random) {
  std::vector<double> values(static_cast<size_t>(count));
  for (double& value : values) value = static_cast<double>((*random)() % 7) - 3;
  return values;
}

TEST(ReduceTest, EveryShapeAxesTypeAndRequestGivesTheReduction) {
  const ReduceFunction sum = MakeReduceFunction<SumReducer>();
  const ReduceFunction max = MakeReduceFunction<MaximumReducer>();
  constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16,
                              DType::kInt8,    DType::kInt32,   DType::kInt64};
  std::mt19937 random(20261127);
  for (int round = 0; round < 1500; ++round) {
    std::vector<index_t> extents(random() % 5), kept;
    ReducedAxes axes{};
    for (size_t d = 0; d < extents.size(); ++d) {
      extents[d] = static_cast<index_t>(random() % 12 == 0 ? random() % 3000 : random() % 6);
      axes[d] = random() % 2 == 0;
      if (!axes[d]) kept.push_back(extents[d]);
    }
    const TShape shape{std::span<const index_t>(extents)};
    if (shape.Size() > 200000) continue;
    const bool maximum = random() % 2 == 0;
    const OpReqType req = random() % 2 == 0 ? kWriteTo : kAddTo;
    Array in(shape, kTypes[random() % std::size(kTypes)], SmallIntegers(shape.Size(), &random));
    const TShape out_shape{std::span<const index_t>(kept)};
    Array out(out_shape, DType::kFloat64, SmallIntegers(out_shape.Size(), &random));
    std::vector<double> expected(out.values.size(), 0);
    std::vector<bool> seen(out.values.size(), false);
    for (index_t i = 0; i < shape.Size(); ++i) {
      index_t rest = i, offset = 0, stride = 1;
      for (int d = shape.ndim() - 1; d >= 0; --d) {
        if (!axes[static_cast<size_t>(d)]) {
          offset += rest % shape[d] * stride;
          stride *= shape[d];
        }
        rest /= shape[d];
      }
      const auto o = static_cast<size_t>(offset);
      const double value = in.values[static_cast<size_t>(i)];
      expected[o] = !seen[o] ? value : maximum ? std::max(expected[o], value) : expected[o] + value;
      seen[o] = true;
    }
    if (maximum && shape.Size() == 0) continue;  // the least number of the type
    Reduce(maximum ? max : sum, in.blob(), axes, out.blob(), req, {});
    for (size_t o = 0; o < expected.size(); ++o) {
      const double old = req == kAddTo ? out.values[o] : 0;
      ASSERT_EQ(out[static_cast<index_t>(o)], expected[o] + old)
          << "round " << round << ", shape " << shape << ", output " << o;
    }
  }
}

TEST(ReduceTest, RowsAndColumnsEndAnywhereInVectorsAndBlocks) {
  const ReduceFunction sum = MakeReduceFunction<SumReducer>();
  const ReduceFunction max = MakeReduceFunction<MaximumReducer>();
  std::mt19937 random(46);
  std::vector<TShape> shapes;
  for (index_t n = 1; n <= 70; ++n) {
    shapes.push_back({3, n});
    shapes.push_back({130 - n, n});
  }
  for (const index_t n : {1023, 1024, 1025, 1056, 2047, 2048, 2049, 4097}) {
    shapes.push_back({3, n});
    shapes.push_back({70, n});
  }
  for (const TShape& shape : shapes) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kInt64}) {
      Array in(shape, dtype, SmallIntegers(shape.Size(), &random));
      for (int axis = 0; axis < 2; ++axis) {
        ReducedAxes axes{};
        axes[static_cast<size_t>(axis)] = true;
        const index_t outputs = shape[1 - axis];
        const std::vector<double> zeros(static_cast<size_t>(outputs));
        Array sums({outputs}, DType::kFloat64, zeros), largest({outputs}, DType::kFloat64, zeros);
        Reduce(sum, in.blob(), axes, sums.blob(), kWriteTo, {});
        Reduce(max, in.blob(), axes, largest.blob(), kWriteTo, {});
        std::vector<double> expected(zeros), maxima(zeros.size(), -100);
        for (index_t i = 0; i < shape.Size(); ++i) {
          const auto o = static_cast<size_t>(axis == 0 ? i % shape[1] : i / shape[1]);
          const double value = in.values[static_cast<size_t>(i)];
          expected[o] += value;
          maxima[o] = std::max(maxima[o], value);
        }
        for (index_t o = 0; o < outputs; ++o) {
          ASSERT_EQ(sums[o], expected[static_cast<size_t>(o)]) << shape << ", " << dtype;
          ASSERT_EQ(largest[o], maxima[static_cast<size_t>(o)]) << shape << ", " << dtype;
        }
      }
    }
  }
}

TEST(ReduceTest, BitsDoNotDependOnThreads) {
  const ReduceFunction sum = MakeReduceFunction<SumReducer>();
  std::mt19937 random(1);
  std::normal_distribution<double> normal;
  for (const TShape& shape : {TShape{3, 400000}, TShape{100000, 7}, TShape{5, 30000, 3},
                              TShape{300, 2500}, TShape{50, 200, 9}}) {
    std::vector<double> values(static_cast<size_t>(shape.Size()));
    for (double& value : values) value = normal(random);
    Array in(shape, DType::kFloat32, values);
    for (int axis = 0; axis < shape.ndim(); ++axis) {
      ReducedAxes axes{};
      axes[static_cast<size_t>(axis)] = true;
      const index_t count = shape.Size() / shape[axis];
      std::vector<std::vector<char>> results;
      for (const int threads : {1, 2, 7}) {
        Array out({count}, DType::kFloat32, std::vector<double>(static_cast<size_t>(count)));
        tbb::task_arena arena(threads);
        arena.execute([&] { Reduce(sum, in.blob(), axes, out.blob(), kWriteTo, {}); });
        results.push_back(out.bytes);
      }
      EXPECT_EQ(results[0], results[1]);
      EXPECT_EQ(results[0], results[2]);
    }
  }
}

TEST(ReduceTest, LongSumsKeepTheirDigits) {
  const ReduceFunction sum = MakeReduceFunction<SumReducer>();
  constexpr index_t kCount = 1 << 22;
  for (const TShape& shape : {TShape{kCount, 1}, TShape{kCount / 4, 4}}) {
    Array in(shape, DType::kFloat32, std::vector<double>(kCount, 0.1));
    Array out({shape[1]}, DType::kFloat32, std::vector<double>(static_cast<size_t>(shape[1])));
    ReducedAxes axes{};
    axes[0] = true;
    Reduce(sum, in.blob(), axes, out.blob(), kWriteTo, {});
    const double expected = static_cast<double>(0.1f) * static_cast<double>(shape[0]);
    EXPECT_NEAR(out[0] / expected, 1, 2e-6);
  }
}

TEST(ReduceTest, AxesOfABroadcastAreThoseThatRepeat) {
  const ReducedAxes axes = BroadcastAxes({2, 3, 1, 4}, {3, 1, 1});
  EXPECT_TRUE(axes[0]);
  EXPECT_FALSE(axes[1]);
  EXPECT_FALSE(axes[2]);
  EXPECT_TRUE(axes[3]);
}

}  // namespace
}  // namespace tessera::ops_internal
