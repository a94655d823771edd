#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

OperatorRow Row(const std::string& name) {
  OperatorRow row;
  row.name = name;
  row.shapes_follow_from_output = true;
  row.gradient_is_derivative = false;
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    return std::vector<Values>{in[0]};
  };
  row.backward = [](const ParameterMap& parameters, const std::vector<Values>&,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    const ParameterReader p(parameters);
    const std::string normalization = p.Text("normalization", "null");
    double divisor = 1;
    if (normalization == "batch") divisor = static_cast<double>(in[0].shape.FlatTo2D()[0]);
    if (normalization == "valid") {
      const double threshold = p.Real("valid_thresh", 0);
      const auto above = [threshold](double x) { return x > threshold; };
      divisor = static_cast<double>(
          std::max<int64_t>(1, std::count_if(in[0].data.begin(), in[0].data.end(), above)));
    }
    return std::vector<Values>{Values(in[0].shape, p.Real("grad_scale", 1) / divisor)};
  };
  row.cases = {
      {.name = "matrix", .inputs = {{3, 4}}},
      {.name = "rank_0", .inputs = {TShape::OfRank(0)}},
      {.name = "of_nothing", .inputs = {{0, 2}}},
  };
  if (name == "make_loss") return row;
  row.cases.push_back({.name = "scaled", .parameters = {{"grad_scale", "2.5"}}, .inputs = {{9}}});
  row.cases.push_back({.name = "by_batch",
                       .parameters = {{"grad_scale", "3"}, {"normalization", "batch"}},
                       .inputs = {{4, 2, 5}}});
  row.cases.push_back({.name = "by_valid",
                       .parameters = {{"normalization", "valid"}, {"valid_thresh", "0.25"}},
                       .inputs = {{4, 5}}});
  // More elements than the narrow types can count one by one.
  row.cases.push_back({.name = "by_many_valid",
                       .parameters = {{"normalization", "valid"}, {"grad_scale", "5000"}},
                       .inputs = {{5000}},
                       .fills = {Fill::Given({1})}});
  row.cases.push_back({.name = "none_valid",
                       .parameters = {{"normalization", "valid"}, {"valid_thresh", "7"}},
                       .inputs = {{4, 5}}});
  row.errors = {{.name = "unknown_normalization",
                 .parameters = {{"normalization", "mean"}},
                 .words = {"normalization", "mean"}}};
  return row;
}

const RowRegistration kRows[] = {
    RowRegistration(Row("MakeLoss")),
    RowRegistration(Row("make_loss")),
};

}  // namespace
}  // namespace tessera::ops_testing
