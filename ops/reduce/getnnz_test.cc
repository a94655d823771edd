#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

OperatorRow Row() {
  OperatorRow row;
  row.name = "_contrib_getnnz";
  row.takes_integers = true;
  row.batch_follows_from_output = false;
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    const std::string axis = ParameterReader(parameters).Text("axis", "None");
    const index_t rows = in[0].shape[0], columns = in[0].shape[1];
    Values out(axis == "None" ? TShape{1} : axis == "1" ? TShape{rows} : TShape{columns});
    for (index_t i = 0; i < in[0].size(); ++i) {
      if (in[0][i] == 0) continue;
      out[axis == "None" ? 0 : axis == "1" ? i / columns : i % columns] += 1;
    }
    return std::vector<Values>{out};
  };
  const auto add = [&row](const std::string& name, const ParameterMap& parameters,
                          const TShape& shape) -> OperatorCase& {
    row.cases.push_back({.name = name,
                         .parameters = parameters,
                         .inputs = {shape},
                         .fills = {Fill::Integers(0, 2)}});
    return row.cases.back();
  };
  add("all", {}, {4, 300});
  add("rows", {{"axis", "1"}}, {5, 3});
  add("columns", {{"axis", "0"}}, {5, 3});
  add("one", {{"axis", "None"}}, {1, 1});
  add("no_rows", {{"axis", "0"}}, {0, 3});
  add("no_columns", {{"axis", "1"}}, {2, 0});
  add("integers", {{"axis", "1"}}, {3, 7}).dtypes = {DType::kInt64, DType::kInt32, DType::kInt8,
                                                     DType::kUint8};
  for (OperatorCase& test_case : row.cases) test_case.fixed_types = {DType::kUnknown};
  row.errors = {
      {.name = "other_axis",
       .parameters = {{"axis", "-1"}},
       .inputs = {{2, 3}},
       .words = {"axis", "-1", "None, 0 or 1"}},
      {.name = "vector", .inputs = {{3}}, .words = {"data", "(3,)"}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
