#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Counts by the ends of bins, all of which the cases' element types have.
std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  Values ends;
  if (in.size() > 1) {
    ends = in[1];
  } else {
    const index_t bins = ParameterReader(parameters).Int("bin_cnt", 0);
    const std::string range = ParameterReader(parameters).Text("range", "");
    double low = std::stod(range.substr(1)), high = std::stod(range.substr(range.find(',') + 1));
    if (low == high) {
      low -= 0.5;
      high += 0.5;
    }
    ends = Values({bins + 1});
    for (index_t i = 0; i <= bins; ++i) {
      ends[i] = low + (high - low) * static_cast<double>(i) / static_cast<double>(bins);
    }
  }
  Values counts({ends.size() - 1});
  for (const double x : in[0].data) {
    for (index_t b = 0; b < counts.size(); ++b) {
      const bool is_last = b == counts.size() - 1;
      if (x >= ends[b] && (x < ends[b + 1] || (is_last && x == ends[b + 1]))) ++counts[b];
    }
  }
  return {counts, ends};
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_histogram";
  row.takes_integers = true;
  row.batch_follows_from_output = false;
  row.forward = Forward;
  const auto add = [&](const std::string& name, const ParameterMap& parameters, const TShape& shape,
                       const Fill& fill) -> OperatorCase& {
    return row.cases.emplace_back(OperatorCase{.name = name,
                                               .parameters = parameters,
                                               .inputs = {shape},
                                               .fills = {fill},
                                               .fixed_types = {DType::kUnknown}});
  };
  const ParameterMap four = {{"bin_cnt", "4"}, {"range", "(-1, 1.0)"}};
  add("uniform", four, {6, 5}, Fill::Uniform(-1.5, 1.5));
  add("at_the_ends", four, {2, 4}, Fill::Given({-1, -0.5, 0, 0.5, 1, kNan, -1.25, 1.25}));
  add("one_value", {{"bin_cnt", "2"}, {"range", "[1, 1]"}}, {7}, Fill::Given({0.5, 1, 1.5, 2}));
  add("empty", four, {0, 3}, Fill());
  add("scalar", four, TShape::OfRank(0), Fill());
  add("large", {{"bin_cnt", "64"}, {"range", "(-1, 1)"}}, {300, 400}, Fill()).dtypes = {
      DType::kFloat32, DType::kFloat16};
  add("of_integers", {{"bin_cnt", "5"}, {"range", "(0, 20)"}}, {5, 9}, Fill::Integers(0, 30))
      .dtypes = {DType::kInt32, DType::kInt64, DType::kUint8, DType::kInt8};
  const auto add_bins = [&](const std::string& name, const TShape& shape,
                            std::vector<double> bins) -> OperatorCase& {
    const index_t count = static_cast<index_t>(bins.size());
    return row.cases.emplace_back(
        OperatorCase{.name = name,
                     .inputs = {shape, {count}},
                     .fills = {Fill::Uniform(-1.5, 1.5), Fill::Given(std::move(bins))},
                     .fixed_types = {DType::kUnknown, DType::kUnknown},
                     .shapes_follow_from_first = false});
  };
  add_bins("given", {6, 5}, {-1, -0.75, 0, 0.125, 1});
  add_bins("given_one", {9}, {-1, 1});
  OperatorCase& integers = add_bins("given_integers", {4, 9}, {1, 2, 5, 9});
  integers.fills[0] = Fill::Integers(0, 12);
  integers.dtypes = {DType::kInt32, DType::kInt64, DType::kUint8, DType::kInt8};
  row.errors = {
      {.name = "without_range", .parameters = {{"bin_cnt", "3"}}, .words = {"bin_cnt", "range"}},
      {.name = "without_count", .parameters = {{"range", "(0,1)"}}, .words = {"bin_cnt", "range"}},
      {.name = "no_bins",
       .parameters = {{"bin_cnt", "0"}, {"range", "(0,1)"}},
       .words = {"bin_cnt", "0"}},
      {.name = "huge_range",
       .parameters = {{"bin_cnt", "10"}, {"range", "(-8e307,8e307)"}},
       .words = {"range", "8e307"}},
      {.name = "reversed",
       .parameters = {{"bin_cnt", "2"}, {"range", "(1,0)"}},
       .words = {"range", "(1,0)"}},
      {.name = "no_pair",
       .parameters = {{"bin_cnt", "2"}, {"range", "(1)"}},
       .words = {"range", "(1)", "(low, high)"}},
      {.name = "no_numbers",
       .parameters = {{"bin_cnt", "2"}, {"range", "(1,nan)"}},
       .words = {"range", "(1,nan)"}},
      {.name = "one_end", .inputs = {{3}, {1}}, .words = {"bins", "(1,)"}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
