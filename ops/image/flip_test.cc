#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"
#include "tessera/ops/testing/shape_reference.h"

namespace tessera::ops_testing {
namespace {

/// Returns the reference that reverses a dimension, counted from the last.
ForwardReference Reversed(int from_last) {
  return [from_last](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    const int axis = in[0].shape.ndim() - 1 - from_last;
    return std::vector<Values>{Gather(in[0], in[0].shape, [&](Position at) {
      index_t& i = at[static_cast<size_t>(axis)];
      i = in[0].shape[axis] - 1 - i;
      return at;
    })};
  };
}

OperatorRow Row(const std::string& name, int from_last) {
  OperatorRow row;
  row.name = name;
  row.forward = Reversed(from_last);
  row.shapes_follow_from_output = true;
  row.takes_integers = true;
  row.errors = {{.name = "matrix", .inputs = {{4, 5}}, .words = {"(4,5)"}},
                {.name = "rank_5", .inputs = {{1, 2, 4, 5, 3}}, .words = {"(1,2,4,5,3)"}}};
  return row;
}

OperatorRow FlipRow(const std::string& name, int from_last) {
  OperatorRow row = Row(name, from_last);
  row.cases = {
      {.name = "odd", .inputs = {{3, 5, 3}}, .dtypes = MovedDTypes()},
      {.name = "even", .inputs = {{4, 2, 1}}, .dtypes = MovedDTypes()},
      {.name = "batch", .inputs = {{2, 3, 4, 2}}},
      {.name = "pixel", .inputs = {{1, 1, 3}}},
      {.name = "no_rows", .inputs = {{0, 4, 3}}},
      {.name = "no_columns", .inputs = {{4, 0, 3}}},
  };
  return row;
}

// Images that equal their mirror images, whatever is drawn; random_images_test has others.
OperatorRow RandomFlipRow(const std::string& name, int from_last) {
  OperatorRow row = Row(name, from_last);
  const auto add = [&row](const std::string& title, const TShape& shape, const Fill& fill) {
    row.cases.push_back(
        {.name = title, .inputs = {shape}, .fills = {fill}, .dtypes = MovedDTypes()});
  };
  const bool columns = from_last == 1;
  add("grey", columns ? TShape{3, 4, 1} : TShape{4, 1, 1}, Fill::Given({1, 2, 2, 1}));
  add("color", columns ? TShape{2, 3, 3} : TShape{3, 1, 3},
      Fill::Given({1, 2, 3, 4, 5, 6, 1, 2, 3}));
  add("batch", {2, 3, 4, 2}, Fill::Given({7, 8}));
  add("no_rows", {0, 4, 3}, Fill::Given({0}));
  return row;
}

const RowRegistration kLeftRight(FlipRow("_image_flip_left_right", 1));
const RowRegistration kTopBottom(FlipRow("_image_flip_top_bottom", 2));
const RowRegistration kRandomLeftRight(RandomFlipRow("_image_random_flip_left_right", 1));
const RowRegistration kRandomTopBottom(RandomFlipRow("_image_random_flip_top_bottom", 2));

}  // namespace
}  // namespace tessera::ops_testing
