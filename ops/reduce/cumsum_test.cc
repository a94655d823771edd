#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Data seen as (outer, n, inner), of which rows of n elements are summed.
struct Layout {
  index_t n, inner = 1;
  Layout(const ParameterMap& parameters, const TShape& data) : n(data.Size()) {
    if (ParameterReader(parameters).Text("axis", "None") == "None") return;
    int axis = static_cast<int>(ParameterReader(parameters).Int("axis", 0));
    if (axis < 0) axis += data.ndim();
    n = data[axis];
    inner = data.ProdShape(axis + 1, data.ndim());
  }
  bool IsFirst(index_t i) const { return i / inner % n == 0; }
  bool IsLast(index_t i) const { return i / inner % n == n - 1; }
};

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const Layout l(parameters, in[0].shape);
  Values out = in[0];
  const ParameterReader reader(parameters);
  if (reader.Text("axis", "None") == "None") out.shape = {in[0].size()};
  if (reader.Text("dtype", "None").substr(0, 3) == "int") {
    for (double& x : out.data) x = std::trunc(x);
  }
  for (index_t i = 0; i < out.size(); ++i) {
    if (!l.IsFirst(i)) out[i] += out[i - l.inner];
  }
  return {out};
}

std::vector<Values> Backward(const ParameterMap& parameters, const std::vector<Values>& out_grad,
                             const std::vector<Values>& in, const std::vector<Values>&) {
  const Layout l(parameters, in[0].shape);
  Values grad(in[0].shape);
  grad.data = out_grad[0].data;
  for (index_t i = grad.size() - 1; i >= 0; --i) {
    if (!l.IsLast(i)) grad[i] += grad[i + l.inner];
  }
  return {grad};
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_np_cumsum";
  row.takes_integers = true;
  row.batch_follows_from_output = false;
  row.forward = Forward;
  row.backward = Backward;
  const auto add = [&](const std::string& name, const ParameterMap& parameters,
                       const TShape& shape) -> OperatorCase& {
    return row.cases.emplace_back(
        OperatorCase{.name = name, .parameters = parameters, .inputs = {shape}});
  };
  add("flat", {}, {2, 3, 4});
  add("scalar", {}, TShape::OfRank(0));
  add("rows", {{"axis", "-1"}}, {3, 5});
  add("columns", {{"axis", "0"}}, {4, 5});
  add("middle", {{"axis", "1"}}, {2, 3, 4});
  add("empty_rows", {{"axis", "1"}}, {2, 0, 4});
  add("empty", {}, {0, 3});
  OperatorCase& wider = add("wider", {{"axis", "0"}, {"dtype", "float64"}}, {5, 3});
  wider.dtypes = {DType::kFloat32, DType::kFloat16};
  wider.fixed_types = {DType::kUnknown};
  OperatorCase& to_integers = add("to_integers", {{"axis", "1"}, {"dtype", "int32"}}, {2, 7});
  to_integers.fills = {Fill::Given({1.75, -0.5, 2.5, -3.75, 0.25, 9})};
  to_integers.dtypes = {DType::kFloat32, DType::kFloat16};
  to_integers.fixed_types = {DType::kUnknown};
  to_integers.large = true;
  OperatorCase& integers = add("integers", {{"axis", "0"}}, {4, 3});
  integers.fills = {Fill::Integers(0, 9)};
  integers.dtypes = {DType::kInt32, DType::kInt64, DType::kInt8, DType::kUint8};
  integers.large = true;
  for (const std::string axis : {"0", "1", "None"}) {
    OperatorCase& parallel = add("parallel_" + axis, {{"axis", axis}}, {150, 700});
    parallel.dtypes = {DType::kFloat32, DType::kFloat16};
    parallel.large = true;
  }
  row.errors = {
      {.name = "axis_outside",
       .parameters = {{"axis", "2"}},
       .inputs = {{3, 4}},
       .words = {"axis", "2", "(3,4)"}},
      {.name = "no_such_type", .parameters = {{"dtype", "int1"}}, .words = {"dtype", "int1"}},
  };
  row.forward_tolerance = {
      .float64 = 1e-14, .float32 = 1e-6, .float16 = 1.5e-3, .bfloat16 = 1.2e-2, .of_largest = true};
  row.backward_tolerance = row.forward_tolerance;
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
