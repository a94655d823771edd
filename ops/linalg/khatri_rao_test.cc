#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// The product of the first matrices and one more.
Values ProductOf(const Values& left, const Values& right) {
  const index_t rows = right.shape[0], columns = right.shape[1];
  Values out({left.shape[0] * rows, columns});
  for (index_t i = 0; i < out.size(); ++i) {
    const index_t row = i / columns, column = i % columns;
    out[i] = left[row / rows * columns + column] * right[row % rows * columns + column];
  }
  return out;
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "khatri_rao";
  row.takes_integers = true;
  row.batch_follows_from_output = false;
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    Values out = in[0];
    for (size_t k = 1; k < in.size(); ++k) out = ProductOf(out, in[k]);
    return std::vector<Values>{out};
  };
  row.backward = [](const ParameterMap&, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    std::vector<Values> grad;
    const index_t columns = in[0].shape[1];
    for (const Values& matrix : in) grad.emplace_back(matrix.shape);
    for (index_t i = 0; i < out_grad[0].size(); ++i) {
      std::vector<index_t> at(in.size());
      index_t row_of_out = i / columns;
      for (size_t k = in.size(); k-- > 0; row_of_out /= in[k].shape[0]) {
        at[k] = row_of_out % in[k].shape[0] * columns + i % columns;
      }
      for (size_t k = 0; k < in.size(); ++k) {
        double term = out_grad[0][i];
        for (size_t j = 0; j < in.size(); ++j) term *= j == k ? 1 : in[j][at[j]];
        grad[k][at[k]] += term;
      }
    }
    return grad;
  };
  const auto add = [&](const std::string& name, const std::vector<TShape>& inputs) {
    row.cases.push_back({.name = name,
                         .parameters = {{"num_args", std::to_string(inputs.size())}},
                         .inputs = inputs,
                         .shapes_follow_from_first = inputs.size() == 1});
  };
  add("two", {{2, 3}, {4, 3}});
  add("one", {{3, 2}});
  add("four", {{2, 3}, {1, 3}, {3, 3}, {2, 3}});
  add("columns", {{1, 5}, {1, 5}});
  add("no_rows", {{0, 3}, {2, 3}});
  add("no_columns", {{2, 0}, {3, 0}});
  add("parallel", {{40, 33}, {31, 33}});
  row.cases.back().large = true;
  add("integers", {{2, 3}, {4, 3}});
  row.cases.back().dtypes = {DType::kInt32, DType::kInt64};
  row.cases.back().fills = {Fill::Integers(-9, 9), Fill::Integers(-9, 9)};
  row.cases.back().large = true;
  row.errors = {
      {.name = "without_count", .words = {"required", "num_args"}},
      {.name = "none", .parameters = {{"num_args", "0"}}, .words = {"num_args", "0"}},
      {.name = "other_columns",
       .parameters = {{"num_args", "2"}},
       .inputs = {{2, 3}, {2, 4}},
       .words = {"arg1", "(2,4)", "3"}},
      {.name = "vector",
       .parameters = {{"num_args", "2"}},
       .inputs = {{2, 3}, {3}},
       .words = {"arg1", "(3,)"}},
      {.name = "too_many_rows",
       .parameters = {{"num_args", "2"}},
       .inputs = {{index_t{1} << 32, 1}, {index_t{1} << 32, 1}},
       .words = {"arg1", "(4294967296,1)", "rows"}},
  };
  row.forward_tolerance = {.float64 = 4e-15, .float32 = 2e-6, .float16 = 2e-3, .bfloat16 = 1.6e-2};
  row.backward_tolerance = {
      .float64 = 2e-14, .float32 = 1e-5, .float16 = 1e-2, .bfloat16 = 8e-2, .of_largest = true};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
