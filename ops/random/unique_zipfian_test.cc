#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

// Draws of the only class; random_test has the others.
namespace tessera::ops_testing {
namespace {

OperatorRow Row() {
  OperatorRow row;
  row.name = "_sample_unique_zipfian";
  row.takes_integers = true;  // it has no inputs to refuse them for
  row.forward = [](const ParameterMap& given, const std::vector<Values>&, std::vector<Values>*) {
    const TShape shape = TShape::Parse(ParameterReader(given).Text("shape", ""));
    return std::vector<Values>{Values(shape), Values({shape[0]}, static_cast<double>(shape[1]))};
  };
  const auto add = [&](const std::string& name, const std::string& shape,
                       const std::string& range_max) {
    row.cases.push_back({.name = name,
                         .parameters = {{"shape", shape}, {"range_max", range_max}},
                         .inputs = {},
                         .dtypes = {DType::kFloat32}});
  };
  add("one_row", "(1,1)", "1");
  add("rows", "(5,1)", "1");
  add("no_rows", "(0,3)", "10");
  add("no_classes", "(4,0)", "2147483647");
  const auto refuse = [&](const std::string& name, const std::string& shape,
                          const std::string& range_max, const std::vector<std::string>& words) {
    row.errors.push_back(
        {.name = name, .parameters = {{"shape", shape}, {"range_max", range_max}}, .words = words});
  };
  refuse("one_extent", "(5,)", "10", {"shape", "1 extents", "2"});
  refuse("three_extents", "(1,2,3)", "10", {"shape", "3 extents", "2"});
  refuse("negative_rows", "(-1,2)", "10", {"shape", "-1"});
  refuse("negative_classes", "(2,-7)", "10", {"shape", "-7"});
  refuse("too_many_classes", "(1,11)", "10", {"shape", "11", "range_max=10"});
  refuse("no_range", "(1,1)", "0", {"range_max", "0"});
  refuse("too_many_rows", "(9223372036854775807,2)", "10", {"output0", "63 bits"});
  row.errors.push_back(
      {.name = "without_shape", .parameters = {{"range_max", "3"}}, .words = {"shape", "2"}});
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
