// add_n of integers, which the rows of operators do not try.
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

/// Returns the sum of arrays of one element type, added to `before` if the request is kAddTo.
template <typename T>
std::vector<T> Sum(DType dtype, std::vector<std::vector<T>> parts, OpReqType req = kWriteTo,
                   std::vector<T> before = {}) {
  const TShape shape = {static_cast<index_t>(parts[0].size())};
  std::vector<T> out = before.empty() ? std::vector<T>(parts[0].size()) : before;
  std::vector<TBlob> blobs;
  for (std::vector<T>& part : parts) blobs.emplace_back(part.data(), shape, dtype, Device::Cpu());
  const auto property =
      OperatorRegistry::Get().Create("add_n", {{"num_args", std::to_string(parts.size())}});
  const auto op = property->CreateOperator(Device::Cpu(), std::vector<TShape>(parts.size(), shape),
                                           std::vector<DType>(parts.size(), dtype));
  const TBlob target(out.data(), shape, dtype, Device::Cpu());
  op->Forward({}, blobs, {&req, 1}, {&target, 1});
  return out;
}

TEST(AddIntegersTest, AddsEveryWidthAndWrapsAround) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(Sum<int32_t>(DType::kInt32, {{1, -2}, {10, 20}, {100, 200}}), ElementsAre(111, 218));
  EXPECT_THAT(Sum<int64_t>(DType::kInt64, {{kMost}, {2}}),
              ElementsAre(std::numeric_limits<int64_t>::min() + 1));
  EXPECT_THAT(Sum<uint8_t>(DType::kUint8, {{250, 1}, {10, 2}}), ElementsAre(4, 3));
  EXPECT_THAT(Sum<int8_t>(DType::kInt8, {{-100}}), ElementsAre(-100));
}

TEST(AddIntegersTest, RequestsAreKept) {
  EXPECT_THAT(Sum<int32_t>(DType::kInt32, {{1}, {2}}, kAddTo, {5}), ElementsAre(8));
  EXPECT_THAT(Sum<int32_t>(DType::kInt32, {{1}, {2}}, kNullOp, {5}), ElementsAre(5));
}

}  // namespace
}  // namespace tessera
