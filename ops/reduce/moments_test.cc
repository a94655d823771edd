#include <string>
#include <vector>

#include "tessera/ops/reduce/reduction_reference.h"
#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// The number of elements in each mean.
double CountOf(const Values& data, const Values& mean) {
  return static_cast<double>(data.size()) / static_cast<double>(mean.size());
}

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const std::vector<bool> reduced = ReferenceAxes(parameters, in[0].shape.ndim(), "axes");
  const bool keepdims = ParameterReader(parameters).Bool("keepdims", false);
  Values mean(ReferenceShape(in[0].shape, reduced, keepdims)), variance(mean.shape);
  const double n = CountOf(in[0], mean);
  const auto target = [&](index_t i) { return ReferenceTarget(in[0].shape, reduced, i); };
  for (index_t i = 0; i < in[0].size(); ++i) mean[target(i)] += in[0][i] / n;
  for (index_t i = 0; i < in[0].size(); ++i) {
    const double difference = in[0][i] - mean[target(i)];
    variance[target(i)] += difference * difference / n;
  }
  return {mean, variance};
}

std::vector<Values> Backward(const ParameterMap& parameters, const std::vector<Values>& out_grad,
                             const std::vector<Values>& in, const std::vector<Values>& out) {
  const std::vector<bool> reduced = ReferenceAxes(parameters, in[0].shape.ndim(), "axes");
  Values grad(in[0].shape);
  for (index_t i = 0; i < grad.size(); ++i) {
    const index_t target = ReferenceTarget(in[0].shape, reduced, i);
    const double of_variance = 2 * out_grad[1][target] * (in[0][i] - out[0][target]);
    grad[i] = (out_grad[0][target] + of_variance) / CountOf(in[0], out[0]);
  }
  return {grad};
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "moments";
  row.takes_integers = true;
  row.batch_follows_from_output = false;
  row.forward = Forward;
  row.backward = Backward;
  const auto add = [&](const std::string& name, const ParameterMap& parameters,
                       const TShape& shape) -> OperatorCase& {
    return row.cases.emplace_back(OperatorCase{.name = name,
                                               .parameters = parameters,
                                               .inputs = {shape},
                                               .fills = {Fill::Uniform(-1, 3)}});
  };
  add("all", {{"axes", "(0, 1)"}}, {3, 4});
  add("rows", {{"axes", "-1"}}, {3, 5});
  add("columns", {{"axes", "(0,)"}}, {4, 5});
  add("middle", {{"axes", "1"}, {"keepdims", "True"}}, {2, 3, 4});
  add("two_axes", {{"axes", "(0, 2)"}}, {2, 3, 4});
  add("one_element", {{"axes", "1"}}, {3, 1});
  add("empty", {{"axes", "1"}}, {0, 3});
  OperatorCase& integers = add("integers", {{"axes", "1"}}, {3, 1});
  integers.fills = {Fill::Integers(0, 9)};
  integers.dtypes = {DType::kInt32, DType::kInt64, DType::kUint8};
  integers.large = true;
  OperatorCase& parallel = add("parallel", {{"axes", "(0, 2)"}}, {40, 3, 700});
  parallel.dtypes = {DType::kFloat32, DType::kBFloat16};
  parallel.large = true;
  row.errors = {
      {.name = "no_axes", .inputs = {{2, 3}}, .words = {"axes"}},
      {.name = "axis_outside",
       .parameters = {{"axes", "(0, 2)"}},
       .inputs = {{2, 3}},
       .words = {"axis 2", "rank 2"}},
      {.name = "axis_twice",
       .parameters = {{"axes", "(1, -1)"}},
       .inputs = {{2, 3}},
       .words = {"twice"}},
  };
  row.forward_tolerance = {.float64 = 1e-14, .float32 = 2e-6, .float16 = 2e-3, .bfloat16 = 1.6e-2};
  row.backward_tolerance = {.float64 = 1e-13, .float32 = 2e-6, .float16 = 4e-3, .bfloat16 = 3e-2};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
