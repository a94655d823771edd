#include <algorithm>
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

std::vector<Values> Copies(const ParameterMap&, const std::vector<Values>& in,
                           std::vector<Values>*) {
  return in;
}

/// Returns the integers of `dtype` nearest to the numbers, halves to the even one.
std::vector<Values> Nearest(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const std::string dtype = ParameterReader(parameters).Text("dtype", "");
  std::vector<Values> out = in;
  for (double& x : out[0].data) {
    if (dtype.find("int") == std::string::npos) continue;
    const double below = std::floor(x), rest = x - below;
    x = rest < 0.5 || (rest == 0.5 && std::fmod(below, 2) == 0) ? below : below + 1;
    if (dtype == "uint8") x = std::clamp(x, 0.0, 255.0);
    if (dtype == "int8") x = std::clamp(x, -128.0, 127.0);
  }
  return out;
}

OperatorRow AmpCastRow() {
  OperatorRow row;
  row.name = "amp_cast";
  row.takes_integers = true;
  row.shapes_follow_from_output = true;
  row.gradient_is_derivative = false;
  row.forward = Nearest;
  row.backward = CastGradient;
  const auto add = [&](const std::string& to, const std::vector<DType>& from, const Fill& fill) {
    row.cases.push_back({.name = "to_" + to + "_from_" + std::string(DTypeName(from[0])),
                         .parameters = {{"dtype", to}},
                         .inputs = {{2, 5}},
                         .fills = {fill},
                         .dtypes = from,
                         .fixed_types = {DType::kUnknown}});
  };
  // Exact in all types.
  const Fill eighths = Fill::Given({0, 1.75, -1.75, 100.5, 0.25, 3});
  for (const char* to : {"float64", "float32", "float16", "bfloat16"}) {
    add(to, RealDTypes(), eighths);
    add(to, {DType::kInt32, DType::kUint8, DType::kInt64, DType::kBool}, Fill::Integers(0, 1));
  }
  const Fill halves = Fill::Given({0.5, 1.5, 2.5, -0.5, -1.5, 2.75, -2.25, 100, 3, -3});
  for (const char* to : {"int32", "int64", "int8", "uint8"}) {
    add(to, {DType::kFloat32, DType::kFloat16, DType::kBFloat16}, halves);
  }
  row.cases.push_back({.name = "empty",
                       .parameters = {{"dtype", "float16"}},
                       .inputs = {{0, 3}},
                       .fixed_types = {DType::kUnknown}});
  row.cases.push_back({.name = "rank_0",
                       .parameters = {{"dtype", "float16"}},
                       .inputs = {TShape::OfRank(0)},
                       .fills = {eighths},
                       .fixed_types = {DType::kUnknown}});
  row.backward_tolerance = {.float64 = 1.2e-2, .float32 = 1.2e-2, .float16 = 1.2e-2};
  row.errors = {
      {.name = "without_type", .words = {"required", "dtype"}},
      {.name = "no_such_type", .parameters = {{"dtype", "float8"}}, .words = {"dtype", "float8"}},
  };
  return row;
}

OperatorRow AmpMulticastRow() {
  OperatorRow row;
  row.name = "amp_multicast";
  row.takes_integers = true;
  row.shapes_follow_from_output = true;
  row.gradient_is_derivative = false;
  row.forward = Copies;
  row.backward = CastGradient;
  const auto add = [&](const std::string& name, const ParameterMap& parameters,
                       const std::vector<DType>& types) {
    OperatorCase made = {.name = name,
                         .parameters = parameters,
                         .dtypes = {DType::kFloat32},
                         .fixed_types = types,
                         .shapes_follow_from_first = false};
    made.parameters["num_outputs"] = std::to_string(types.size());
    for (size_t i = 0; i < types.size(); ++i) {
      made.inputs.push_back({static_cast<index_t>(i), 3});
      made.fills.push_back(Fill::Given({0, 1, 100, 3}));
    }
    row.cases.push_back(made);
  };
  const std::vector<DType> mixed = {DType::kFloat16, DType::kFloat32, DType::kInt32,
                                    DType::kFloat64, DType::kBFloat16};
  add("widest", {}, mixed);
  add("narrowest", {{"cast_narrow", "True"}}, mixed);
  add("one", {}, {DType::kBFloat16});
  add("of_one_type", {}, {DType::kUnknown, DType::kUnknown});
  row.cases.back().dtypes = RealDTypes();
  add("integers", {}, {DType::kInt8, DType::kInt64, DType::kBool});
  for (Fill& fill : row.cases.back().fills) fill = Fill::Integers(0, 1);
  row.backward_tolerance = {.float64 = 1.2e-2, .float32 = 1.2e-2, .float16 = 1.2e-2};
  row.errors = {
      {.name = "without_count", .words = {"required", "num_outputs"}},
      {.name = "none", .parameters = {{"num_outputs", "0"}}, .words = {"num_outputs", "0"}},
      {.name = "negative", .parameters = {{"num_outputs", "-2"}}, .words = {"num_outputs", "-2"}},
  };
  return row;
}

const RowRegistration kAmpCast(AmpCastRow());
const RowRegistration kAmpMulticast(AmpMulticastRow());

}  // namespace
}  // namespace tessera::ops_testing
