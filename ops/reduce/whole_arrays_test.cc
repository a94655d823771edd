#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

std::vector<Values> AllFinite(const ParameterMap&, const std::vector<Values>& in,
                              std::vector<Values>*) {
  Values out({1}, 1);
  for (const Values& array : in) {
    for (const double x : array.data) {
      if (!std::isfinite(x)) out[0] = 0;
    }
  }
  return {out};
}

std::vector<Values> SumOfSquares(const ParameterMap&, const std::vector<Values>& in,
                                 std::vector<Values>*) {
  Values out({static_cast<index_t>(in.size())});
  for (size_t k = 0; k < in.size(); ++k) {
    for (const double x : in[k].data) out[static_cast<index_t>(k)] += x * x;
  }
  return {out};
}

OperatorRow Row(const std::string& op, ForwardReference forward) {
  OperatorRow row;
  row.name = op;
  row.batch_follows_from_output = false;
  row.forward = std::move(forward);
  row.forward_tolerance = {.float64 = 1e-6, .float32 = 2e-6};  // results are float32
  const auto add = [&](const std::string& name, std::vector<TShape> shapes, std::vector<Fill> fills,
                       const std::vector<DType>& dtypes = RealDTypes()) {
    const size_t count = shapes.size();
    ParameterMap parameters;
    if (op != "all_finite") parameters["num_arrays"] = std::to_string(count);
    row.cases.push_back({.name = name,
                         .parameters = std::move(parameters),
                         .inputs = std::move(shapes),
                         .fills = std::move(fills),
                         .dtypes = dtypes,
                         .fixed_types = std::vector<DType>(count, DType::kUnknown),
                         .shapes_follow_from_first = count == 1});
  };
  add("one", {{3, 4}}, {});
  add("scalar", {TShape::OfRank(0)}, {});
  add("empty", {{0, 3}}, {});
  add("of_infinity", {{2, 20}}, {Fill::Given({1, 2, -kInfinity, 3})});
  add("of_large", {{700, 90}}, {}, {DType::kFloat32, DType::kBFloat16});
  if (op == "all_finite") {
    add("of_nan", {{7}}, {Fill::Given({1, kNan, 2})});
    return row;
  }
  add("two", {{3, 4}, {5}}, {});
  add("second_infinite", {{3, 4}, {5}}, {Fill(), Fill::Given({1, kInfinity})});
  add("five", {{2}, TShape::OfRank(0), {0}, {2, 3, 4}, {1}}, {});
  row.errors = {{.name = "none", .parameters = {{"num_arrays", "0"}}, .words = {"num_arrays"}}};
  return row;
}

const RowRegistration kRows[] = {
    RowRegistration(Row("all_finite", AllFinite)),
    RowRegistration(Row("multi_all_finite", AllFinite)),
    RowRegistration(Row("multi_sum_sq", SumOfSquares)),
};

}  // namespace
}  // namespace tessera::ops_testing
