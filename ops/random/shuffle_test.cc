#include <vector>

#include "tessera/ops/testing/operator_row.h"

// Arrays of equal rows; random_test has the others.
namespace tessera::ops_testing {
namespace {

OperatorRow Row() {
  OperatorRow row;
  row.name = "_shuffle";
  row.takes_integers = true;
  row.shapes_follow_from_output = true;
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    return std::vector<Values>{in[0]};
  };
  row.cases = {
      {.name = "equal_rows", .inputs = {{40, 3}}, .fills = {Fill::Given({1.5, -2, 7})}},
      {.name = "one_row", .inputs = {{1, 3, 5}}},
      {.name = "rank_0", .inputs = {TShape::OfRank(0)}},
      {.name = "empty", .inputs = {{0, 3}}},
      {.name = "empty_rows", .inputs = {{3, 0}}},
      {.name = "of_bytes",
       .inputs = {{9, 2}},
       .fills = {Fill::Given({1, 0})},
       .dtypes = {DType::kUint8, DType::kInt8, DType::kBool, DType::kInt32, DType::kInt64}},
      {.name = "parallel",
       .inputs = {{20000, 4}},
       .fills = {Fill::Given({1, 2, 3, 4})},
       .dtypes = {DType::kFloat32}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
