// A batch normalization over several devices, which one device cannot compute.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

/// Calls _contrib_SyncBatchNorm of four numbers on one of two devices.
void Call(bool is_train) {
  const auto property =
      OperatorRegistry::Get().Create("_contrib_SyncBatchNorm", {{"key", "a"}, {"ndev", "2"}});
  const std::vector<TShape> shapes = {{2, 2}, {2}, {2}, {2}, {2}};
  const auto made = property->CreateOperator(Device::Cpu(), shapes,
                                             std::vector<DType>(shapes.size(), DType::kFloat32));
  std::vector<float> memory(4, 1);
  std::vector<TBlob> in, out;
  for (const TShape& shape : shapes) {
    in.emplace_back(memory.data(), shape, DType::kFloat32, Device::Cpu());
  }
  std::vector<float> results(4);
  for (const TShape& shape : {shapes[0], shapes[1], shapes[2]}) {
    out.emplace_back(results.data(), shape, DType::kFloat32, Device::Cpu());
  }
  const std::vector<OpReqType> req = {kWriteTo, kNullOp, kNullOp, kNullOp, kNullOp};
  made->Forward({.is_train = is_train}, in, req, out);
}

TEST(SeveralDevicesTest, TheStatisticsOfTheirBatchAreAnError) {
  EXPECT_NO_THROW(Call(/*is_train=*/false));
  try {
    Call(/*is_train=*/true);
    ADD_FAILURE() << "was not refused";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kUnimplemented);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("ndev is 2"));
  }
}

}  // namespace
}  // namespace tessera
