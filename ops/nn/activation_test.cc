#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

double Activate(const std::string& type, double x) {
  if (type == "relu") return std::isnan(x) ? x : std::max(x, 0.0);
  if (type == "sigmoid") return 1 / (1 + std::exp(-x));
  if (type == "tanh") return std::tanh(x);
  if (type == "softrelu") return x > 30 ? x : std::log1p(std::exp(x));
  return x / (1 + std::abs(x));  // softsign
}

double Derivative(const std::string& type, double x) {
  if (type == "relu") return std::isnan(x) ? x : x > 0 ? 1 : 0;
  if (type == "sigmoid") return Activate(type, x) * Activate(type, -x);
  if (type == "tanh") return 1 / (std::cosh(x) * std::cosh(x));
  if (type == "softrelu") return 1 / (1 + std::exp(-x));
  return 1 / ((1 + std::abs(x)) * (1 + std::abs(x)));
}

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const std::string type = ParameterReader(parameters).Text("act_type", "");
  Values out(in[0].shape);
  for (index_t i = 0; i < out.size(); ++i) out[i] = Activate(type, in[0][i]);
  return {out};
}

std::vector<Values> Backward(const ParameterMap& parameters, const std::vector<Values>& out_grad,
                             const std::vector<Values>& in, const std::vector<Values>&) {
  const std::string type = ParameterReader(parameters).Text("act_type", "");
  Values grad(in[0].shape);
  for (index_t i = 0; i < grad.size(); ++i) {
    grad[i] = out_grad[0][i] * Derivative(type, in[0][i]);
  }
  return {grad};
}

std::vector<OperatorCase> Cases() {
  std::vector<OperatorCase> cases;
  for (const std::string type : {"relu", "sigmoid", "tanh", "softrelu", "softsign"}) {
    const ParameterMap parameters = {{"act_type", type}};
    // Sizes around a packet of any width, each with a tail.
    for (const index_t size : {0, 1, 3, 15, 16, 17, 33}) {
      cases.push_back({.name = type + "_" + std::to_string(size),
                       .parameters = parameters,
                       .inputs = {{size}},
                       .fills = {Fill::Distinct(-4, 4)}});
    }
    cases.push_back(
        {.name = type + "_rank_0", .parameters = parameters, .inputs = {TShape::OfRank(0)}});
    cases.push_back({.name = type + "_rank_4",
                     .parameters = parameters,
                     .inputs = {{2, 3, 5, 7}},
                     .fills = {Fill::Distinct(-4, 4)}});
    // Where exponentials overflow or vanish: the result must not.
    cases.push_back({.name = type + "_large_arguments",
                     .parameters = parameters,
                     .inputs = {{12}},
                     .fills = {Fill::Given({-100, -50, -20, -12, 12, 20, 50, 100, 1e4, -1e4})}});
    // More than one task's worth, so that threads share the work.
    cases.push_back({.name = type + "_parallel",
                     .parameters = parameters,
                     .inputs = {{3, 33333}},
                     .fills = {Fill::Distinct(-4, 4)},
                     .dtypes = {DType::kFloat32, DType::kBFloat16},
                     .large = true});
  }
  cases.push_back({.name = "relu_of_signed_zero_infinity_and_nan",
                   .parameters = {{"act_type", "relu"}},
                   .inputs = {{19}},
                   .fills = {Fill::Given({-0.0, 0.0, INFINITY, -INFINITY, NAN, -1, 1})},
                   .large = true});
  return cases;
}

const RowRegistration kRow({
    .name = "Activation",
    .cases = Cases(),
    .forward = Forward,
    .backward = Backward,
    .shapes_follow_from_output = true,
    .errors =
        {
            {.name = "without_act_type", .words = {"required", "act_type"}},
            {.name = "unknown_act_type",
             .parameters = {{"act_type", "rleu"}},
             .words = {"act_type", "rleu", "softsign"}},
        },
});

OperatorRow HardSigmoidRow() {
  OperatorRow row;
  row.name = "hard_sigmoid";
  row.shapes_follow_from_output = true;
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    const ParameterReader p(parameters);
    const double alpha = p.Real("alpha", 0.2f), beta = p.Real("beta", 0.5);
    std::vector<Values> out = {in[0]};
    for (double& x : out[0].data) x = std::min(1.0, std::max(0.0, alpha * x + beta));
    return out;
  };
  row.cases = {
      {.name = "defaults", .inputs = {{5, 7}}, .fills = {Fill::Distinct(-4, 4)}},
      {.name = "steep",
       .parameters = {{"alpha", "0.75"}, {"beta", "0.25"}},
       .inputs = {{19}},
       .fills = {Fill::Distinct(-4, 4)}},
      {.name = "rank_0", .inputs = {TShape::OfRank(0)}},
      {.name = "of_nothing", .inputs = {{0, 2}}},
  };
  return row;
}

OperatorRow ClipRow() {
  OperatorRow row;
  row.name = "clip";
  row.shapes_follow_from_output = true;
  row.takes_integers = true;
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    const ParameterReader p(parameters);
    const double low = p.Real("a_min", 0), high = p.Real("a_max", 0);
    std::vector<Values> out = {in[0]};
    for (double& x : out[0].data) x = x > high ? high : x < low ? low : x;
    return out;
  };
  row.backward = [](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    const ParameterReader p(parameters);
    std::vector<Values> grad = {Values(in[0].shape)};
    for (index_t i = 0; i < in[0].size(); ++i) {
      const bool inside = in[0][i] >= p.Real("a_min", 0) && in[0][i] <= p.Real("a_max", 0);
      grad[0][i] = inside ? out_grad[0][i] : 0;
    }
    return grad;
  };
  const ParameterMap limits = {{"a_min", "-2"}, {"a_max", "1.5"}};
  const ParameterMap integers = {{"a_min", "-3"}, {"a_max", "5"}};
  row.cases = {
      {.name = "limits",
       .parameters = limits,
       .inputs = {{5, 7}},
       .fills = {Fill::Distinct(-4, 4)}},
      {.name = "rank_0", .parameters = limits, .inputs = {TShape::OfRank(0)}},
      {.name = "of_nothing", .parameters = limits, .inputs = {{0, 2}}},
      {.name = "of_nan_and_infinity",
       .parameters = limits,
       .inputs = {{5}},
       .fills = {Fill::Given({NAN, INFINITY, -INFINITY, 1.5, -2})},
       .large = true},
      {.name = "limits_in_reverse",
       .parameters = {{"a_min", "2"}, {"a_max", "-1"}},
       .inputs = {{6}},
       .fills = {Fill::Distinct(-4, 4)}},
      {.name = "integers",
       .parameters = integers,
       .inputs = {{40}},
       .fills = {Fill::Integers(-9, 9)},
       .dtypes = {DType::kInt8, DType::kInt32, DType::kInt64},
       .large = true},
      {.name = "integers_without_sign",
       .parameters = integers,
       .inputs = {{40}},
       .fills = {Fill::Integers(0, 200)},
       .dtypes = {DType::kUint8},
       .large = true},
  };
  row.errors = {
      {.name = "without_a_max", .parameters = {{"a_min", "0"}}, .words = {"required", "a_max"}},
  };
  return row;
}

const RowRegistration kOtherRows[] = {
    RowRegistration(HardSigmoidRow()),
    RowRegistration(ClipRow()),
};

}  // namespace
}  // namespace tessera::ops_testing
