#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

OperatorRow Row() {
  OperatorRow row;
  row.name = "_contrib_edge_id";
  row.takes_integers = true;
  row.batch_follows_from_output = false;
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    const Values& data = in[0];
    Values out(in[1].shape);
    for (index_t i = 0; i < out.size(); ++i) {
      const auto place =
          static_cast<index_t>(in[1][i]) * data.shape[1] + static_cast<index_t>(in[2][i]);
      out[i] = data[place] != 0 ? data[place] : -1;
    }
    return std::vector<Values>{out};
  };
  const auto add = [&row](const std::string& name, const TShape& data, const std::vector<double>& u,
                          const std::vector<double>& v,
                          DType type = DType::kInt64) -> OperatorCase& {
    const TShape count{static_cast<index_t>(u.size())};
    row.cases.push_back({.name = name,
                         .inputs = {data, count, count},
                         .fills = {Fill::Integers(0, 2), Fill::Given(u), Fill::Given(v)},
                         .fixed_types = {DType::kUnknown, type, type},
                         .shapes_follow_from_first = false});
    return row.cases.back();
  };
  add("edges", {3, 5}, {2, 0, 2, 1, 1, 0}, {4, 0, 1, 3, 3, 2});
  add("one", {1, 1}, {0}, {0}, DType::kFloat32);
  add("truncated", {2, 2}, {1.5, 0, 1}, {0, 1.75, 1}, DType::kFloat64);
  add("none", {2, 0}, {}, {}, DType::kInt32);
  add("of_integers", {4, 3}, {3, 2, 1, 0}, {0, 1, 2, 0}).dtypes = {DType::kInt64, DType::kInt32,
                                                                   DType::kInt8};
  row.errors = {
      {.name = "other_lists", .inputs = {{2, 3}, {4}, {5}}, .words = {"v", "(5,)"}},
      {.name = "vector", .inputs = {{3}, {2}, {2}}, .words = {"data", "(3,)"}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
