#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

std::vector<Values> Cast(const ParameterMap& parameters, const std::vector<Values>& in,
                         std::vector<Values>*) {
  const std::string dtype = ParameterReader(parameters).Text("dtype", "");
  std::vector<Values> out = in;
  for (double& x : out[0].data) {
    if (dtype.find("int") != std::string::npos) x = std::trunc(x);
    if (dtype == "uint8") x = static_cast<uint8_t>(static_cast<int64_t>(x));
    if (dtype == "int8") x = static_cast<int8_t>(static_cast<int64_t>(x));
    if (dtype == "bool") x = x != 0;
  }
  return out;
}

std::vector<Values> CastGradient(const ParameterMap&, const std::vector<Values>& out_grad,
                                 const std::vector<Values>&, const std::vector<Values>&) {
  return out_grad;
}

OperatorCase CaseOf(const std::string& to, const std::vector<DType>& from,
                    const std::vector<double>& values = {0, 1.75, -1.75, 100.5, 0.25, 3}) {
  return {.name = "to_" + to,
          .parameters = {{"dtype", to}},
          .inputs = {{2, 5}},
          .fills = {Fill::Given(values)},
          .dtypes = from,
          .fixed_types = {DType::kUnknown}};
}

const RowRegistration kCast({
    .name = "Cast",
    .cases =
        {
            CaseOf("float32", RealDTypes()),
            CaseOf("float64", RealDTypes()),
            CaseOf("float16", {DType::kFloat16, DType::kFloat32, DType::kFloat64}),
            CaseOf("bfloat16", {DType::kBFloat16, DType::kFloat32}),
            CaseOf("int32", RealDTypes()),
            CaseOf("int64", RealDTypes()),
            CaseOf("int8", {DType::kFloat64, DType::kFloat32, DType::kFloat16},
                   {0, 1.75, 300.5, -246.5, -1.75, 100}),
            CaseOf("uint8", {DType::kFloat64, DType::kFloat32}, {0, 1.75, 300.5, -246.5, 100, 3}),
            CaseOf("bool", {DType::kFloat32, DType::kFloat64}),
            {.name = "float32_of_integers",
             .parameters = {{"dtype", "float32"}},
             .inputs = {{9}},
             .fills = {Fill::Integers(0, 99)},
             .dtypes = {DType::kInt32, DType::kInt64, DType::kUint8, DType::kInt8},
             .fixed_types = {DType::kUnknown},
             .large = true},
            {.name = "empty",
             .parameters = {{"dtype", "int32"}},
             .inputs = {{0, 3}},
             .fixed_types = {DType::kUnknown}},
        },
    .forward = Cast,
    .backward =
        [](const ParameterMap& parameters, const std::vector<Values>& out_grad,
           const std::vector<Values>& in, const std::vector<Values>& out) {
          std::vector<Values> gradient = CastGradient(parameters, out_grad, in, out);
          // Only the case of integers has as many elements; their gradients are integers.
          if (in[0].size() == 9) {
            for (double& x : gradient[0].data) x = std::trunc(x);
          }
          return gradient;
        },
    .gradient_is_derivative = false,
    .shapes_follow_from_output = true,
    .takes_integers = true,
    .forward_tolerance = {.float64 = 1.2e-2, .float32 = 1.2e-2, .float16 = 1.2e-2},
    .backward_tolerance = {.float64 = 1.2e-2, .float32 = 1.2e-2, .float16 = 1.2e-2},
    .errors = {{.name = "no_such_type",
                .parameters = {{"dtype", "float128"}},
                .words = {"dtype", "float128"}}},
});

const RowRegistration kCopyTo({
    .name = "_copyto",
    .cases =
        {
            {.name = "rank_2", .inputs = {{3, 4}}, .fixed_types = {DType::kUnknown}},
            {.name = "integers",
             .inputs = {{3, 4}},
             .fills = {Fill::Integers(0, 9)},
             .dtypes = {DType::kInt32, DType::kUint8},
             .fixed_types = {DType::kUnknown}},
            {.name = "empty", .inputs = {{0}}, .fixed_types = {DType::kUnknown}},
        },
    .forward = [](const ParameterMap&, const std::vector<Values>& in,
                  std::vector<Values>*) { return in; },
    .shapes_follow_from_output = true,
    .takes_integers = true,
});

}  // namespace
}  // namespace tessera::ops_testing
