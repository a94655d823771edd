#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

double Sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

/// A function and its derivative, which exists at all arguments of the test.
OperatorRow Row(const std::string& name, double (*value)(double), double (*derivative)(double)) {
  OperatorRow row;
  row.name = name;
  row.shapes_follow_from_output = true;
  row.takes_integers = true;
  row.forward = [value](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    Values out(in[0].shape);
    for (index_t i = 0; i < out.size(); ++i) out[i] = value(in[0][i]);
    return std::vector<Values>{out};
  };
  row.backward = [derivative](const ParameterMap&, const std::vector<Values>& out_grad,
                              const std::vector<Values>& in, const std::vector<Values>&) {
    Values grad(in[0].shape);
    for (index_t i = 0; i < grad.size(); ++i) grad[i] = out_grad[0][i] * derivative(in[0][i]);
    return std::vector<Values>{grad};
  };
  // Exact in every type, and apart from the steps by more than a difference.
  const Fill apart = Fill::Given({-2.75, -1.25, -0.625, 0.375, 0.75, 1.625, 2.25});
  row.cases = {{.name = "matrix", .inputs = {{3, 7}}, .fills = {apart}},
               {.name = "empty", .inputs = {{0, 3}}},
               {.name = "rank_0", .inputs = {TShape::OfRank(0)}, .fills = {apart}},
               {.name = "at_the_steps",
                .inputs = {{12}},
                .fills = {Fill::Given({-2.5, -2, -1.5, -1, -0.5, 0.5, 1, 1.5, 2, 2.5})},
                .large = true}};
  return row;
}

/// A function whose gradient counts as 1.
OperatorRow StraightThrough(const std::string& name, double (*value)(double)) {
  OperatorRow row = Row(name, value, [](double) { return 1.0; });
  row.gradient_is_derivative = false;
  return row;
}

const RowRegistration kRows[] = {
    RowRegistration(Row(
        "floor", [](double x) { return std::floor(x); }, [](double) { return 0.0; })),
    RowRegistration(Row(
        "ceil", [](double x) { return std::ceil(x); }, [](double) { return 0.0; })),
    RowRegistration(Row(
        "round", [](double x) { return std::round(x); }, [](double) { return 0.0; })),
    RowRegistration(Row(
        "rint", [](double x) { return std::ceil(x - 0.5); }, [](double) { return 0.0; })),
    RowRegistration(Row(
        "trunc", [](double x) { return std::trunc(x); }, [](double) { return 0.0; })),
    RowRegistration(Row(
        "fix", [](double x) { return std::trunc(x); }, [](double) { return 0.0; })),
    RowRegistration(Row("sign", &Sign, [](double) { return 0.0; })),
    RowRegistration(StraightThrough("_contrib_round_ste", [](double x) { return std::round(x); })),
    RowRegistration(StraightThrough("_contrib_sign_ste", &Sign)),
    RowRegistration(Row(
        "logical_not", [](double x) { return x == 0 ? 1.0 : 0.0; }, [](double) { return 0.0; })),
    RowRegistration(Row(
        "negative", [](double x) { return -x; }, [](double) { return -1.0; })),
    RowRegistration(Row(
        "abs", [](double x) { return std::abs(x); }, &Sign)),
    RowRegistration(Row(
        "relu", [](double x) { return x > 0 ? x : 0.0; },
        [](double x) { return x > 0 ? 1.0 : 0.0; })),
};

}  // namespace
}  // namespace tessera::ops_testing
