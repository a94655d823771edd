#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

OperatorRow Row(const std::string& name) {
  OperatorRow row;
  row.name = name;
  row.forward = [name](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    std::vector<Values> out = {in[0]};
    if (name == "LogisticRegressionOutput") {
      for (double& x : out[0].data) x = 1 / (1 + std::exp(-x));
    }
    return out;
  };
  row.backward = [name](const ParameterMap& parameters, const std::vector<Values>&,
                        const std::vector<Values>& in, const std::vector<Values>& out) {
    std::vector<Values> grad = {Values(in[0].shape), Values(in[1].shape)};
    const double scale = ParameterReader(parameters).Real("grad_scale", 1);
    for (index_t i = 0; i < out[0].size(); ++i) {
      const double difference = out[0][i] - in[1][i];
      const double labels = static_cast<double>(in[0].shape.ProdShape(1, in[0].shape.ndim()));
      const double slope = name == "MAERegressionOutput" ? (difference > 0 ? 1 : -1) : difference;
      grad[0][i] = slope * scale / labels;
    }
    return grad;
  };
  row.gradient_is_derivative = false;
  row.batch_follows_from_output = true;
  row.cases = {
      {.name = "matrix", .inputs = {{3, 4}, {3, 4}}},
      {.name = "column", .inputs = {{5, 1}, {5}}},
      {.name = "column_of_columns", .inputs = {{5, 1}, {5, 1}}, .shapes_follow_from_first = false},
      {.name = "vector", .inputs = {{7}, {7}}},
      {.name = "label_of_other_rank",
       .inputs = {{3, 2, 1}, {3, 2}},
       .shapes_follow_from_first = false},
      {.name = "scaled", .parameters = {{"grad_scale", "2.5"}}, .inputs = {{2, 3, 4}, {2, 3, 4}}},
      {.name = "some_equal",
       .inputs = {{3, 4}, {3, 4}},
       .fills = {Fill::Integers(0, 2), Fill::Integers(0, 2)}},
      {.name = "batch_0", .inputs = {{0, 4}, {0, 4}}},
  };
  row.errors = {
      {.name = "other_batch", .inputs = {{3, 4}, {4, 3}}, .words = {"label", "(4,3)", "(3,4)"}},
      {.name = "other_size", .inputs = {{3, 4}, {3, 3}}, .words = {"label", "(3,3)", "(3,4)"}},
      {.name = "scalar", .inputs = {TShape::OfRank(0)}, .words = {"data", "scalar"}},
  };
  return row;
}

const RowRegistration kRows[] = {
    RowRegistration(Row("LinearRegressionOutput")),
    RowRegistration(Row("LogisticRegressionOutput")),
    RowRegistration(Row("MAERegressionOutput")),
};

}  // namespace
}  // namespace tessera::ops_testing
