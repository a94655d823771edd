#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/shape_reference.h"

namespace tessera::ops_testing {
namespace {

std::vector<Values> Forward(const ParameterMap&, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const TShape& shape = in[0].shape;
  const int first = shape.ndim() - 3;
  const auto at = [first](int d) { return static_cast<size_t>(first + d); };
  TShape tensor = shape;
  for (const int d : {0, 1, 2}) tensor[first + (d + 1) % 3] = shape[first + d];
  std::vector<Values> out = {Gather(in[0], tensor, [&](const Position& to) {
    Position from = to;
    from[at(0)] = to[at(1)];
    from[at(1)] = to[at(2)];
    from[at(2)] = to[at(0)];
    return from;
  })};
  for (double& x : out[0].data) x /= 255;
  return out;
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_image_to_tensor";
  row.forward = Forward;
  row.shapes_follow_from_output = true;
  row.takes_integers = true;
  // The output is float32 for every type of data.
  row.forward_tolerance = {.float64 = 1e-6, .float32 = 1e-6, .float16 = 1e-6, .bfloat16 = 1e-6};
  const auto add = [&row](const std::string& name, const TShape& shape) {
    row.cases.push_back({.name = name,
                         .inputs = {shape},
                         .fills = {Fill::Integers(0, 127)},
                         .dtypes = MovedDTypes(),
                         .fixed_types = {DType::kUnknown}});
  };
  add("image", {4, 5, 3});
  add("grey", {7, 3, 1});
  add("many_channels", {2, 3, 9});
  add("batch", {2, 3, 4, 3});
  add("large", {40, 67, 3});  // more than a block of pixels
  add("pixel", {1, 1, 1});
  add("no_rows", {0, 3, 3});
  add("no_images", {0, 2, 3, 1});
  row.errors = {
      {.name = "matrix", .inputs = {{4, 5}}, .words = {"(4,5)", "(height, width, channels)"}},
      {.name = "rank_5", .inputs = {{1, 2, 4, 5, 3}}, .words = {"(1,2,4,5,3)"}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
