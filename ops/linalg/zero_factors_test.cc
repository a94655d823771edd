// Operands with a factor 0, which are not read and may hold NaN, as in BLAS.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/registry.h"

namespace tessera {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

/// Returns the output of an operator of 2 x 2 matrices.
std::vector<float> Call(const std::string& op, const ParameterMap& parameters,
                        std::vector<std::vector<float>> inputs) {
  const auto property = OperatorRegistry::Get().Create(op, parameters);
  const std::vector<TShape> shapes(inputs.size(), TShape{2, 2});
  const std::vector<DType> types(inputs.size(), DType::kFloat32);
  const auto made = property->CreateOperator(Device::Cpu(), shapes, types);
  std::vector<float> out(4, NAN);
  std::vector<TBlob> in;
  for (std::vector<float>& input : inputs) {
    in.emplace_back(input.data(), TShape{2, 2}, DType::kFloat32, Device::Cpu());
  }
  const TBlob outputs[] = {TBlob(out.data(), {2, 2}, DType::kFloat32, Device::Cpu())};
  const OpReqType req[] = {kWriteTo};
  made->Forward({}, in, req, outputs);
  return out;
}

const std::vector<float> kNan(4, NAN);

TEST(ZeroFactorsTest, BetaZeroLeavesOutC) {
  EXPECT_THAT(Call("_linalg_gemm", {{"beta", "0"}}, {{1, 2, 3, 4}, {1, 0, 0, 1}, kNan}),
              ElementsAre(1, 2, 3, 4));
}

TEST(ZeroFactorsTest, AlphaZeroLeavesOutTheMatrices) {
  const ParameterMap zero = {{"alpha", "0"}};
  EXPECT_THAT(Call("_linalg_gemm", {{"alpha", "0"}, {"beta", "2"}}, {kNan, kNan, {1, 2, 3, 4}}),
              ElementsAre(2, 4, 6, 8));
  EXPECT_THAT(Call("_linalg_gemm2", zero, {kNan, kNan}), Each(0));
  EXPECT_THAT(Call("_linalg_syrk", zero, {kNan}), Each(0));
  EXPECT_THAT(Call("_linalg_trmm", zero, {{1, 0, 1, 1}, kNan}), Each(0));
  EXPECT_THAT(Call("_linalg_trsm", zero, {{1, 0, 1, 1}, kNan}), Each(0));
}

}  // namespace
}  // namespace tessera
