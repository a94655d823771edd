#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// sum over axis 1 of (n, m, k).
Values SumOverMiddle(const std::vector<Values>& in) {
  const TShape& shape = in[0].shape;
  Values out({shape[0], shape[2]});
  for (index_t i = 0; i < in[0].size(); ++i) {
    out[i / (shape[1] * shape[2]) * shape[2] + i % shape[2]] += in[0][i];
  }
  return out;
}

/// Concat along dimension 1 of matrices.
Values Concatenated(const std::vector<Values>& in) {
  const index_t rows = in[0].shape[0], left = in[0].shape[1], right = in[1].shape[1];
  Values out({rows, left + right});
  for (index_t i = 0; i < rows; ++i) {
    for (index_t j = 0; j < left + right; ++j) {
      out[i * (left + right) + j] = j < left ? in[0][i * left + j] : in[1][i * right + j - left];
    }
  }
  return out;
}

/// slice_axis from 1 to 3 along the last dimension of a matrix.
Values Sliced(const std::vector<Values>& in) {
  const index_t rows = in[0].shape[0], columns = in[0].shape[1];
  Values out({rows, 2});
  for (index_t i = 0; i < out.size(); ++i) out[i] = in[0][i / 2 * columns + 1 + i % 2];
  return out;
}

/// dot of a matrix and a transposed one.
Values Product(const std::vector<Values>& in) {
  const index_t rows = in[0].shape[0], k = in[0].shape[1], columns = in[1].shape[0];
  Values out({rows, columns});
  for (index_t i = 0; i < out.size(); ++i) {
    for (index_t l = 0; l < k; ++l)
      out[i] += in[0][i / columns * k + l] * in[1][i % columns * k + l];
  }
  return out;
}

Values Linear(const std::string& op, const std::vector<Values>& in) {
  if (op == "sum") return SumOverMiddle(in);
  if (op == "Concat") return Concatenated(in);
  if (op == "slice_axis") return Sliced(in);
  return Product(in);
}

/// The gradient of the weighted sum of a linear function's output, which is the sum for each unit
/// vector.
std::vector<Values> Adjoint(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const ParameterReader reader(parameters);
  const std::string op = reader.Text("op", "");
  const bool is_product = op == "dot";
  std::vector<Values> inputs(in.begin() + 1, in.end());
  if (!is_product) {
    for (Values& input : inputs) input = Values(input.shape);
  }
  std::vector<Values> out;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (is_product && static_cast<index_t>(k) != reader.Int("argument", -1)) continue;
    Values& gradient = out.emplace_back(inputs[k].shape);
    std::vector<Values> unit = inputs;
    unit[k] = Values(inputs[k].shape);
    for (index_t i = 0; i < gradient.size(); ++i) {
      unit[k][i] = 1;
      const Values column = Linear(op, unit);
      for (index_t j = 0; j < column.size(); ++j) gradient[i] += column[j] * in[0][j];
      unit[k][i] = 0;
    }
  }
  return out;
}

OperatorCase Case(const std::string& name, const ParameterMap& parameters,
                  const std::vector<TShape>& inputs) {
  return {
      .name = name, .parameters = parameters, .inputs = inputs, .shapes_follow_from_first = false};
}

const RowRegistration kAdjoint({
    .name = "_adjoint",
    .cases = {Case("sum", {{"op", "sum"}, {"parameters", "axis=1"}}, {{2, 4}, {2, 3, 4}}),
              Case("concat", {{"op", "Concat"}, {"parameters", "dim=1;num_args=2"}},
                   {{2, 5}, {2, 2}, {2, 3}}),
              Case("slice", {{"op", "slice_axis"}, {"parameters", "axis=1;begin=1;end=3"}},
                   {{3, 2}, {3, 5}}),
              Case("product_left",
                   {{"op", "dot"}, {"parameters", "transpose_b=True"}, {"argument", "0"}},
                   {{2, 3}, {2, 4}, {3, 4}}),
              Case("product_right",
                   {{"op", "dot"}, {"parameters", "transpose_b=True"}, {"argument", "1"}},
                   {{2, 3}, {2, 4}, {3, 4}}),
              Case("empty", {{"op", "sum"}, {"parameters", "axis=1"}}, {{2, 0}, {2, 3, 0}})},
    .forward = Adjoint,
    .batch_follows_from_output = false,
    .takes_integers = true,
    .forward_tolerance = {.float64 = 4e-15, .float32 = 2e-6, .float16 = 3e-3, .bfloat16 = 2.4e-2},
    .backward_tolerance = {.float64 = 4e-15, .float32 = 2e-6, .float16 = 3e-3, .bfloat16 = 2.4e-2},
    .errors = {{.name = "without_operator", .words = {"required", "op"}},
               {.name = "unknown_operator",
                .parameters = {{"op", "summ"}},
                .code = Error::kNotFound,
                .words = {"summ", "sum"}},
               {.name = "wrong_parameters",
                .parameters = {{"op", "sum"}, {"parameters", "axes=1"}},
                .words = {"sum", "axes"}},
               {.name = "no_field",
                .parameters = {{"op", "sum"}, {"parameters", "axis"}},
                .words = {"axis", "name=value"}},
               {.name = "not_linear", .parameters = {{"op", "tanh"}}, .words = {"tanh", "linear"}},
               {.name = "without_gradient",
                .parameters = {{"op", "sgd_update"}, {"parameters", "lr=1"}},
                .words = {"sgd_update", "no gradient"}},
               {.name = "of_itself", .parameters = {{"op", "_adjoint"}}, .words = {"of its own"}},
               {.name = "argument_without_gradient",
                .parameters = {{"op", "dot"}, {"argument", "2"}},
                .words = {"argument", "2", "dot"}},
               {.name = "other_shape",
                .parameters = {{"op", "sum"}, {"parameters", "axis=1"}},
                .inputs = {{2, 5}, {2, 3, 4}},
                .words = {"(2,5)", "(2,4)"}}},
});

}  // namespace
}  // namespace tessera::ops_testing
