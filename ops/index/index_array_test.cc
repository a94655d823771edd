#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Returns the integers in a text like "(1, -2)".
std::vector<index_t> Integers(const std::string& text) {
  std::vector<index_t> values;
  size_t at = 0;
  while ((at = text.find_first_of("-0123456789", at)) != std::string::npos) {
    size_t used = 0;
    values.push_back(std::stoll(text.substr(at), &used));
    at += used;
  }
  return values;
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_contrib_index_array";
  row.takes_integers = true;
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    const TShape& shape = in[0].shape;
    std::vector<index_t> axes = Integers(ParameterReader(parameters).Text("axes", ""));
    if (!parameters.contains("axes")) {
      for (int d = 0; d < shape.ndim(); ++d) axes.push_back(d);
    }
    std::vector<index_t> extents(shape.begin(), shape.end());
    extents.push_back(static_cast<index_t>(axes.size()));
    Values out{TShape(std::span<const index_t>(extents))};
    index_t next = 0;
    for (index_t i = 0; i < in[0].size(); ++i) {
      for (const index_t axis : axes) {
        index_t inner = 1;
        const int d = static_cast<int>(axis < 0 ? axis + shape.ndim() : axis);
        for (int e = d + 1; e < shape.ndim(); ++e) inner *= shape[e];
        out[next++] = static_cast<double>(i / inner % shape[d]);
      }
    }
    return std::vector<Values>{out};
  };
  row.backward = [](const ParameterMap&, const std::vector<Values>&, const std::vector<Values>& in,
                    const std::vector<Values>&) {
    return std::vector<Values>{Values(in[0].shape)};
  };
  row.cases = {
      {.name = "cube", .inputs = {{2, 3, 4}}},
      {.name = "vector", .inputs = {{5}}, .dtypes = {DType::kInt32, DType::kFloat64}},
      {.name = "axes", .parameters = {{"axes", "(2,0,-1)"}}, .inputs = {{2, 3, 4}}},
      {.name = "no_axes", .parameters = {{"axes", "()"}}, .inputs = {{2, 3}}},
      {.name = "scalar", .inputs = {TShape::OfRank(0)}},
      {.name = "empty", .inputs = {{2, 0}}},
      {.name = "large", .inputs = {{300, 200}}, .dtypes = {DType::kFloat32}, .large = true},
  };
  for (OperatorCase& test_case : row.cases) test_case.fixed_types = {DType::kUnknown};
  row.errors = {
      {.name = "no_such_axis",
       .parameters = {{"axes", "(0,2)"}},
       .inputs = {{2, 3}},
       .words = {"axes", "axis 2", "rank 2"}},
      {.name = "too_many_dimensions",
       .inputs = {{1, 1, 1, 1, 1, 1, 1, 1}},
       .words = {"data", "at most 7"}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
