#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// c = op(a, b) with its two partial derivatives.
struct Binary {
  std::string name;
  double (*value)(double a, double b);
  double (*left)(double a, double b);
  double (*right)(double a, double b);
};

OperatorRow Row(const Binary& op) {
  OperatorRow row;
  row.name = op.name;
  row.shapes_follow_from_output = true;
  row.forward = [op](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    Values out(in[0].shape);
    for (index_t i = 0; i < out.size(); ++i) out[i] = op.value(in[0][i], in[1][i]);
    return std::vector<Values>{out};
  };
  row.backward = [op](const ParameterMap&, const std::vector<Values>& out_grad,
                      const std::vector<Values>& in, const std::vector<Values>&) {
    std::vector<Values> grad = {Values(in[0].shape), Values(in[1].shape)};
    for (index_t i = 0; i < in[0].size(); ++i) {
      grad[0][i] = out_grad[0][i] * op.left(in[0][i], in[1][i]);
      grad[1][i] = out_grad[0][i] * op.right(in[0][i], in[1][i]);
    }
    return grad;
  };
  const std::vector<Fill> fills = {Fill(), Fill::Uniform(0.5, 2)};
  for (const index_t size : {0, 1, 7, 8, 9, 31}) {
    row.cases.push_back(
        {.name = "size_" + std::to_string(size), .inputs = {{size}, {size}}, .fills = fills});
  }
  row.cases.push_back(
      {.name = "rank_0", .inputs = {TShape::OfRank(0), TShape::OfRank(0)}, .fills = fills});
  row.cases.push_back({.name = "rank_3", .inputs = {{2, 3, 5}, {2, 3, 5}}, .fills = fills});
  row.cases.push_back({.name = "parallel",
                       .inputs = {{100, 777}, {100, 777}},
                       .fills = fills,
                       .dtypes = {DType::kFloat32, DType::kFloat16},
                       .large = true});
  row.errors = {
      {.name = "other_shape", .inputs = {{2, 3}, {2, 4}}, .words = {"rhs", "(2,3)", "(2,4)"}},
      {.name = "other_rank", .inputs = {{2, 3}, {6}}, .words = {"rhs", "(2,3)", "(6,)"}}};
  // A gradient of division squares the divisor and rounds three times.
  row.backward_tolerance = {.float64 = 4e-15, .float32 = 1e-6, .float16 = 4e-3, .bfloat16 = 3e-2};
  return row;
}

const RowRegistration kAdd(Row({"elemwise_add", [](double a, double b) { return a + b; },
                                [](double, double) { return 1.0; },
                                [](double, double) { return 1.0; }}));
const RowRegistration kSub(Row({"elemwise_sub", [](double a, double b) { return a - b; },
                                [](double, double) { return 1.0; },
                                [](double, double) { return -1.0; }}));
const RowRegistration kMul(Row({"elemwise_mul", [](double a, double b) { return a * b; },
                                [](double, double b) { return b; },
                                [](double a, double) { return a; }}));
const RowRegistration kDiv(Row({"elemwise_div", [](double a, double b) { return a / b; },
                                [](double, double b) { return 1 / b; },
                                [](double a, double b) { return -a / (b * b); }}));

}  // namespace
}  // namespace tessera::ops_testing
