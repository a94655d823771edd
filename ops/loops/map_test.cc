#include "tessera/ops/loops/map.h"

#include <gtest/gtest.h>
#include <tbb/task_arena.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/map_function.h"
#include "tessera/tensor/device/copy_bytes.h"
#include "tessera/tensor/functors.h"

namespace tessera::ops_internal {
namespace {

struct Minus {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return op::minus::Map(a, b);
  }
};
struct Chosen {
  template <typename T>
  TESSERA_HD static T Map(T condition, T a, T b) {
    return condition != T(0) ? a : b;
  }
};

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                            DType::kUint8,   DType::kInt8,    DType::kInt32,   DType::kInt64};

/// An array of small integers, which every element type holds exactly.
class Array {
 public:
  Array(const TShape& shape, DType dtype, std::mt19937* random)
      : shape_(shape), dtype_(dtype), values_(static_cast<size_t>(shape.Size())) {
    for (double& value : values_) value = static_cast<double>((*random)() % 8);
    bytes_.resize(values_.size() * 8 + 8);
    StoreRow(values_.data(), shape.Size(), /*add=*/false, dtype, bytes_.data());
  }

  TBlob blob() { return TBlob(bytes_.data(), shape_, dtype_, Device::Cpu()); }
  double expected(index_t i) const { return values_[static_cast<size_t>(i)]; }
  double operator[](index_t i) const {
    double value = 0;
    LoadRow(bytes_.data() + i * DTypeSizeBytes(dtype_), dtype_, 1, 1, &value);
    return value;
  }
  /// The element that stands at position `index` of an array of shape `of`.
  double At(const TShape& of, index_t index) const {
    index_t offset = 0, stride = 1;
    for (int d = of.ndim() - 1; d >= 0; --d) {
      const index_t position = index % of[d];
      index /= of[d];
      const int own = d - (of.ndim() - shape_.ndim());
      if (own < 0) continue;
      if (shape_[own] != 1) offset += position * stride;
      stride *= shape_[own];
    }
    return values_[static_cast<size_t>(offset)];
  }

 private:
  TShape shape_;
  DType dtype_;
  std::vector<double> values_;
  std::vector<char> bytes_;
};

TShape Shrunk(const TShape& shape, std::mt19937* random) {
  std::vector<index_t> extents(shape.begin(), shape.end());
  for (index_t& extent : extents) {
    if ((*random)() % 3 == 0) extent = 1;
  }
  while (!extents.empty() && (*random)() % 4 == 0) extents.erase(extents.begin());
  return TShape(std::span<const index_t>(extents));
}

TEST(MapTest, EveryShapeTypeAndRequestGivesTheFunctionOfItsElements) {
  const MapFunction minus = MakeMapFunction<Minus, 2, MapTypes::kArithmetic>();
  std::mt19937 random(20261127);
  for (int round = 0; round < 2000; ++round) {
    std::vector<index_t> extents(random() % 5);
    for (index_t& extent : extents) {
      extent = static_cast<index_t>(random() % 20 == 0 ? random() % 900 : random() % 6);
    }
    const TShape shape{std::span<const index_t>(extents)};
    if (shape.Size() > 20000) continue;
    const auto dtype = [&] { return kTypes[random() % std::size(kTypes)]; };
    Array a(Shrunk(shape, &random), dtype(), &random), b(Shrunk(shape, &random), dtype(), &random);
    Array out(shape, DType::kFloat64, &random);
    const OpReqType req = random() % 2 == 0 ? kWriteTo : kAddTo;
    MapCall(out.blob(), req).Add(a.blob()).Add(b.blob()).Run(minus, DType::kFloat32, {});
    for (index_t i = 0; i < shape.Size(); ++i) {
      const double difference = a.At(shape, i) - b.At(shape, i);
      const double expected = req == kAddTo ? out.expected(i) + difference : difference;
      ASSERT_EQ(out[i], expected) << "round " << round << ", shape " << shape << ", element " << i;
    }
  }
}

