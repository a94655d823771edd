#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// y = op(x, s) with its derivative in x.
struct WithScalar {
  std::string name;
  double (*value)(double x, double s);
  double (*derivative)(double x, double s);
};

OperatorRow Row(const WithScalar& op) {
  OperatorRow row;
  row.name = op.name;
  row.shapes_follow_from_output = true;
  row.forward = [op](const ParameterMap& parameters, const std::vector<Values>& in,
                     std::vector<Values>*) {
    const double scalar = ParameterReader(parameters).Real("scalar", 1);
    Values out(in[0].shape);
    for (index_t i = 0; i < out.size(); ++i) out[i] = op.value(in[0][i], scalar);
    return std::vector<Values>{out};
  };
  row.backward = [op](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                      const std::vector<Values>& in, const std::vector<Values>&) {
    const double scalar = ParameterReader(parameters).Real("scalar", 1);
    Values grad(in[0].shape);
    for (index_t i = 0; i < grad.size(); ++i) {
      grad[i] = out_grad[0][i] * op.derivative(in[0][i], scalar);
    }
    return std::vector<Values>{grad};
  };
  const std::vector<Fill> fills = {Fill::Uniform(0.5, 2)};
  for (const index_t size : {0, 1, 7, 8, 9, 31}) {
    row.cases.push_back({.name = "size_" + std::to_string(size),
                         .parameters = {{"scalar", "1.5"}},
                         .inputs = {{size}},
                         .fills = fills});
  }
  row.cases.push_back({.name = "rank_0",
                       .parameters = {{"scalar", "-0.75"}},
                       .inputs = {TShape::OfRank(0)},
                       .fills = fills});
  row.cases.push_back({.name = "rank_3",
                       .parameters = {{"scalar", "-0.75"}},
                       .inputs = {{2, 3, 5}},
                       .fills = fills});
  row.cases.push_back({.name = "default_of_one",
                       .parameters = {{"is_int", "True"}},
                       .inputs = {{5}},
                       .fills = fills});
  row.cases.push_back({.name = "parallel",
                       .parameters = {{"scalar", "0.25"}},
                       .inputs = {{100, 777}},
                       .fills = fills,
                       .dtypes = {DType::kFloat32, DType::kFloat16},
                       .large = true});
  row.errors = {{.name = "text_for_a_number",
                 .parameters = {{"scalar", "two"}},
                 .words = {"scalar", "two", "number"}},
                {.name = "nan", .parameters = {{"scalar", "nan"}}, .words = {"scalar", "nan"}}};
  row.backward_tolerance = {.float64 = 4e-15, .float32 = 1e-6, .float16 = 4e-3, .bfloat16 = 3e-2};
  return row;
}

const RowRegistration kPlus(Row({"_plus_scalar", [](double x, double s) { return x + s; },
                                 [](double, double) { return 1.0; }}));
const RowRegistration kMinus(Row({"_minus_scalar", [](double x, double s) { return x - s; },
                                  [](double, double) { return 1.0; }}));
const RowRegistration kRminus(Row({"_rminus_scalar", [](double x, double s) { return s - x; },
                                   [](double, double) { return -1.0; }}));
const RowRegistration kMul(Row({"_mul_scalar", [](double x, double s) { return x * s; },
                                [](double, double s) { return s; }}));
const RowRegistration kDiv(Row({"_div_scalar", [](double x, double s) { return x / s; },
                                [](double, double s) { return 1 / s; }}));
const RowRegistration kRdiv(Row({"_rdiv_scalar", [](double x, double s) { return s / x; },
                                 [](double x, double s) { return -s / (x * x); }}));

}  // namespace
}  // namespace tessera::ops_testing
