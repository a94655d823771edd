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

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const ParameterReader reader(parameters);
  Values out(TShape::OfRank(0), 1);
  for (index_t i = 0; i < in[0].size(); ++i) {
    const double a = in[0][i], b = in[1][i];
    bool close = a == b;
    if (std::isnan(a) && std::isnan(b)) close = reader.Bool("equal_nan", true);
    if (std::isfinite(a) && std::isfinite(b)) {
      close =
          std::abs(a - b) <= reader.Real("atol", 1e-8) + reader.Real("rtol", 1e-5) * std::abs(b);
    }
    if (!close) out[0] = 0;
  }
  return {out};
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_contrib_allclose";
  row.takes_integers = true;
  row.forward = Forward;
  const auto add = [&](const std::string& name, const ParameterMap& parameters,
                       std::vector<double> a, std::vector<double> b) -> OperatorCase& {
    return row.cases.emplace_back(
        OperatorCase{.name = name,
                     .parameters = parameters,
                     .inputs = {{2, 3}, {2, 3}},
                     .fills = {Fill::Given(std::move(a)), Fill::Given(std::move(b))},
                     .fixed_types = {DType::kUnknown, DType::kUnknown}});
  };
  add("equal", {}, {1, -2, 0}, {1, -2, 0});
  add("different", {}, {1, -2, 0}, {1, -2, 0.5});
  add("signs", {}, {1, -2, 0}, {1, 2, 0});
  add("within_atol", {{"atol", "0.1"}}, {1, -2, 0}, {1, -2, 0.0625});
  add("within_rtol", {{"rtol", "0.5"}}, {1, -2, 4}, {1.5, -1.5, 3});
  add("outside_rtol", {{"rtol", "0.25"}}, {1, -2, 4}, {1, -1.5, 4});
  add("of_infinity", {}, {kInfinity, -kInfinity, 1}, {kInfinity, -kInfinity, 1});
  add("of_one_infinity", {{"rtol", "1"}}, {1, 2, 1}, {kInfinity, 2, 1});
  add("of_nan", {}, {kNan, 0, 1}, {kNan, 0, 1});
  add("of_one_nan", {}, {kNan, 0, 1}, {1, 0, 1});
  add("of_unequal_nan", {{"equal_nan", "False"}}, {kNan, 0, 1}, {kNan, 0, 1});
  OperatorCase& integers = add("of_integers", {{"rtol", "0.1"}}, {10, 20, 3}, {11, 20, 3});
  integers.dtypes = {DType::kInt32, DType::kInt64, DType::kUint8, DType::kInt8};
  add("of_scalars", {}, {1}, {1}).inputs = {TShape::OfRank(0), TShape::OfRank(0)};
  add("of_nothing", {}, {1}, {1}).inputs = {{0, 3}, {0, 3}};
  std::vector<double> last(90000, 1);
  last.back() = 2;
  OperatorCase& parallel = add("parallel", {}, {1}, last);
  parallel.inputs = {{300, 300}, {300, 300}};
  parallel.dtypes = {DType::kFloat32};
  row.errors = {{.name = "shapes", .inputs = {{2, 3}, {3}}, .words = {"b", "(3,)", "(2,3)"}}};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
