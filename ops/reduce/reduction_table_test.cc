#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// The axes of a case, read apart from the code under test.
std::vector<bool> Axes(const ParameterMap& parameters, int ndim) {
  const ParameterReader reader(parameters);
  const std::string text = reader.Text("axis", "None");
  std::vector<bool> reduced(static_cast<size_t>(ndim), text == "None" || text == "()");
  if (reduced.empty() || reduced[0]) return reduced;
  std::string number;
  for (const char c : text + ",") {
    if (c == '-' || (c >= '0' && c <= '9')) {
      number += c;
    } else if (!number.empty()) {
      const int axis = std::stoi(number);
      reduced[static_cast<size_t>(axis < 0 ? axis + ndim : axis)] = true;
      number.clear();
    }
  }
  if (reader.Bool("exclude", false)) reduced.flip();
  return reduced;
}

/// The output that element i contributes to.
index_t Target(const TShape& shape, const std::vector<bool>& reduced, index_t i) {
  index_t offset = 0, stride = 1;
  for (int d = shape.ndim() - 1; d >= 0; --d) {
    if (!reduced[static_cast<size_t>(d)]) {
      offset += i % shape[d] * stride;
      stride *= shape[d];
    }
    i /= shape[d];
  }
  return offset;
}

TShape OutShape(const ParameterMap& parameters, const TShape& shape) {
  const std::vector<bool> reduced = Axes(parameters, shape.ndim());
  std::vector<index_t> extents;
  for (int d = 0; d < shape.ndim(); ++d) {
    if (!reduced[static_cast<size_t>(d)]) {
      extents.push_back(shape[d]);
    } else if (ParameterReader(parameters).Bool("keepdims", false)) {
      extents.push_back(1);
    }
  }
  if (extents.empty() &&
      !(shape.ndim() == 0 && ParameterReader(parameters).Bool("keepdims", false))) {
    extents.push_back(1);
  }
  return TShape(std::span<const index_t>(extents));
}

using Function = std::function<double(const std::vector<double>&)>;

OperatorRow Row(const std::string& name, const Function& function, const Fill& fill) {
  OperatorRow row;
  row.name = name;
  row.takes_integers = true;
  row.batch_follows_from_output = false;
  row.forward = [function](const ParameterMap& parameters, const std::vector<Values>& in,
                           std::vector<Values>*) {
    Values out(OutShape(parameters, in[0].shape));
    std::vector<std::vector<double>> parts(static_cast<size_t>(out.size()));
    const std::vector<bool> reduced = Axes(parameters, in[0].shape.ndim());
    for (index_t i = 0; i < in[0].size(); ++i) {
      parts[static_cast<size_t>(Target(in[0].shape, reduced, i))].push_back(in[0][i]);
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
double Product(const std::vector<double>& x) {
  double product = 1;
  for (const double value : x) product *= value;
  return product;
}

const Fill kNearOne = Fill::Uniform(0.5, 1.5);

const RowRegistration kRows[] = {
    RowRegistration(Row("sum", &Sum, Fill())),
    RowRegistration(Row(
        "mean", [](const std::vector<double>& x) { return Sum(x) / static_cast<double>(x.size()); },
        Fill())),
    RowRegistration(Row("prod", &Product, kNearOne)),
    RowRegistration(Row("nansum", &Sum, Fill())),
    RowRegistration(Row("nanprod", &Product, kNearOne)),
    RowRegistration(Row(
        "max", [](const std::vector<double>& x) { return *std::max_element(x.begin(), x.end()); },
        Fill::Distinct())),
    RowRegistration(Row(
        "min", [](const std::vector<double>& x) { return *std::min_element(x.begin(), x.end()); },
        Fill::Distinct())),
};

}  // namespace
}  // namespace tessera::ops_testing
