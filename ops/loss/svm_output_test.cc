#include <algorithm>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

std::vector<Values> Backward(const ParameterMap& parameters, const std::vector<Values>&,
                             const std::vector<Values>& in, const std::vector<Values>&) {
  const ParameterReader p(parameters);
  const double margin = p.Real("margin", 1);
  const double coefficient = p.Real("regularization_coefficient", 1);
  std::vector<Values> grad = {Values(in[0].shape), Values(in[1].shape)};
  const index_t classes = in[0].shape[in[0].shape.ndim() - 1];
  for (index_t i = 0; i < in[0].size(); ++i) {
    const bool is_label = static_cast<index_t>(in[1][i / classes]) == i % classes;
    const double v = margin + (is_label ? -in[0][i] : in[0][i]);
    const double slope =
        p.Bool("use_linear", false) ? static_cast<double>(v > 0) : 2 * std::max(v, 0.0);
    grad[0][i] = (is_label ? -1 : 1) * coefficient * slope;
  }
  return grad;
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "SVMOutput";
  row.gradient_is_derivative = false;
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    return std::vector<Values>{in[0]};
  };
  row.backward = Backward;
  const std::vector<Fill> fills = {Fill::Uniform(-2, 2), Fill::Integers(0, 3)};
  row.cases = {
      {.name = "squared", .inputs = {{6, 4}, {6}}, .fills = fills},
      {.name = "linear",
       .parameters = {{"use_linear", "True"}},
       .inputs = {{6, 4}, {6}},
       .fills = fills},
      {.name = "margin_and_coefficient",
       .parameters = {{"margin", "0.5"}, {"regularization_coefficient", "3"}},
       .inputs = {{5, 19}, {5}},
       .fills = fills},
      {.name = "rank_3", .inputs = {{2, 3, 4}, {2, 3}}, .fills = fills},
      {.name = "batch_0", .inputs = {{0, 4}, {0}}, .fills = fills},
      {.name = "labels_out_of_range",
       .inputs = {{4, 3}, {4}},
       .fills = {Fill::Uniform(-2, 2), Fill::Given({-1, 3, 99, 1})}},
  };
  row.errors = {
      {.name = "label_of_other_batch", .inputs = {{6, 4}, {5}}, .words = {"label", "(5,)", "(6,)"}},
      {.name = "scalar", .inputs = {TShape::OfRank(0)}, .words = {"data", "scalar"}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
