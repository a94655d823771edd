#include "tessera/base/dtype.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace tessera {
namespace {

TEST(DTypeTest, EveryTypeHasSizeNameAndNumberThatAgree) {
  int types = 0;
  for (int number = 0; number <= 12; ++number) {
    const DType dtype = static_cast<DType>(number);
    VisitDType(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      EXPECT_EQ(kDTypeOf<T>, dtype);
      EXPECT_EQ(DTypeSizeBytes(dtype), static_cast<int64_t>(sizeof(T)));
    });
    EXPECT_EQ(DTypeFromName(DTypeName(dtype)), dtype);
    ++types;
  }
  EXPECT_EQ(types, 13);
}

TEST(DTypeTest, NumbersAreThoseOfMxnetFiles) {
  EXPECT_EQ(static_cast<int>(kDTypeOf<float>), 0);
  EXPECT_EQ(static_cast<int>(kDTypeOf<double>), 1);
  EXPECT_EQ(static_cast<int>(kDTypeOf<half_t>), 2);
  EXPECT_EQ(static_cast<int>(kDTypeOf<uint8_t>), 3);
  EXPECT_EQ(static_cast<int>(kDTypeOf<int32_t>), 4);
  EXPECT_EQ(static_cast<int>(kDTypeOf<int8_t>), 5);
  EXPECT_EQ(static_cast<int>(kDTypeOf<int64_t>), 6);
  EXPECT_EQ(static_cast<int>(kDTypeOf<bfloat16_t>), 12);
}

TEST(DTypeTest, UnknownAndMadeUpNumbersAreErrors) {
  EXPECT_THROW(DTypeSizeBytes(DType::kUnknown), Error);
  EXPECT_THROW(DTypeSizeBytes(static_cast<DType>(99)), Error);
  EXPECT_EQ(DTypeName(DType::kUnknown), "unknown");
  EXPECT_FALSE(DTypeFromName("float33").has_value());
  EXPECT_FALSE(DTypeFromName("").has_value());
}

TEST(DTypeTest, RealVisitRefusesIntegersByName) {
  int calls = 0;
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    EXPECT_TRUE(IsReal(dtype));
    VisitRealDType(dtype, "Op", [&](auto) { ++calls; });
  }
  EXPECT_EQ(calls, 4);
  EXPECT_FALSE(IsReal(DType::kInt32));
  try {
    VisitRealDType(DType::kInt32, "Op", [](auto) {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).rfind("Op: element type int32", 0), 0u) << error.what();
  }
}

}  // namespace
}  // namespace tessera
