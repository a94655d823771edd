// Lengths that only their values show to be wrong, which no row can hold.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

/// Calls an operator of sequences of up to 3 steps, with these lengths.
void Call(const std::string& op, std::vector<float> lengths) {
  const auto property = OperatorRegistry::Get().Create(op, {{"use_sequence_length", "True"}});
  const index_t batch = static_cast<index_t>(lengths.size());
  std::vector<TShape> in_shape = {{3, batch}, {batch}}, out_shape(1);
  property->InferShape(&in_shape, &out_shape);
  const DType types[] = {DType::kFloat32, DType::kFloat32};
  const auto created = property->CreateOperator(Device::Cpu(), in_shape, types);
  std::vector<float> data(lengths.size() * 3), out(lengths.size() * 3);
  const auto blob = [](std::vector<float>* values, const TShape& shape) {
    return TBlob(values->data(), shape, DType::kFloat32, Device::Cpu());
  };
  const TBlob in_data[] = {blob(&data, in_shape[0]), blob(&lengths, in_shape[1])};
  const TBlob out_data[] = {blob(&out, out_shape[0])};
  const OpReqType req[] = {kWriteTo};
  created->Forward({}, in_data, req, out_data);
}

void ExpectRefused(const std::string& op, const std::vector<float>& lengths,
                   const std::string& message) {
  try {
    Call(op, lengths);
    ADD_FAILURE() << op << " took a length outside of its range";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Error::kOutOfRange) << error.what();
    EXPECT_THAT(error.what(), ::testing::HasSubstr(message));
  }
}

TEST(SequenceLengthsTest, AreRefusedOutsideOfTheSteps) {
  ExpectRefused("SequenceLast", {2, 0}, "sequence_length[1] is 0, expected 1 to 3");
  ExpectRefused("SequenceLast", {4, 1}, "sequence_length[0] is 4, expected 1 to 3");
  ExpectRefused("SequenceReverse", {1, 2, 4}, "sequence_length[2] is 4, expected 0 to 3");
  for (const std::string op : {"SequenceMask", "SequenceLast", "SequenceReverse"}) {
    ExpectRefused(op, {1, -1}, "sequence_length[1] is -1");
    ExpectRefused(op, {1, -1e30f}, "sequence_length[1] is -9223372036854775808");
    ExpectRefused(op, {1, NAN}, "sequence_length[1] is nan");
  }
}

}  // namespace
}  // namespace tessera
