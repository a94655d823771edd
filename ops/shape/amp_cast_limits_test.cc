// amp_cast of numbers that the integers of the type do not hold, which the rows of operators do not
// try.
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tessera/base/dtype.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

using testing::ElementsAre;

/// Returns the numbers as integers T of the type `dtype`.
template <typename T>
std::vector<T> Nearest(std::vector<float> numbers, DType dtype) {
  const TShape shape = {static_cast<index_t>(numbers.size())};
  std::vector<T> out(numbers.size());
  const auto property =
      OperatorRegistry::Get().Create("amp_cast", {{"dtype", std::string(DTypeName(dtype))}});
  const auto op = property->CreateOperator(Device::Cpu(), std::vector<TShape>{shape},
                                           std::vector<DType>{DType::kFloat32});
  const TBlob from(numbers.data(), shape, DType::kFloat32, Device::Cpu());
  const TBlob to(out.data(), shape, dtype, Device::Cpu());
  const OpReqType req = kWriteTo;
  op->Forward({}, {&from, 1}, {&req, 1}, {&to, 1});
  return out;
}

TEST(AmpCastLimitsTest, NumbersAreLimitedToTheTypesRange) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> numbers = {127.5f, 300, -128.5f, -1e30f, kInf, -kInf, kNan};
  EXPECT_THAT(Nearest<int8_t>(numbers, DType::kInt8),
              ElementsAre(127, 127, -128, -128, 127, -128, 0));
  EXPECT_THAT(Nearest<uint8_t>(numbers, DType::kUint8), ElementsAre(128, 255, 0, 0, 255, 0, 0));
  constexpr int32_t kLeast = std::numeric_limits<int32_t>::min();
  constexpr int32_t kMost = std::numeric_limits<int32_t>::max();
  EXPECT_THAT(Nearest<int32_t>(numbers, DType::kInt32),
              ElementsAre(128, 300, -128, kLeast, kMost, kLeast, 0));
}

}  // namespace
}  // namespace tessera
