#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/linalg/factors/matrix_reference.h"
#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

std::vector<OperatorCase> Cases() {
  return {
      {.name = "matrix", .inputs = {{3, 3}}, .fills = {WellConditioned()}},
      {.name = "batch",
       .inputs = {{2, 3, 3}},
       .fills = {WellConditioned()},
       .dtypes = WideDTypes()},
      {.name = "two_batch_dimensions",
       .inputs = {{2, 1, 2, 2}},
       .fills = {Fill::Given({2, 1, 0.5, -1, 3, 1, 1, 1})},
       .dtypes = WideDTypes()},
      {.name = "numbers",
       .inputs = {{4, 1, 1}},
       .fills = {Fill::Uniform(1, 2)},
       .dtypes = WideDTypes()},
      {.name = "no_batch", .inputs = {{0, 3, 3}}, .dtypes = WideDTypes()},
  };
}

std::vector<ErrorCase> Errors() {
  return {{.name = "not_square", .inputs = {{2, 3}}, .words = {"A", "(2,3)"}},
          {.name = "vector", .inputs = {{3}}, .words = {"A", "(3,)", "at least 2"}}};
}

OperatorRow Row(const std::string& name, std::vector<int> out_ranks, MatrixReference function) {
  OperatorRow row = MatrixRow(name, {2}, std::move(out_ranks), std::move(function));
  row.cases = Cases();
  row.errors = Errors();
  return row;
}

OperatorRow InverseRow() {
  OperatorRow row =
      Row("_linalg_inverse", {2}, [](const ParameterMap&, const std::vector<Rows>& in) {
        return std::vector<Rows>{InverseOf(in[0])};
      });
  row.shapes_follow_from_output = true;
  row.batch_follows_from_output = true;
  row.cases.push_back({.name = "no_elements", .inputs = {{2, 0, 0}}, .dtypes = WideDTypes()});
  return row;
}

OperatorRow DetRow() {
  return Row("_linalg_det", {0}, [](const ParameterMap&, const std::vector<Rows>& in) {
    return std::vector<Rows>{{{DeterminantOf(in[0])}}};
  });
}

OperatorRow SlogdetRow() {
  return Row("_linalg_slogdet", {0, 0}, [](const ParameterMap&, const std::vector<Rows>& in) {
    const double determinant = DeterminantOf(in[0]);
    const double sign = determinant < 0 ? -1 : determinant > 0 ? 1 : 0;
    return std::vector<Rows>{{{sign}}, {{std::log(std::abs(determinant))}}};
  });
}

OperatorRow SumLogDiagRow() {
  OperatorRow row =
      Row("_linalg_sumlogdiag", {0}, [](const ParameterMap&, const std::vector<Rows>& in) {
        double sum = 0;
        for (size_t i = 0; i < in[0].size(); ++i) sum += std::log(in[0][i][i]);
        return std::vector<Rows>{{{sum}}};
      });
  for (OperatorCase& test_case : row.cases) test_case.fills = {Fill::Uniform(1, 2)};
  return row;
}

const RowRegistration kInverse(InverseRow());
const RowRegistration kDet(DetRow());
const RowRegistration kSlogdet(SlogdetRow());
const RowRegistration kSumLogDiag(SumLogDiagRow());

}  // namespace
}  // namespace tessera::ops_testing
