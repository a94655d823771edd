// Events of Hawkes processes that only their values show to be wrong, which no row can hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

/// Returns the error of a call with two samples of up to three events of two processes.
std::string Refusal(std::vector<int32_t> marks, std::vector<float> lengths) {
  const auto property = OperatorRegistry::Get().Create("_contrib_hawkesll", {});
  std::vector<TShape> in_shape = {{2, 2}, {2}, {2}, {2, 2}, {2, 3}, {2, 3}, {2}, {2}};
  std::vector<TShape> out_shape(2);
  property->InferShape(&in_shape, &out_shape);
  std::vector<DType> types(8, DType::kFloat32);
  types[5] = DType::kInt32;
  const auto created = property->CreateOperator(Device::Cpu(), in_shape, types);
  std::vector<float> ones(6, 1), output(2), out_state(4);
  std::vector<TBlob> in;
  for (const TShape& shape : in_shape) {
    in.emplace_back(ones.data(), shape, DType::kFloat32, Device::Cpu());
  }
  in[5] = TBlob(marks.data(), in_shape[5], DType::kInt32, Device::Cpu());
  in[6] = TBlob(lengths.data(), in_shape[6], DType::kFloat32, Device::Cpu());
  const TBlob out[] = {TBlob(output.data(), out_shape[0], DType::kFloat32, Device::Cpu()),
                       TBlob(out_state.data(), out_shape[1], DType::kFloat32, Device::Cpu())};
  const OpReqType req[] = {kWriteTo, kWriteTo};
  try {
    created->Forward({}, in, req, out);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kOutOfRange);
    return error.what();
  }
  return "accepted";
}

TEST(HawkesValuesTest, MarksAreProcesses) {
  EXPECT_EQ(Refusal({0, 1, 0, 1, 1, 1}, {3, 3}), "accepted");
  EXPECT_THAT(Refusal({0, 1, 0, 1, 2, 1}, {3, 3}),
              ::testing::HasSubstr("marks[1, 1] is 2, expected a process from 0 to 1"));
  EXPECT_THAT(Refusal({-1, 1, 0, 1, 0, 1}, {3, 3}), ::testing::HasSubstr("marks[0, 0] is -1"));
  EXPECT_EQ(Refusal({0, 1, 9, 9, 9, 9}, {2, 0}), "accepted");
}

TEST(HawkesValuesTest, LengthsAreNumbersOfSteps) {
  EXPECT_THAT(Refusal({0, 0, 0, 0, 0, 0}, {1, 4}),
              ::testing::HasSubstr("valid_length[1] is 4, expected 0 to 3"));
  EXPECT_THAT(Refusal({0, 0, 0, 0, 0, 0}, {-1, 0}), ::testing::HasSubstr("valid_length[0] is -1"));
  EXPECT_THAT(Refusal({0, 0, 0, 0, 0, 0}, {NAN, 0}),
              ::testing::HasSubstr("valid_length[0] is nan"));
}

}  // namespace
}  // namespace tessera
