#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

OperatorRow Row() {
  OperatorRow row;
  row.name = "reset_arrays";
  row.batch_follows_from_output = false;
  row.forward = [](const ParameterMap&, const std::vector<Values>& in,
                   std::vector<Values>* mutated) {
    for (size_t i = 0; i < in.size(); ++i) (*mutated)[i] = Values(in[i].shape);
    return std::vector<Values>();
  };
  const auto add = [&](const std::string& name, std::vector<TShape> shapes,
                       std::vector<DType> types) {
    row.cases.push_back({.name = name,
                         .parameters = {{"num_arrays", std::to_string(shapes.size())}},
                         .inputs = std::move(shapes),
                         .fixed_types = std::move(types),
                         .shapes_follow_from_first = false});
  };
  add("one", {{3, 4}}, {DType::kUnknown});
  add("of_several_types", {{3}, TShape::OfRank(0), {0, 2}, {5, 1}},
      {DType::kUnknown, DType::kFloat64, DType::kFloat16, DType::kUnknown});
  add("parallel", {{128, 777}, {5}}, {DType::kUnknown, DType::kUnknown});
  row.errors = {
      {.name = "without_num_arrays", .words = {"required", "num_arrays"}},
      {.name = "no_arrays", .parameters = {{"num_arrays", "0"}}, .words = {"num_arrays", "range"}}};
  return row;
}
const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
