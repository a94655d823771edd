#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/linalg/factors/matrix_reference.h"
#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

bool Lower(const ParameterMap& parameters) {
  return ParameterReader(parameters).Bool("lower", true);
}

Rows Cholesky(const Rows& a) {
  Rows l = Zeros(a.size(), a.size());
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j <= i; ++j) {
      double rest = a[i][j];
      for (size_t k = 0; k < j; ++k) rest -= l[i][k] * l[j][k];
      l[i][j] = i == j ? std::sqrt(rest) : rest / l[j][j];
    }
  }
  return l;
}

std::vector<OperatorCase> Cases(const Fill& fill) {
  return {
      {.name = "matrix", .inputs = {{3, 3}}, .fills = {fill}},
      {.name = "upper",
       .parameters = {{"lower", "False"}},
       .inputs = {{3, 3}},
       .fills = {fill},
       .dtypes = WideDTypes()},
      {.name = "batch", .inputs = {{2, 1, 3, 3}}, .fills = {fill}, .dtypes = WideDTypes()},
      {.name = "numbers",
       .inputs = {{4, 1, 1}},
       .fills = {Fill::Uniform(1, 2)},
       .dtypes = WideDTypes()},
      {.name = "no_batch", .inputs = {{0, 3, 3}}, .dtypes = WideDTypes()},
      {.name = "no_elements", .inputs = {{2, 0, 0}}, .dtypes = WideDTypes()},
  };
}

std::vector<ErrorCase> NotSquare() {
  return {{.name = "not_square", .inputs = {{2, 3}}, .words = {"A", "(2,3)"}},
          {.name = "vector", .inputs = {{3}}, .words = {"A", "(3,)", "at least 2"}}};
}

OperatorRow PotrfRow() {
  OperatorRow row = MatrixRow("_linalg_potrf", {2}, {2},
                              [](const ParameterMap& parameters, const std::vector<Rows>& in) {
                                const Rows l = Cholesky(SymmetricPart(in[0]));
                                return std::vector<Rows>{Lower(parameters) ? l : Transposed(l)};
                              });
  row.cases = Cases(PositiveDefinite());
  row.shapes_follow_from_output = true;
  row.batch_follows_from_output = true;
  row.errors = NotSquare();
  return row;
}

OperatorRow PotriRow() {
  OperatorRow row = MatrixRow(
      "_linalg_potri", {2}, {2}, [](const ParameterMap& parameters, const std::vector<Rows>& in) {
        const Rows a = Triangle(in[0], Lower(parameters));
        return std::vector<Rows>{
            InverseOf(Lower(parameters) ? Product(a, Transposed(a)) : Product(Transposed(a), a))};
      });
  row.cases = Cases(WellConditioned());
  row.cases[0].dtypes = WideDTypes();
  row.shapes_follow_from_output = true;
  row.batch_follows_from_output = true;
  row.errors = NotSquare();
  return row;
}

OperatorRow TriangularRow(const std::string& name, bool solves) {
  OperatorRow row = MatrixRow(
      name, {2, 2}, {2}, [=](const ParameterMap& parameters, const std::vector<Rows>& in) {
        const ParameterReader read(parameters);
        Rows a = Triangle(in[0], Lower(parameters));
        if (solves) a = InverseOf(a);
        if (read.Bool("transpose", false)) a = Transposed(a);
        const double alpha = read.Real("alpha", 1);
        return std::vector<Rows>{read.Bool("rightside", false) ? Product(in[1], a, alpha)
                                                               : Product(a, in[1], alpha)};
      });
  const auto add = [&row](const std::string& name, const ParameterMap& parameters, const TShape& a,
                          const TShape& b) -> OperatorCase& {
    row.cases.push_back({.name = name,
                         .parameters = parameters,
                         .inputs = {a, b},
                         .fills = {WellConditioned(), Fill()},
                         .dtypes = WideDTypes(),
                         .shapes_follow_from_first = false});
    return row.cases.back();
  };
  for (const std::string lower : {"True", "False"}) {
    for (const std::string transpose : {"False", "True"}) {
      const std::string kind = (lower == "True" ? "lower" : "upper") +
                               std::string(transpose == "True" ? "_transposed" : "");
      const ParameterMap common = {{"lower", lower}, {"transpose", transpose}};
      add(kind, common, {3, 3}, {3, 2});
      ParameterMap right = common;
      right["rightside"] = "True";
      right["alpha"] = "-0.5";
      add(kind + "_right", right, {2, 3, 3}, {2, 4, 3});
    }
  }
  add("half", {{"alpha", "2"}}, {3, 3}, {3, 2}).dtypes = {DType::kFloat16};
  add("no_columns", {}, {3, 3}, {3, 0});
  row.errors = {
      {.name = "not_square", .inputs = {{2, 3}, {3, 2}}, .words = {"A", "(2,3)"}},
      {.name = "other_rows", .inputs = {{3, 3}, {2, 3}}, .words = {"B", "(2,3)", "(3,"}},
      {.name = "other_columns",
       .parameters = {{"rightside", "True"}},
       .inputs = {{3, 3}, {3, 2}},
       .words = {"B", "(3,2)"}},
      {.name = "other_batch", .inputs = {{2, 3, 3}, {3, 3, 1}}, .words = {"B", "(3,3,1)"}},
  };
  return row;
}

const RowRegistration kPotrf(PotrfRow());
const RowRegistration kPotri(PotriRow());
const RowRegistration kTrmm(TriangularRow("_linalg_trmm", false));
const RowRegistration kTrsm(TriangularRow("_linalg_trsm", true));

}  // namespace
}  // namespace tessera::ops_testing
