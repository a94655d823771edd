#include "tessera/base/number.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "tessera/base/dtype.h"

namespace tessera {
namespace {

constexpr int64_t kInt64Min = std::numeric_limits<int64_t>::min();
constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();
constexpr uint64_t kUint64Max = std::numeric_limits<uint64_t>::max();

TEST(NumberTest, IntegersAreExact) {
  for (const int64_t integer :
       {kInt64Min, int64_t{-1}, int64_t{0}, (int64_t{1} << 53) + 1, kInt64Max}) {
    const Number number = integer;
    EXPECT_TRUE(number.IsInt64());
    EXPECT_EQ(number.As<int64_t>(), integer);
    EXPECT_EQ(number.value(), static_cast<double>(integer));
  }
  const Number large = kUint64Max - 1;
  EXPECT_TRUE(large.IsUint64());
  EXPECT_FALSE(large.IsInt64());
  EXPECT_EQ(static_cast<uint64_t>(large.BitsIn(DType::kUint64)), kUint64Max - 1);
  EXPECT_EQ(large.BitsIn(DType::kInt64), kInt64Max);
}

TEST(NumberTest, ADoubleIsAnIntegerIfItHasNoFraction) {
  EXPECT_TRUE(Number(0x1p62).IsInt64());
  EXPECT_TRUE(Number(-0x1p63).IsInt64());
  EXPECT_EQ(Number(-0x1p63).As<int64_t>(), kInt64Min);
  EXPECT_TRUE(Number(0x1p63).IsUint64());
  EXPECT_EQ(Number(0x1p63), Number(uint64_t{1} << 63));
  for (const double real :
       {0.5, -1e30, 0x1p64, std::nan(""), std::numeric_limits<double>::infinity()}) {
    EXPECT_FALSE(Number(real).IsInt64() || Number(real).IsUint64()) << real;
  }
  EXPECT_TRUE(std::signbit(Number(-0.0).As<float>()));
}

TEST(NumberTest, ElementsAreCutOffAndEndAtTheirTypesEnds) {
  EXPECT_EQ(Number(-2.9).As<int32_t>(), -2);
  EXPECT_EQ(Number(int64_t{1} << 40).As<int32_t>(), std::numeric_limits<int32_t>::max());
  EXPECT_EQ(Number(-1e30).As<int64_t>(), kInt64Min);
  EXPECT_EQ(Number(1e30).As<int64_t>(), kInt64Max);
  EXPECT_EQ(Number(std::nan("")).As<int64_t>(), 0);
  EXPECT_EQ(Number(0.1).As<float>(), 0.1f);
}

TEST(NumberTest, SaturatesToTheElementsType) {
  EXPECT_EQ(Number(-1).SaturatedTo(DType::kUint8), Number(0));
  EXPECT_EQ(Number(300.5).SaturatedTo(DType::kUint8), Number(255));
  EXPECT_EQ(Number(-300).SaturatedTo(DType::kInt8), Number(-128));
  EXPECT_EQ(Number(kUint64Max).SaturatedTo(DType::kInt64), Number(kInt64Max));
  EXPECT_EQ(Number(kUint64Max - 1).SaturatedTo(DType::kUint64), Number(kUint64Max - 1));
  EXPECT_EQ(Number(1e30).SaturatedTo(DType::kUint64), Number(kUint64Max));
  EXPECT_EQ(Number(-1e30).SaturatedTo(DType::kUint64), Number(0));
  EXPECT_EQ(Number(2).SaturatedTo(DType::kBool), Number(1));
  EXPECT_EQ(Number(0.5).SaturatedTo(DType::kFloat16), Number(0.5));
}

TEST(NumberTest, TellsWhatATypeHolds) {
  EXPECT_TRUE(Number(255.5).FitsIn(DType::kUint8));
  EXPECT_TRUE(Number(-0.5).FitsIn(DType::kUint8));
  EXPECT_FALSE(Number(256).FitsIn(DType::kUint8));
  EXPECT_FALSE(Number(-1).FitsIn(DType::kUint64));
  EXPECT_TRUE(Number(kUint64Max).FitsIn(DType::kUint64));
  EXPECT_FALSE(Number(0x1p63).FitsIn(DType::kInt64));
  EXPECT_FALSE(Number(std::nan("")).FitsIn(DType::kInt32));
  EXPECT_TRUE(Number(std::nan("")).FitsIn(DType::kFloat16));
  EXPECT_EQ(Number(300).Element<uint8_t>(), 44);
  EXPECT_EQ(Number(kInt64Max).Element<int64_t>(), kInt64Max);
  EXPECT_TRUE(Number(0.5).Element<bool>());
}

}  // namespace
}  // namespace tessera
