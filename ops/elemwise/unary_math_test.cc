#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// A function and the range of arguments at which its row is tested.
struct Function {
  std::string name;
  double (*value)(double x);
  double low;
  double high;
};

double ErfInverse(double y) {
  if (std::abs(y) > 1) return std::numeric_limits<double>::quiet_NaN();
  double low = -7, high = 7;
  // Halving an interval of 14 so often makes it shorter than the float32 numbers next to 0.
  for (int i = 0; i < 160; ++i) {
    const double middle = (low + high) / 2;
    (std::erf(middle) < y ? low : high) = middle;
  }
  return low;
}

const Function kFunctions[] = {
    {"exp", [](double x) { return std::exp(x); }, -2, 2},
    {"expm1", [](double x) { return std::expm1(x); }, -2, 2},
    {"log", [](double x) { return std::log(x); }, 0.2, 3},
    {"log10", [](double x) { return std::log10(x); }, 0.2, 3},
    {"log2", [](double x) { return std::log2(x); }, 0.2, 3},
    {"log1p", [](double x) { return std::log1p(x); }, -0.5, 3},
    {"sqrt", [](double x) { return std::sqrt(x); }, 0.2, 3},
    {"rsqrt", [](double x) { return 1 / std::sqrt(x); }, 0.3, 3},
    {"cbrt", [](double x) { return std::cbrt(x); }, 0.2, 3},
    {"rcbrt", [](double x) { return 1 / std::cbrt(x); }, 0.3, 3},
    {"reciprocal", [](double x) { return 1 / x; }, 0.4, 3},
    {"sin", [](double x) { return std::sin(x); }, -3, 3},
    {"cos", [](double x) { return std::cos(x); }, -3, 3},
    {"tan", [](double x) { return std::tan(x); }, -1, 1},
    {"arcsin", [](double x) { return std::asin(x); }, -0.8, 0.8},
    {"arccos", [](double x) { return std::acos(x); }, -0.8, 0.8},
    {"arctan", [](double x) { return std::atan(x); }, -3, 3},
    {"sinh", [](double x) { return std::sinh(x); }, -1.5, 1.5},
    {"cosh", [](double x) { return std::cosh(x); }, -1.5, 1.5},
    {"tanh", [](double x) { return std::tanh(x); }, -2, 2},
    {"arcsinh", [](double x) { return std::asinh(x); }, -3, 3},
    {"arccosh", [](double x) { return std::acosh(x); }, 1.3, 3},
    {"arctanh", [](double x) { return std::atanh(x); }, -0.7, 0.7},
    {"degrees", [](double x) { return x * 180 / M_PI; }, -0.1, 0.1},
    {"radians", [](double x) { return x * M_PI / 180; }, -90, 90},
    {"erf", [](double x) { return std::erf(x); }, -2, 2},
    {"erfinv", &ErfInverse, -0.9, 0.9},
    {"gamma", [](double x) { return std::tgamma(x); }, 0.6, 3},
    {"gammaln", [](double x) { return std::lgamma(x); }, 0.6, 3},
    {"sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }, -3, 3},
    {"softsign", [](double x) { return x / (1 + std::abs(x)); }, 0.1, 3},
    {"square", [](double x) { return x * x; }, -2, 2},
};

OperatorRow Row(const Function& function) {
  OperatorRow row;
  row.name = function.name;
  row.shapes_follow_from_output = true;
  row.takes_integers = true;
  row.forward = [value = function.value](const ParameterMap&, const std::vector<Values>& in,
                                         std::vector<Values>*) {
    Values out(in[0].shape);
    for (index_t i = 0; i < out.size(); ++i) out[i] = value(in[0][i]);
    return std::vector<Values>{out};
  };
  const auto add = [&](const std::string& name, const TShape& shape) {
    row.cases.push_back(
        {.name = name, .inputs = {shape}, .fills = {Fill::Uniform(function.low, function.high)}});
  };
  add("matrix", {3, 7});
  add("empty", {0, 3});
  add("rank_0", TShape::OfRank(0));
  // More than a block, with a rest.
  add("blocks", {1, 1100});
  row.cases.back().dtypes = {DType::kFloat32, DType::kFloat16};
  row.forward_tolerance = {.float64 = 4e-15, .float32 = 2e-6, .float16 = 2e-3, .bfloat16 = 1.6e-2};
  row.backward_tolerance = {.float64 = 1e-7, .float32 = 1e-5, .float16 = 2e-2, .bfloat16 = 1.6e-1};
  return row;
}

const std::vector<RowRegistration> kRows = [] {
  std::vector<RowRegistration> rows;
  for (const Function& function : kFunctions) rows.emplace_back(Row(function));
  return rows;
}();

}  // namespace
}  // namespace tessera::ops_testing