// Rows around a vector's and a block's length, operands that begin anew in a block or do not, and
// outputs at every place in a line.
TEST(MapTest, BroadcastsOfLongRowsGiveTheSameInTheCachesAndPastThem) {
  const MapFunction chosen = MakeMapFunction<Chosen, 3, MapTypes::kArithmetic>();
  const std::vector<std::vector<TShape>> cases = {
      // the output's shape, then the operands'
      {{4, 1000}, {1000}, {4, 1}, {4, 1000}},
      {{700, 10}, {10}, {700, 10}, {1}},
      {{60, 64}, {64}, {60, 1}, {60, 64}},
      {{60, 63}, {60, 1}, {63}, {60, 63}},
      {{3, 30, 511}, {30, 1}, {3, 30, 511}, {3, 1, 511}},
      {{3, 30, 512}, {30, 1}, {3, 30, 512}, {3, 1, 512}},
      {{3, 30, 513}, {30, 1}, {3, 30, 513}, {3, 1, 513}},
      {{5, 17, 7, 7}, {1, 17, 1, 1}, {5, 17, 7, 7}, {7}},
      {{2, 3, 170}, {2, 1, 1}, {3, 170}, {170}},
      {{40000}, {40000}, {1}, {40000}},
  };
  std::mt19937 random(46);
  tbb::task_arena arena(4);
  for (const int64_t bound : {int64_t{1}, tensor_internal::kStreamedBytes}) {
    tensor_internal::least_streamed_bytes.store(bound);
    for (const auto& shapes : cases) {
      for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kInt32}) {
        Array condition(shapes[1], dtype, &random), a(shapes[2], dtype, &random),
            b(shapes[3], dtype, &random);
        for (const OpReqType req : {kWriteTo, kAddTo}) {
          Array out(shapes[0], dtype, &random);
          arena.execute([&] {
            MapCall(out.blob(), req)
                .Add(condition.blob())
                .Add(a.blob())
                .Add(b.blob())
                .Run(chosen, {});
          });
          for (index_t i = 0; i < shapes[0].Size(); ++i) {
            const double value =
                condition.At(shapes[0], i) != 0 ? a.At(shapes[0], i) : b.At(shapes[0], i);
            ASSERT_EQ(out[i], req == kAddTo ? out.expected(i) + value : value)
                << shapes[0] << ", " << dtype << ", element " << i;
          }
        }
      }
    }
    // Parts of an array, whose ends stay as they are, and an output that is an operand.
    const MapFunction minus = MakeMapFunction<Minus, 2>();
    for (const index_t begin : {0, 1, 15, 16}) {
      std::vector<float> in(3000, 5), out(3000, 1);
      const TBlob part(out.data() + begin, {2900}, DType::kFloat32, Device::Cpu());
      const TBlob operand(in.data() + 7, {2900}, DType::kFloat32, Device::Cpu());
      MapCall(part, kWriteTo).Add(operand).Add(2).Run(minus, {});
      MapCall(part, kWriteInplace).Add(part).Add(operand).Run(minus, {});
      for (index_t i = 0; i < 3000; ++i) {
        const bool is_inside = i >= begin && i < begin + 2900;
        ASSERT_EQ(out[static_cast<size_t>(i)], is_inside ? -2 : 1) << begin << ", element " << i;
      }
    }
  }
}

TEST(MapTest, NumbersAreOperands) {
  const MapFunction chosen = MakeMapFunction<Chosen, 3>();
  std::mt19937 random(1);
  Array condition({3, 700}, DType::kInt32, &random), out({3, 700}, DType::kFloat16, &random);
  MapCall(out.blob(), kWriteTo).Add(condition.blob()).Add(2.5).Add(-1).Run(chosen, {});
  for (index_t i = 0; i < 2100; ++i) EXPECT_EQ(out[i], condition[i] != 0 ? 2.5 : -1);
}

TEST(MapTest, AnUnwantedOutputMayBeAnEmptyBlob) {
  const MapFunction minus = MakeMapFunction<Minus, 2>();
  std::mt19937 random(1);
  Array a({3}, DType::kFloat32, &random);
  MapCall(TBlob(), kNullOp).Add(a.blob()).Add(1).Run(minus, {});
}

TEST(MapTest, TheOutputMayBeAnOperand) {
  const MapFunction minus = MakeMapFunction<Minus, 2, MapTypes::kArithmetic>();
  std::mt19937 random(1);
  for (const DType dtype : kTypes) {
    Array a({5, 300}, dtype, &random);
    MapCall(a.blob(), kWriteInplace).Add(a.blob()).Add(1).Run(minus, {});
    for (index_t i = 0; i < 1500; ++i) {
      const double expected = a.expected(i) - 1;
      EXPECT_EQ(a[i], dtype == DType::kUint8 && expected < 0 ? 255 : expected) << dtype;
    }
  }
}

TEST(MapTest, IntegersAreComputedInIntegers) {
  const MapFunction minus = MakeMapFunction<Minus, 2, MapTypes::kArithmetic>();
  EXPECT_EQ(ComputedIn(minus, DType::kUint8), DType::kInt32);
  EXPECT_EQ(ComputedIn(minus, DType::kInt64), DType::kInt64);
  EXPECT_EQ(ComputedIn(MakeMapFunction<Minus, 2>(), DType::kInt64), DType::kFloat64);
  EXPECT_EQ(ComputedIn(MakeMapFunction<Minus, 2>(), DType::kUint8), DType::kFloat32);
  int64_t a = (int64_t{1} << 53) + 1, b = 0, out = 0;
  MapCall(TBlob(&out, TShape{1}, DType::kInt64, Device::Cpu()), kWriteTo)
      .Add(TBlob(&a, TShape{1}, DType::kInt64, Device::Cpu()))
      .Add(TBlob(&b, TShape{1}, DType::kInt64, Device::Cpu()))
      .Run(minus, {});
  EXPECT_EQ(out, a);
}

TEST(ConvertRowTest, NumbersOutsideTheRangeOfIntegersEndAtItsEnds) {
  const float in[] = {3.9f, -3.9f, 1e20f, -1e20f, std::numeric_limits<float>::quiet_NaN(), 0.5f};
  int32_t out[6];
  LoadRow(in, DType::kFloat32, 1, 6, out);
  EXPECT_EQ(out[0], 3);
  EXPECT_EQ(out[1], -3);
  EXPECT_EQ(out[2], std::numeric_limits<int32_t>::max());
  EXPECT_EQ(out[3], std::numeric_limits<int32_t>::min());
  EXPECT_EQ(out[4], 0);
  bool truth[6];
  StoreRow(in, 6, /*add=*/false, DType::kBool, truth);
  EXPECT_TRUE(truth[5]);
}

}  // namespace
}  // namespace tessera::ops_internal
