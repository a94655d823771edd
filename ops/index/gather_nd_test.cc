#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Calls function(element of the array, element of the slices) for every element of the slices.
template <typename Function>
void ForEachElement(const TShape& array, const Values& indices, const Function& function) {
  const index_t m = indices.shape[0];
  index_t count = 1, width = 1;
  for (int i = 1; i < indices.shape.ndim(); ++i) count *= indices.shape[i];
  for (int i = static_cast<int>(m); i < array.ndim(); ++i) width *= array[i];
  for (index_t k = 0; k < count; ++k) {
    index_t row = 0;
    for (index_t d = 0; d < m; ++d) {
      const index_t extent = array[static_cast<int>(d)];
      const auto index = static_cast<index_t>(indices[d * count + k]);
      row = row * extent + (index < 0 ? index + extent : index);
    }
    for (index_t j = 0; j < width; ++j) function(row * width + j, k * width + j);
  }
}

TShape SlicesOf(const TShape& array, const TShape& indices) {
  std::vector<index_t> extents(indices.begin() + 1, indices.end());
  extents.insert(extents.end(), array.begin() + indices[0], array.end());
  return TShape(std::span<const index_t>(extents));
}

/// The values of an array with some slices replaced.
Values WithSlices(Values array, const Values& indices, const Values& slices) {
  ForEachElement(array.shape, indices, [&](index_t to, index_t from) { array[to] = slices[from]; });
  return array;
}

OperatorRow GatherNdRow() {
  OperatorRow row;
  row.name = "gather_nd";
  row.takes_integers = true;
  row.batch_follows_from_output = false;
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    Values out(SlicesOf(in[0].shape, in[1].shape));
    ForEachElement(in[0].shape, in[1], [&](index_t from, index_t to) { out[to] = in[0][from]; });
    return std::vector<Values>{out};
  };
  row.backward = [](const ParameterMap&, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    std::vector<Values> grad = {Values(in[0].shape), Values(in[1].shape)};
    ForEachElement(in[0].shape, in[1],
                   [&](index_t from, index_t to) { grad[0][from] += out_grad[0][to]; });
    return grad;
  };
  const auto add = [&row](const std::string& name, const TShape& data, const TShape& indices,
                          const Fill& fill, DType type = DType::kFloat32) -> OperatorCase& {
    row.cases.push_back({.name = name,
                         .inputs = {data, indices},
                         .fills = {Fill(), fill},
                         .fixed_types = {DType::kUnknown, type},
                         .shapes_follow_from_first = false});
    return row.cases.back();
  };
  add("elements", {3, 4}, {2, 5}, Fill::Integers(0, 2));
  add("rows", {3, 4}, {1, 5}, Fill::Integers(-3, 2), DType::kInt32);
  add("slices", {3, 4, 2, 2}, {2, 2, 3}, Fill::Integers(-3, 2), DType::kInt64);
  add("three_indices", {3, 4, 2}, {3, 1, 4}, Fill::Integers(0, 1), DType::kUint8);
  add("truncates", {2, 3}, {2, 2}, Fill::Given({0.9, -1.5, 2.25, -0.5}), DType::kFloat64);
  add("no_slices", {3, 4}, {2, 0}, Fill());
  add("no_elements", {3, 0}, {1, 4}, Fill::Integers(0, 2));
  add("parallel", {9, 40, 300}, {2, 70}, Fill::Integers(0, 8), DType::kInt32).large = true;
  OperatorCase& integers = add("of_integers", {3, 4}, {2, 5}, Fill::Integers(0, 2));
  integers.fills[0] = Fill::Integers(0, 9);
  integers.dtypes = {DType::kInt64, DType::kInt32, DType::kInt8, DType::kUint8};
  row.errors = {
      {.name = "too_many_indices",
       .inputs = {{2, 3}, {3, 4}},
       .words = {"indices", "(3,4)", "3 indices", "(2,3)"}},
      {.name = "no_index", .inputs = {{2, 3}, {0, 4}}, .words = {"indices", "(0,4)"}},
      {.name = "vector", .inputs = {{2, 3}, {2}}, .words = {"indices", "(2,)", "two dimensions"}},
      {.name = "too_many_dimensions",
       .inputs = {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}},
       .words = {"9 dimensions", "at most 8"}},
  };
  row.backward_tolerance = {.float64 = 1e-14, .float32 = 1e-5, .float16 = 1e-2, .bfloat16 = 6e-2};
  return row;
}

TShape ShapeParameter(const ParameterMap& parameters) {
  return TShape::Parse(ParameterReader(parameters).Text("shape", "()"));
}

