// erfinv over all of its range, in units in the last place.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

std::vector<float> ErfInverse(std::vector<float> data) {
  const TShape shape = {static_cast<index_t>(data.size())};
  std::vector<float> result(data.size());
  const auto property = OperatorRegistry::Get().Create("erfinv", {});
  const auto op = property->CreateOperator(Device::Cpu(), std::vector<TShape>{shape},
                                           std::vector<DType>{DType::kFloat32});
  const TBlob in(data.data(), shape, DType::kFloat32, Device::Cpu());
  const TBlob out(result.data(), shape, DType::kFloat32, Device::Cpu());
  const OpReqType req = kWriteTo;
  op->Forward({}, {&in, 1}, {&req, 1}, {&out, 1});
  return result;
}

/// Returns the inverse of erf for 0 < y < 1 by bisection.
double Reference(double y) {
  double low = 0, high = 6;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    // erfc keeps its digits where y is near 1.
    const bool below = y < 0.5 ? std::erf(middle) < y : std::erfc(middle) > 1 - y;
    (below ? low : high) = middle;
  }
  return low;
}

TEST(ErfInverseTest, IsWithinFourUlp) {
  std::vector<float> arguments;
  for (int i = 1; i < 1000; ++i) arguments.push_back(static_cast<float>(i) / 1000);
  for (int i = 1; i <= 24; ++i) {
    for (const double factor : {1.0, 1.3, 1.7}) {
      const double distance = std::ldexp(factor, -i);
      if (distance < 1) arguments.push_back(static_cast<float>(1 - distance));
    }
  }
  arguments.push_back(std::nextafter(1.0f, 0.0f));
  const std::vector<float> results = ErfInverse(arguments);
  for (float& argument : arguments) argument = -argument;
  const std::vector<float> opposites = ErfInverse(arguments);
  for (size_t i = 0; i < results.size(); ++i) {
    if (arguments[i] == -1) continue;
    const double exact = Reference(-static_cast<double>(arguments[i]));
    const float rounded = static_cast<float>(exact);
    const double ulp = static_cast<double>(
        std::nextafter(rounded, std::numeric_limits<float>::infinity()) - rounded);
    EXPECT_LE(std::abs(static_cast<double>(results[i]) - exact), 4 * ulp) << -arguments[i];
    EXPECT_EQ(opposites[i], -results[i]) << arguments[i];
  }
}

TEST(ErfInverseTest, HasLimitsAndSmallArguments) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> results =
      ErfInverse({1, -1, 0.0f, -0.0f, 1.5f, -infinity, std::nanf(""), 1e-30f});
  EXPECT_EQ(results[0], infinity);
  EXPECT_EQ(results[1], -infinity);
  EXPECT_EQ(results[2], 0);
  EXPECT_FALSE(std::signbit(results[2]));
  EXPECT_EQ(results[3], 0);
  EXPECT_TRUE(std::signbit(results[3]));
  for (const size_t i : {4, 5, 6}) EXPECT_TRUE(std::isnan(results[i])) << i;
  // sqrt(pi) / 2 times the argument.
  EXPECT_FLOAT_EQ(results[7], 8.8622693e-31f);
}

}  // namespace
}  // namespace tessera
