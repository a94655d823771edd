// Element types that an operator's inputs do not determine, or that differ from each other.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ops/registry.h"

namespace tessera {
namespace {

using Types = std::vector<DType>;
using enum DType;

/// Infers `in` and `out` and returns whether all types are known.
bool Infer(const char* op, const ParameterMap& parameters, Types* in, Types* out) {
  return OperatorRegistry::Get().Create(op, parameters)->InferType(in, out);
}

TEST(TypeInferenceTest, AmpCastConvertsFloatingPointTypesButFloat64) {
  for (const DType dtype : {kFloat64, kFloat32, kFloat16, kBFloat16, kInt32, kUint8, kBool}) {
    Types in = {dtype}, out = {kUnknown};
    EXPECT_TRUE(Infer("amp_cast", {{"dtype", "float16"}}, &in, &out));
    EXPECT_EQ(out, Types{IsReal(dtype) && dtype != kFloat64 ? kFloat16 : dtype});
  }
  // Arrays of several types have such a cast.
  Types in = {kUnknown}, out = {kFloat16};
  EXPECT_FALSE(Infer("amp_cast", {{"dtype", "float16"}}, &in, &out));
  EXPECT_EQ(in, Types{kUnknown});
  in = {kFloat32};
  out = {kFloat32};
  EXPECT_THROW(Infer("amp_cast", {{"dtype", "float16"}}, &in, &out), Error);
}

TEST(TypeInferenceTest, AmpMulticastChoosesTheWidestOrTheNarrowestType) {
  const auto out_of = [](Types in, const char* cast_narrow) {
    Types out(in.size(), kUnknown);
    const bool known = Infer(
        "amp_multicast", {{"num_outputs", std::to_string(in.size())}, {"cast_narrow", cast_narrow}},
        &in, &out);
    return known ? out : Types();
  };
  EXPECT_EQ(out_of({kFloat16, kInt32, kFloat32}, "False"), Types({kFloat32, kInt32, kFloat32}));
  EXPECT_EQ(out_of({kFloat16, kInt32, kFloat32}, "True"), Types({kFloat16, kInt32, kFloat16}));
  EXPECT_EQ(out_of({kFloat32, kFloat64, kFloat16}, "False"), Types({kFloat64, kFloat64, kFloat64}));
  EXPECT_EQ(out_of({kBFloat16, kFloat16}, "False"), Types({kBFloat16, kBFloat16}));
  EXPECT_EQ(out_of({kInt8, kInt64}, "False"), Types({kInt8, kInt64}));
  EXPECT_EQ(out_of({kFloat16, kUnknown}, "False"), Types());
}

TEST(TypeInferenceTest, UntypedZerosHaveTheTypeOfTheirReader) {
  Types in, out = {kUnknown};
  EXPECT_FALSE(Infer("_zeros_without_dtype", {{"shape", "(2,)"}}, &in, &out));
  out = {kFloat16};
  EXPECT_TRUE(Infer("_zeros_without_dtype", {{"shape", "(2,)"}}, &in, &out));
  EXPECT_EQ(out, Types{kFloat16});
  EXPECT_THROW(Infer("_zeros_without_dtype", {{"shape", "(2,)"}, {"dtype", "0"}}, &in, &out),
               Error);
}

}  // namespace
}  // namespace tessera
