#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/shape_reference.h"

namespace tessera::ops_testing {
namespace {

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const ParameterReader p(parameters);
  TShape shape = in[0].shape;
  const int rows = shape.ndim() - 3, columns = rows + 1;
  shape[rows] = p.Int("height", 0);
  shape[columns] = p.Int("width", 0);
  return {Gather(in[0], shape, [&](Position at) {
    at[static_cast<size_t>(rows)] += p.Int("y", 0);
    at[static_cast<size_t>(columns)] += p.Int("x", 0);
    return at;
  })};
}

ParameterMap Rectangle(const std::string& x, const std::string& y, const std::string& width,
                       const std::string& height) {
  return {{"x", x}, {"y", y}, {"width", width}, {"height", height}};
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_image_crop";
  row.forward = Forward;
  row.batch_follows_from_output = false;
  row.takes_integers = true;
  const auto add = [&row](const std::string& name, const ParameterMap& parameters,
                          const TShape& shape) {
    row.cases.push_back(
        {.name = name, .parameters = parameters, .inputs = {shape}, .dtypes = MovedDTypes()});
  };
  add("inside", Rectangle("1", "2", "3", "2"), {5, 6, 3});
  add("batch", Rectangle("2", "0", "2", "3"), {2, 4, 5, 1});
  add("whole", Rectangle("0", "0", "4", "3"), {3, 4, 2});
  add("last_pixel", Rectangle("3", "2", "1", "1"), {3, 4, 3});
  add("no_images", Rectangle("0", "1", "2", "2"), {0, 3, 4, 3});
  row.errors = {
      {.name = "no_width",
       .parameters = {{"x", "0"}, {"y", "0"}, {"height", "1"}},
       .words = {"width"}},
      {.name = "empty", .parameters = Rectangle("0", "0", "0", "1"), .words = {"width", "0"}},
      {.name = "negative", .parameters = Rectangle("0", "-1", "1", "1"), .words = {"y", "-1"}},
      {.name = "too_wide",
       .parameters = Rectangle("2", "0", "3", "1"),
       .inputs = {{3, 4, 3}},
       .words = {"x=2", "width=3", "(3,4,3)"}},
      {.name = "too_high",
       .parameters = Rectangle("0", "2147483647", "1", "2147483647"),
       .inputs = {{2, 3, 4, 3}},
       .words = {"y=2147483647", "(2,3,4,3)"}},
      {.name = "matrix",
       .parameters = Rectangle("0", "0", "1", "1"),
       .inputs = {{4, 5}},
       .words = {"(4,5)"}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
