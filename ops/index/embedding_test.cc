#include <algorithm>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

index_t RowOf(const Values& data, index_t i, index_t rows) {
  return std::clamp<index_t>(static_cast<index_t>(data[i]), 0, rows - 1);
}

OperatorRow Row(const std::string& name) {
  OperatorRow row;
  row.name = name;
  row.takes_integers = true;
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    const index_t rows = in[1].shape[0], width = in[1].shape[1];
    std::vector<index_t> extents(in[0].shape.begin(), in[0].shape.end());
    extents.push_back(width);
    Values out{TShape(std::span<const index_t>(extents))};
    for (index_t i = 0; i < out.size(); ++i) {
      out[i] = in[1][RowOf(in[0], i / width, rows) * width + i % width];
    }
    return std::vector<Values>{out};
  };
  row.backward = [](const ParameterMap&, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    const index_t rows = in[1].shape[0], width = in[1].shape[1];
    std::vector<Values> grad = {Values(in[0].shape), Values(in[1].shape)};
    for (index_t i = 0; i < out_grad[0].size(); ++i) {
      grad[1][RowOf(in[0], i / width, rows) * width + i % width] += out_grad[0][i];
    }
    return grad;
  };
  const auto parameters = [](const std::string& rows, const std::string& width) {
    return ParameterMap{{"input_dim", rows}, {"output_dim", width}};
  };
  for (const DType type : {DType::kInt32, DType::kInt64, DType::kFloat32, DType::kUint8}) {
    row.cases.push_back({.name = "of_" + std::string(DTypeName(type)),
                         .parameters = parameters("5", "3"),
                         .inputs = {{2, 7}, {5, 3}},
                         .fills = {Fill::Integers(0, 4)},
                         .fixed_types = {type}});
  }
  row.cases.push_back({.name = "outside",
                       .parameters = parameters("5", "3"),
                       .inputs = {{6}, {5, 3}},
                       .fills = {Fill::Given({-9, 5, 99, 1.75, 0, 4})},
                       .fixed_types = {DType::kFloat32}});
  row.cases.push_back({.name = "scalar",
                       .parameters = parameters("4", "2"),
                       .inputs = {TShape::OfRank(0), {4, 2}},
                       .fills = {Fill::Given({2})},
                       .fixed_types = {DType::kInt32}});
  row.cases.push_back({.name = "of_nothing",
                       .parameters = parameters("4", "2"),
                       .inputs = {{0, 3}, {4, 2}},
                       .fixed_types = {DType::kInt32}});
  row.cases.push_back({.name = "of_integers",
                       .parameters = parameters("5", "3"),
                       .inputs = {{4}, {5, 3}},
                       .fills = {Fill::Integers(0, 4), Fill::Integers(-50, 50)},
                       .dtypes = {DType::kFloat32},
                       .fixed_types = {DType::kInt64}});
  row.cases.push_back({.name = "parallel",
                       .parameters = parameters("30", "200"),
                       .inputs = {{50, 11}, {30, 200}},
                       .fills = {Fill::Integers(0, 29)},
                       .dtypes = {DType::kFloat32, DType::kBFloat16},
                       .fixed_types = {DType::kInt32},
                       .large = true});
  row.errors = {
      {.name = "without_input_dim",
       .parameters = {{"output_dim", "3"}},
       .words = {"required", "input_dim"}},
      {.name = "no_rows", .parameters = parameters("0", "3"), .words = {"input_dim", "range"}},
      {.name = "weight_of_other_shape",
       .parameters = parameters("5", "3"),
       .inputs = {{4}, {3, 5}},
       .words = {"weight", "(3,5)", "(5,3)"}},
  };
  row.backward_tolerance = {.float64 = 1e-14, .float32 = 1e-5, .float16 = 1e-2, .bfloat16 = 6e-2};
  return row;
}

OperatorRow SparseRow() {
  OperatorRow row = Row("_contrib_SparseEmbedding");
  row.cases[0].parameters["deterministic"] = "True";
  row.cases[1].parameters["sparse_grad"] = "True";
  row.errors.push_back(
      {.name = "deterministic_is_text",
       .parameters = {{"input_dim", "5"}, {"output_dim", "3"}, {"deterministic", "maybe"}},
       .words = {"deterministic", "maybe"}});
  return row;
}

const RowRegistration kRow(Row("Embedding"));
const RowRegistration kSparseRow(SparseRow());

}  // namespace
}  // namespace tessera::ops_testing
