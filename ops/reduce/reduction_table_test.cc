#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tessera/ops/reduce/reduction_reference.h"
#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

using Function = std::function<double(const std::vector<double>&)>;

OperatorRow Row(const std::string& name, const Function& function, const Fill& fill) {
  OperatorRow row;
  row.name = name;
  row.takes_integers = true;
  row.batch_follows_from_output = false;
  row.forward = [function](const ParameterMap& parameters, const std::vector<Values>& in,
                           std::vector<Values>*) {
    const std::vector<bool> reduced = ReferenceAxes(parameters, in[0].shape.ndim());
    Values out(
        ReferenceShape(in[0].shape, reduced, ParameterReader(parameters).Bool("keepdims", false)));
    std::vector<std::vector<double>> parts(static_cast<size_t>(out.size()));
    for (index_t i = 0; i < in[0].size(); ++i) {
      const index_t target = ReferenceTarget(in[0].shape, reduced, i);
      parts[static_cast<size_t>(target)].push_back(in[0][i]);
    }
    for (index_t i = 0; i < out.size(); ++i) out[i] = function(parts[static_cast<size_t>(i)]);
    return std::vector<Values>{out};
  };
  const auto add = [&](const std::string& case_name, const ParameterMap& parameters,
                       const TShape& shape) {
    row.cases.push_back(
        {.name = case_name, .parameters = parameters, .inputs = {shape}, .fills = {fill}});
  };
  add("all", {}, {3, 4});
  add("none_listed", {{"axis", "()"}}, {3, 4});
  add("rows", {{"axis", "1"}}, {3, 5});
  add("columns", {{"axis", "(0,)"}}, {4, 5});
  add("middle", {{"axis", "1"}, {"keepdims", "True"}}, {2, 3, 4});
  add("two_axes", {{"axis", "(0, -1)"}}, {2, 3, 4});
  add("excluded", {{"axis", "[1]"}, {"exclude", "1"}}, {2, 3, 4});
  add("one_element", {{"axis", "0"}}, {1, 2});
  row.errors = {{.name = "axis_too_large",
                 .parameters = {{"axis", "2"}},
                 .inputs = {{2, 3}},
                 .words = {"axis 2", "rank 2"}},
                {.name = "axis_twice",
                 .parameters = {{"axis", "(0,-2)"}},
                 .inputs = {{2, 3}},
                 .words = {"twice"}},
                {.name = "no_axis", .parameters = {{"axis", "(0,x)"}}, .words = {"axis", "(0,x)"}}};
  row.forward_tolerance = {
      .float64 = 1e-14, .float32 = 4e-6, .float16 = 2e-3, .bfloat16 = 1.6e-2, .of_largest = true};
  row.backward_tolerance = {
      .float64 = 1e-7, .float32 = 1e-5, .float16 = 1e-2, .bfloat16 = 8e-2, .of_largest = true};
  return row;
}

double Sum(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value;
  return sum;
}
double SquareSum(const std::vector<double>& x) {
  double sum = 0;
  for (const double value : x) sum += value * value;
  return sum;
}
double Product(const std::vector<double>& x) {
  double product = 1;
  for (const double value : x) product *= value;
  return product;
}
double NonzeroProduct(const std::vector<double>& x) {
  double product = 1;
  for (const double value : x) product *= value == 0 ? 1 : value;
  return product;
}

const Fill kNearOne = Fill::Uniform(0.5, 1.5);

/// Adds products without zeros, with one and with two of them.
OperatorRow ProductRow(const std::string& name) {
  OperatorRow row = Row(name, &Product, kNearOne);
  row.cases.push_back({.name = "zeros",
                       .parameters = {{"axis", "1"}},
                       .inputs = {{4, 3}},
                       .fills = {Fill::Given({2, 0, 3, 0, 5, 0, 0.5, 2, 1, -0.0, 4, 0.25})}});
  return row;
}

const RowRegistration kRows[] = {
    RowRegistration(Row("sum", &Sum, Fill())),
    RowRegistration(Row(
        "mean", [](const std::vector<double>& x) { return Sum(x) / static_cast<double>(x.size()); },
        Fill())),
    RowRegistration(ProductRow("prod")),
    RowRegistration(Row("nansum", &Sum, Fill())),
    RowRegistration(ProductRow("nanprod")),
    RowRegistration(Row("_nonzero_product", &NonzeroProduct, kNearOne)),
    RowRegistration(Row("_square_sum", &SquareSum, Fill())),
    RowRegistration(Row(
        "max", [](const std::vector<double>& x) { return *std::max_element(x.begin(), x.end()); },
        Fill::Distinct())),
    RowRegistration(Row(
        "min", [](const std::vector<double>& x) { return *std::min_element(x.begin(), x.end()); },
        Fill::Distinct())),
};

}  // namespace
}  // namespace tessera::ops_testing
