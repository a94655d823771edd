#include <cmath>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

OperatorRow QuadraticRow() {
  OperatorRow row;
  row.name = "_contrib_quadratic";
  row.shapes_follow_from_output = true;
  row.takes_integers = true;
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    const ParameterReader read(parameters);
    std::vector<Values> out = {in[0]};
    for (double& x : out[0].data) {
      x = read.Real("a", 0) * x * x + read.Real("b", 0) * x + read.Real("c", 0);
    }
    return out;
  };
  row.backward = [](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    const ParameterReader read(parameters);
    std::vector<Values> in_grad = {in[0]};
    for (size_t i = 0; i < in[0].data.size(); ++i) {
      in_grad[0].data[i] =
          out_grad[0].data[i] * (2 * read.Real("a", 0) * in[0].data[i] + read.Real("b", 0));
    }
    return in_grad;
  };
  const ParameterMap all = {{"a", "1.5"}, {"b", "-0.5"}, {"c", "2"}};
  row.cases = {
      {.name = "all", .parameters = all, .inputs = {{5, 7}}},
      {.name = "defaults", .inputs = {{3}}},
      {.name = "linear", .parameters = {{"b", "0.25"}}, .inputs = {{2, 3, 2}}},
      {.name = "square", .parameters = {{"a", "-1"}}, .inputs = {{37}}},
      {.name = "rank_0", .parameters = all, .inputs = {TShape::OfRank(0)}},
      {.name = "of_nothing", .parameters = all, .inputs = {{0, 2}}},
      {.name = "parallel", .parameters = all, .inputs = {{90, 1000}}, .large = true},
  };
  row.errors = {{.name = "a_is_text", .parameters = {{"a", "x"}}, .words = {"a", "x"}}};
  return row;
}

OperatorRow DivSqrtDimRow() {
  OperatorRow row;
  row.name = "_contrib_div_sqrt_dim";
  row.shapes_follow_from_output = true;
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    std::vector<Values> out = {in[0]};
    const TShape& shape = in[0].shape;
    for (double& x : out[0].data) x /= std::sqrt(static_cast<double>(shape[shape.ndim() - 1]));
    return out;
  };
  row.cases = {
      {.name = "cube", .inputs = {{2, 3, 8}}},
      {.name = "vector", .inputs = {{7}}},
      {.name = "one_element", .inputs = {{3, 1}}},
      {.name = "of_nothing", .inputs = {{2, 0}}},
  };
  row.errors = {{.name = "scalar", .inputs = {TShape::OfRank(0)}, .words = {"data", "scalar"}}};
  return row;
}

const RowRegistration kQuadratic(QuadraticRow());
const RowRegistration kDivSqrtDim(DivSqrtDimRow());

}  // namespace
}  // namespace tessera::ops_testing
