#include "tessera/ops/loops/map.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "tessera/ops/loops/convert_row.h"
#include "tessera/ops/loops/map_function.h"
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
