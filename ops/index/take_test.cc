#include <algorithm>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Calls function(element of a, element of out) for every element of the output.
template <typename Function>
TShape ForEachTaken(const ParameterMap& parameters, const Values& a, const Values& indices,
                    const Function& function) {
  const ParameterReader read(parameters);
  index_t axis = read.Int("axis", 0);
  if (axis < 0) axis += a.shape.ndim();
  const bool wraps = read.Text("mode", "clip") == "wrap";
  const index_t extent = a.shape[static_cast<int>(axis)];
  index_t outer = 1, width = 1;
  std::vector<index_t> extents;
  for (int i = 0; i < a.shape.ndim(); ++i) {
    if (i < axis) outer *= a.shape[i];
    if (i > axis) width *= a.shape[i];
    if (i != axis) {
      extents.push_back(a.shape[i]);
    } else {
      extents.insert(extents.end(), indices.shape.begin(), indices.shape.end());
    }
  }
  for (index_t o = 0; o < outer; ++o) {
    for (index_t k = 0; k < indices.size(); ++k) {
      const auto index = static_cast<index_t>(indices[k]);
      const index_t row =
          wraps ? ((index % extent) + extent) % extent : std::clamp<index_t>(index, 0, extent - 1);
      for (index_t j = 0; j < width; ++j) {
        function((o * extent + row) * width + j, (o * indices.size() + k) * width + j);
      }
    }
  }
  return TShape(std::span<const index_t>(extents));
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "take";
  row.takes_integers = true;
  row.batch_follows_from_output = false;
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    const auto nothing = [](index_t, index_t) {};
    Values out(ForEachTaken(parameters, in[0], Values(in[1].shape), nothing));
    ForEachTaken(parameters, in[0], in[1],
                 [&](index_t from, index_t to) { out[to] = in[0][from]; });
    return std::vector<Values>{out};
  };
  row.backward = [](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    std::vector<Values> grad = {Values(in[0].shape), Values(in[1].shape)};
    ForEachTaken(parameters, in[0], in[1],
                 [&](index_t from, index_t to) { grad[0][from] += out_grad[0][to]; });
    return grad;
  };
  const auto add = [&row](const std::string& name, const ParameterMap& parameters, const TShape& a,
                          const TShape& indices, const Fill& fill,
                          DType type = DType::kFloat32) -> OperatorCase& {
    row.cases.push_back({.name = name,
                         .parameters = parameters,
                         .inputs = {a, indices},
                         .fills = {Fill(), fill},
                         .fixed_types = {DType::kUnknown, type},
                         .shapes_follow_from_first = false});
    return row.cases.back();
  };
  const auto with = [](const std::string& axis, const std::string& mode) {
    return ParameterMap{{"axis", axis}, {"mode", mode}};
  };
  add("first_axis", {}, {5, 3}, {2, 4}, Fill::Integers(0, 4));
  for (const DType type : {DType::kInt32, DType::kInt64, DType::kUint8, DType::kFloat64}) {
    add("of_" + std::string(DTypeName(type)), {}, {5, 3}, {7}, Fill::Integers(0, 4), type);
  }
  add("last_axis", with("-1", "raise"), {2, 3, 5}, {4}, Fill::Integers(0, 4));
  add("middle_axis", with("1", "clip"), {2, 5, 3}, {2, 2}, Fill::Integers(0, 4), DType::kInt32);
  add("clips", {}, {4, 2}, {6}, Fill::Given({-9, 4, 99, 1.75, -0.5, 3}));
  add("wraps", with("1", "wrap"), {2, 4, 2}, {7}, Fill::Given({-9, 4, 99, 1.75, -0.5, -1, -1.5}));
  add("scalar_index", with("1", "clip"), {2, 4, 2}, TShape::OfRank(0), Fill::Given({2}));
  add("of_a_vector", {}, {6}, {3, 1}, Fill::Integers(0, 5));
  add("no_indices", with("1", "clip"), {2, 4}, {0, 3}, Fill());
  add("no_elements", with("1", "clip"), {0, 4, 2}, {3}, Fill::Integers(0, 3));
  add("many_per_row", {}, {3}, {1000}, Fill::Integers(0, 2), DType::kInt64);
  add("parallel", {}, {30, 300}, {50, 9}, Fill::Integers(0, 29), DType::kInt32).large = true;
  add("parallel_tables", with("1", "wrap"), {80, 30, 7}, {90}, Fill::Integers(-40, 40)).large =
      true;
  for (const TShape& a : {TShape{5, 3}, TShape{2, 5, 1}}) {
    OperatorCase& integers =
        add("of_integers_" + std::to_string(a.ndim()), with(std::to_string(a.ndim() - 2), "clip"),
            a, {9}, Fill::Integers(0, 4), DType::kInt32);
    integers.fills[0] = Fill::Integers(0, 9);
    integers.dtypes = {DType::kInt64, DType::kInt32, DType::kInt8, DType::kUint8};
  }
  row.errors = {
      {.name = "axis_too_large",
       .parameters = {{"axis", "2"}},
       .inputs = {{2, 3}, {4}},
       .words = {"axis 2", "[-2, 2)"}},
      {.name = "scalar", .inputs = {TShape::OfRank(0), {4}}, .words = {"axis 0", "rank 0"}},
      {.name = "unknown_mode", .parameters = {{"mode", "nearest"}}, .words = {"nearest", "wrap"}},
      {.name = "too_many_dimensions",
       .inputs = {{1, 1, 1, 1, 1}, {1, 1, 1, 1, 1}},
       .words = {"9 dimensions", "at most 8"}},
  };
  row.backward_tolerance = {.float64 = 1e-14, .float32 = 1e-5, .float16 = 1e-2, .bfloat16 = 6e-2};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
