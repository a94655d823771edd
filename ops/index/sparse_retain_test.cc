#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Returns the rows of `from` that the indices name, among zeros.
Values Retained(const Values& from, const Values& indices) {
  Values out(from.shape);
  const index_t rows = from.shape[0];
  const index_t width = rows == 0 ? 0 : from.size() / rows;
  for (index_t k = 0; k < indices.size() && rows > 0; ++k) {
    const auto row = static_cast<index_t>(indices[k]);
    for (index_t j = 0; j < width; ++j) out[row * width + j] = from[row * width + j];
  }
  return out;
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_sparse_retain";
  row.takes_integers = true;
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    return std::vector<Values>{Retained(in[0], in[1])};
  };
  row.backward = [](const ParameterMap&, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    return std::vector<Values>{Retained(out_grad[0], in[1]), Values(in[1].shape)};
  };
  const auto add = [&row](const std::string& name, const TShape& data,
                          const std::vector<double>& indices,
                          DType type = DType::kInt64) -> OperatorCase& {
    row.cases.push_back({.name = name,
                         .inputs = {data, {static_cast<index_t>(indices.size())}},
                         .fills = {Fill(), Fill::Given(indices)},
                         .fixed_types = {DType::kUnknown, type},
                         .shapes_follow_from_first = false});
    return row.cases.back();
  };
  add("rows", {5, 3}, {4, 0, 2, 4});
  add("elements", {5}, {3}, DType::kFloat32);
  add("slices", {3, 2, 2}, {2.5, 0}, DType::kFloat64);
  add("one_of_one", {1, 9}, {0}, DType::kInt32);
  add("no_elements", {3, 0}, {1});
  OperatorCase& integers = add("of_integers", {5, 3}, {4, 1});
  integers.fills[0] = Fill::Integers(0, 9);
  integers.dtypes = {DType::kInt64, DType::kInt32, DType::kInt8, DType::kUint8};
  row.errors = {
      {.name = "matrix_of_indices", .inputs = {{5, 3}, {1, 3}}, .words = {"indices", "(1,3)"}},
      {.name = "scalar", .inputs = {TShape::OfRank(0), {1}}, .words = {"scalar"}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