OperatorRow ScatterNdRow() {
  OperatorRow row;
  row.name = "scatter_nd";
  row.takes_integers = true;
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    return std::vector<Values>{WithSlices(Values(ShapeParameter(parameters)), in[1], in[0])};
  };
  row.backward = [](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    std::vector<Values> grad = {Values(in[0].shape), Values(in[1].shape)};
    ForEachElement(ShapeParameter(parameters), in[1],
                   [&](index_t from, index_t to) { grad[0][to] = out_grad[0][from]; });
    return grad;
  };
  const auto add = [&row](const std::string& name, const std::string& shape, const TShape& data,
                          const TShape& indices, const Fill& fill,
                          DType type = DType::kFloat32) -> OperatorCase& {
    row.cases.push_back({.name = name,
                         .parameters = {{"shape", shape}},
                         .inputs = {data, indices},
                         .fills = {Fill(), fill},
                         .fixed_types = {DType::kUnknown, type},
                         .shapes_follow_from_first = false});
    return row.cases.back();
  };
  add("elements", "(3, 4)", {3}, {2, 3}, Fill::Given({0, 2, -2, 3, 0, 1}));
  add("rows", "(4, 3)", {2, 3}, {1, 2}, Fill::Given({3, 1}), DType::kInt32);
  add("slices", "(2, 3, 2)", {2, 2, 2}, {2, 2, 2}, Fill::Given({0, 1, 0, 1, 2, 2, 0, 0}),
      DType::kInt64);
  add("no_slices", "(2, 3)", {0}, {2, 0}, Fill());
  add("no_elements", "(2, 0)", {3, 0}, {1, 3}, Fill::Integers(0, 1));
  // The gradient goes to each of the slices at one position, though only the last is there.
  add("last_one_stays", "(3, 2)", {5, 2}, {1, 5}, Fill::Given({1, 0, 1, 0, 1})).large = true;
  add("parallel", "(90, 700)", {40, 700}, {1, 40}, Fill::Integers(0, 89), DType::kInt32).large =
      true;
  OperatorCase& integers =
      add("of_integers", "(3, 4)", {3}, {2, 3}, Fill::Given({0, 2, -2, 3, 0, 1}));
  integers.fills[0] = Fill::Integers(0, 9);
  integers.dtypes = {DType::kInt64, DType::kInt32, DType::kInt8, DType::kUint8};
  row.errors = {
      {.name = "without_shape", .words = {"required", "shape"}},
      {.name = "unknown_extent", .parameters = {{"shape", "(2, -1)"}}, .words = {"shape"}},
      {.name = "huge", .parameters = {{"shape", "(4294967296, 4294967296)"}}, .words = {"63 bits"}},
      {.name = "other_rows",
       .parameters = {{"shape", "(4, 4)"}},
       .inputs = {{2, 3}, {1, 2}},
       .words = {"data", "(2,3)", "(None,4)"}},
      {.name = "too_many_indices",
       .parameters = {{"shape", "(4,)"}},
       .inputs = {{2}, {2, 2}},
       .words = {"indices", "(2,2)", "(4,)"}},
  };
  return row;
}

OperatorRow ScatterSetNdRow() {
  OperatorRow row;
  row.name = "_scatter_set_nd";
  row.takes_integers = true;
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    return std::vector<Values>{WithSlices(in[0], in[2], in[1])};
  };
  const auto add = [&row](const std::string& name, const std::string& shape, const TShape& lhs,
                          const TShape& rhs, const TShape& indices, const Fill& fill,
                          DType type = DType::kFloat32) {
    row.cases.push_back({.name = name,
                         .parameters = {{"shape", shape}},
                         .inputs = {lhs, rhs, indices},
                         .fills = {Fill(), Fill(), fill},
                         .fixed_types = {DType::kUnknown, DType::kUnknown, type},
                         .shapes_follow_from_first = false});
  };
  add("elements", "(3,4)", {3, 4}, {3}, {2, 3}, Fill::Given({0, 2, -2, 3, 0, 1}));
  add("rows", "(4,3)", {4, 3}, {2, 3}, {1, 2}, Fill::Given({3, 1}), DType::kInt32);
  add("last_one_stays", "(3,2)", {3, 2}, {5, 2}, {1, 5}, Fill::Given({1, 0, 1, 0, 1}));
  add("no_slices", "(2,3)", {2, 3}, {0}, {2, 0}, Fill());
  row.errors = {
      {.name = "other_lhs",
       .parameters = {{"shape", "(4,3)"}},
       .inputs = {{3, 4}},
       .words = {"lhs", "(3,4)", "(4,3)"}},
      {.name = "unknown_extent", .parameters = {{"shape", "(2, -1)"}}, .words = {"shape"}},
  };
  return row;
}

const RowRegistration kGatherNd(GatherNdRow());
const RowRegistration kScatterNd(ScatterNdRow());
const RowRegistration kScatterSetNd(ScatterSetNdRow());

}  // namespace
}  // namespace tessera::ops_testing
