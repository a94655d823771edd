#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/reduce/reduction_reference.h"
#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const ParameterReader reader(parameters);
  const std::vector<bool> reduced = ReferenceAxes(parameters, in[0].shape.ndim());
  Values out(ReferenceShape(in[0].shape, reduced, reader.Bool("keepdims", false)));
  const bool absolute = reader.Int("ord", 2) == 1;
  for (index_t i = 0; i < in[0].size(); ++i) {
    const double x = in[0][i];
    out[ReferenceTarget(in[0].shape, reduced, i)] += absolute ? std::abs(x) : x * x;
  }
  if (!absolute) {
    for (double& y : out.data) y = std::sqrt(y);
  }
  return {out};
}

std::vector<Values> Backward(const ParameterMap& parameters, const std::vector<Values>& out_grad,
                             const std::vector<Values>& in, const std::vector<Values>& out) {
  const std::vector<bool> reduced = ReferenceAxes(parameters, in[0].shape.ndim());
  const bool absolute = ParameterReader(parameters).Int("ord", 2) == 1;
  Values grad(in[0].shape);
  for (index_t i = 0; i < grad.size(); ++i) {
    const index_t target = ReferenceTarget(in[0].shape, reduced, i);
    const double x = in[0][i], g = out_grad[0][target];
    const double sign = x > 0 ? 1 : x < 0 ? -1 : 0;
    grad[i] = g * (absolute || out[0][target] == 0 ? sign : x / out[0][target]);
  }
  return {grad};
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "norm";
  row.takes_integers = true;
  row.batch_follows_from_output = false;
  row.forward = Forward;
  row.backward = Backward;
  for (const std::string ord : {"2", "1"}) {
    const auto add = [&](const std::string& name, ParameterMap parameters,
                         const TShape& shape) -> OperatorCase& {
      parameters["ord"] = ord;
      return row.cases.emplace_back(OperatorCase{.name = name + "_" + ord,
                                                 .parameters = std::move(parameters),
                                                 .inputs = {shape},
                                                 .fills = {Fill::Distinct()}});
    };
    add("all", {}, {3, 4});
    add("none_listed", {{"axis", "()"}, {"keepdims", "True"}}, {3, 4});
    add("rows", {{"axis", "1"}}, {3, 5});
    add("columns", {{"axis", "(0,)"}}, {4, 5});
    add("middle", {{"axis", "1"}, {"keepdims", "True"}}, {2, 3, 4});
    add("two_axes", {{"axis", "(0, -1)"}}, {2, 3, 4});
    add("empty", {{"axis", "1"}}, {0, 3});
    OperatorCase& wider = add("wider", {{"axis", "0"}, {"out_dtype", "float64"}}, {5, 3});
    wider.dtypes = {DType::kFloat32, DType::kFloat16};
    wider.large = ord == "1";  // absolute values of float32 are summed in float32
    wider.fixed_types = {DType::kUnknown};
    OperatorCase& narrower = add("narrower", {{"axis", "0"}, {"out_dtype", "float16"}}, {2, 2});
    narrower.fills = {Fill::Given({5, 0, 0, 5})};  // float16 has the results
    narrower.large = true;
    narrower.dtypes = {DType::kFloat32, DType::kFloat64};
    narrower.fixed_types = {DType::kUnknown};
    OperatorCase& integers = add("integers", {{"axis", "1"}}, {2, 2});
    integers.fills = {Fill::Given({5, 0, 0, 5})};
    integers.dtypes = {DType::kInt32, DType::kInt64, DType::kInt8, DType::kUint8};
    integers.large = true;
    OperatorCase& special = add("of_zeros_and_nan", {{"axis", "1"}}, {3, 2});
    special.fills = {Fill::Given({0, 0, std::numeric_limits<double>::quiet_NaN(), 1, -3, 4})};
    special.large = true;
    if (ord == "1") special.fills = {Fill::Given({0, 0, 2, 1, -3, 4})};
    OperatorCase& huge = add("huge", {{"axis", "1"}}, {2, 3});
    huge.fills = {Fill::Given({1e30, -2e30, 1e29, 3e-30, 1e-30, 4e-30})};
    huge.dtypes = {DType::kFloat32, DType::kFloat64, DType::kBFloat16};
    huge.large = true;
    OperatorCase& parallel = add("parallel", {{"axis", "(0, 2)"}}, {50, 3, 700});
    parallel.dtypes = {DType::kFloat32, DType::kBFloat16};
    parallel.large = true;
  }
  row.errors = {{.name = "axis_too_large",
                 .parameters = {{"axis", "2"}},
                 .inputs = {{2, 3}},
                 .words = {"axis 2", "rank 2"}},
                {.name = "ord_3", .parameters = {{"ord", "3"}}, .words = {"ord", "3"}},
                {.name = "no_such_type",
                 .parameters = {{"out_dtype", "float128"}},
                 .words = {"out_dtype", "float128"}}};
  row.forward_tolerance = {
      .float64 = 1e-13, .float32 = 4e-6, .float16 = 2e-3, .bfloat16 = 1.6e-2, .of_largest = true};
  row.backward_tolerance = {.float64 = 1e-13, .float32 = 2e-6, .float16 = 4e-3, .bfloat16 = 3e-2};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
