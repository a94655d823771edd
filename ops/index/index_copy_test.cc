#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Calls function(element of the old array, element of the new rows).
template <typename Function>
void ForEachReplaced(const std::vector<Values>& in, const Function& function) {
  index_t width = 1;
  for (int d = 1; d < in[0].shape.ndim(); ++d) width *= in[0].shape[d];
  for (index_t k = 0; k < in[1].size(); ++k) {
    const auto row = static_cast<index_t>(in[1][k]);
    for (index_t j = 0; j < width; ++j) function(row * width + j, k * width + j);
  }
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_contrib_index_copy";
  row.takes_integers = true;
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    Values out = in[0];
    ForEachReplaced(in, [&](index_t to, index_t from) { out[to] = in[2][from]; });
    return std::vector<Values>{out};
  };
  row.backward = [](const ParameterMap&, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    std::vector<Values> grad = {out_grad[0], Values(in[1].shape), Values(in[2].shape)};
    ForEachReplaced(in, [&](index_t to, index_t from) {
      grad[2][from] = out_grad[0][to];
      grad[0][to] = 0;
    });
    return grad;
  };
  const auto add = [&row](const std::string& name, const TShape& old, const TShape& rows,
                          const std::vector<double>& indices,
                          DType type = DType::kInt64) -> OperatorCase& {
    row.cases.push_back({.name = name,
                         .inputs = {old, {static_cast<index_t>(indices.size())}, rows},
                         .fills = {Fill(), Fill::Given(indices), Fill()},
                         .fixed_types = {DType::kUnknown, type},
                         .shapes_follow_from_first = false});
    return row.cases.back();
  };
  add("rows", {5, 3}, {3, 3}, {0, 4, 2});
  add("elements", {5}, {2}, {3, 1}, DType::kFloat32);
  add("slices", {3, 2, 2}, {1, 2, 2}, {2}, DType::kInt32);
  add("truncates", {4, 2}, {2, 2}, {3.9, 1.5}, DType::kFloat64);
  // The gradient goes to each of the rows at one position, though only the last is there.
  add("last_one_stays", {4, 2}, {3, 2}, {1, 3, 1}).large = true;
  add("no_elements", {3, 0}, {2, 0}, {1, 2});
  OperatorCase& integers = add("of_integers", {5, 3}, {2, 3}, {4, 0});
  integers.fills[0] = integers.fills[2] = Fill::Integers(0, 9);
  integers.dtypes = {DType::kInt64, DType::kInt32, DType::kInt8, DType::kUint8};
  row.errors = {
      {.name = "other_count",
       .inputs = {{5, 3}, {2}, {3, 3}},
       .words = {"new_tensor", "(3,3)", "(2,3)"}},
      {.name = "other_width",
       .inputs = {{5, 3}, {3}, {3, 2}},
       .words = {"new_tensor", "(3,2)", "(3,3)"}},
      {.name = "matrix_of_indices",
       .inputs = {{5, 3}, {1, 3}, {3, 3}},
       .words = {"index_vector", "(1,3)"}},
      {.name = "scalar", .inputs = {TShape::OfRank(0), {1}, {1}}, .words = {"scalar"}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
