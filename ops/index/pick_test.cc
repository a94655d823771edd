#include <algorithm>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// The element types of cases whose values are integers.
const std::vector<DType> kIntegers = {DType::kInt64, DType::kInt32, DType::kInt8, DType::kUint8};

// pick.

/// Calls function(element of data, element of out) for every element of the output, and returns the
/// output's shape.
template <typename Function>
TShape ForEachPicked(const ParameterMap& parameters, const Values& data, const Values& index,
                     const Function& function) {
  const ParameterReader read(parameters);
  index_t axis = read.Int("axis", -1);
  if (axis < 0) axis += data.shape.ndim();
  const bool keeps = read.Bool("keepdims", false) || data.shape.ndim() == 1;
  const bool wraps = read.Text("mode", "clip") == "wrap";
  const index_t extent = data.shape[static_cast<int>(axis)];
  index_t width = 1;
  std::vector<index_t> extents;
  for (int i = 0; i < data.shape.ndim(); ++i) {
    if (i > axis) width *= data.shape[i];
    if (i != axis) {
      extents.push_back(data.shape[i]);
    } else if (keeps) {
      extents.push_back(1);
    }
  }
  for (index_t i = 0; i < index.size(); ++i) {
    const auto given = static_cast<index_t>(index[i]);
    const index_t row =
        wraps ? ((given % extent) + extent) % extent : std::clamp<index_t>(given, 0, extent - 1);
    function((i / width * extent + row) * width + i % width, i);
  }
  return TShape(std::span<const index_t>(extents));
}

OperatorRow PickRow() {
  OperatorRow row;
  row.name = "pick";
  row.takes_integers = true;
  row.batch_follows_from_output = false;
  row.forward = [](const ParameterMap& parameters, const std::vector<Values>& in,
                   std::vector<Values>*) {
    Values out(ForEachPicked(parameters, in[0], Values(in[1].shape), [](index_t, index_t) {}));
    ForEachPicked(parameters, in[0], in[1],
                  [&](index_t from, index_t to) { out[to] = in[0][from]; });
    return std::vector<Values>{out};
  };
  row.backward = [](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    std::vector<Values> grad = {Values(in[0].shape), Values(in[1].shape)};
    ForEachPicked(parameters, in[0], in[1],
                  [&](index_t from, index_t to) { grad[0][from] = out_grad[0][to]; });
    return grad;
  };
  const auto add = [&row](const std::string& name, const ParameterMap& parameters,
                          const TShape& data, const TShape& index, const Fill& fill,
                          DType type = DType::kFloat32) -> OperatorCase& {
    const bool has_axis = index.ndim() == data.ndim() && data.ndim() > 1;
    row.cases.push_back({.name = name,
                         .parameters = parameters,
                         .inputs = {data, index},
                         .fills = {Fill(), fill},
                         .fixed_types = {DType::kUnknown, type},
                         .shapes_follow_from_first = !has_axis});
    return row.cases.back();
  };
  add("last_axis", {}, {4, 5}, {4}, Fill::Integers(0, 4));
  add("first_axis", {{"axis", "0"}}, {4, 5}, {5}, Fill::Integers(0, 3), DType::kInt32);
  add("middle_axis", {{"axis", "1"}}, {2, 5, 3}, {2, 3}, Fill::Integers(0, 4), DType::kInt64);
  add("keeps_the_axis", {{"axis", "-2"}, {"keepdims", "True"}}, {2, 5, 3}, {2, 3},
      Fill::Integers(0, 4), DType::kUint8);
  add("index_has_the_axis", {}, {4, 5}, {4, 1}, Fill::Integers(0, 4));
  add("both_have_the_axis", {{"keepdims", "1"}}, {4, 5}, {4, 1}, Fill::Integers(0, 4));
  add("clips", {}, {6, 4}, {6}, Fill::Given({-9, 4, 99, 1.75, -0.5, 3}));
  add("wraps", {{"mode", "wrap"}}, {6, 4}, {6}, Fill::Given({-9, 4, 99, 1.75, -0.5, -1}));
  add("vector", {{"axis", "0"}}, {4}, {1}, Fill::Given({2}));
  add("vector_keeps_the_axis", {{"keepdims", "1"}}, {4}, {1}, Fill::Given({2}));
  add("no_rows", {}, {0, 4}, {0}, Fill());
  add("parallel", {{"axis", "1"}}, {70, 6, 900}, {70, 900}, Fill::Integers(0, 5)).large = true;
  OperatorCase& integers = add("of_integers", {}, {4, 5}, {4}, Fill::Integers(0, 4));
  integers.fills[0] = Fill::Integers(0, 99);
  integers.dtypes = kIntegers;
  row.errors = {
      {.name = "no_axis", .parameters = {{"axis", "None"}}, .words = {"axis is None"}},
      {.name = "axis_too_small",
       .parameters = {{"axis", "-3"}},
       .inputs = {{2, 3}, {2}},
       .words = {"axis -3", "[-2, 2)"}},
      {.name = "other_rows", .inputs = {{2, 3}, {3}}, .words = {"index", "(3,)", "(2,)"}},
      {.name = "index_of_other_axis", .inputs = {{2, 3}, {2, 3}}, .words = {"index", "(2,1)"}},
      {.name = "raise", .parameters = {{"mode", "raise"}}, .words = {"raise", "clip"}},
  };
  return row;
}

// batch_take.

OperatorRow BatchTakeRow() {
  OperatorRow row;
  row.name = "batch_take";
  row.takes_integers = true;
  row.batch_follows_from_output = false;
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    const index_t n = in[0].shape[in[0].shape.ndim() - 1];
    Values out(in[1].shape);
    for (index_t i = 0; i < out.size(); ++i) {
      out[i] = in[0][i * n + std::clamp<index_t>(static_cast<index_t>(in[1][i]), 0, n - 1)];
    }
    return std::vector<Values>{out};
  };
  const auto add = [&row](const std::string& name, const TShape& a, const TShape& indices,
                          const Fill& fill, DType type = DType::kInt32) {
    row.cases.push_back({.name = name,
                         .inputs = {a, indices},
                         .fills = {Fill(), fill},
                         .fixed_types = {DType::kUnknown, type},
                         .shapes_follow_from_first = false});
  };
  add("matrix", {4, 5}, {4}, Fill::Integers(0, 4));
  add("of_float", {4, 5}, {4}, Fill::Given({1.9, -3, 7, 2}), DType::kFloat32);
  add("three_dimensions", {2, 3, 4}, {2, 3}, Fill::Integers(-2, 6));
  add("flat_indices", {2, 3, 4}, {6}, Fill::Integers(0, 3), DType::kInt64);
  add("vector", {4}, {1}, Fill::Given({2}));
  add("no_rows", {0, 5}, {0}, Fill());
  row.errors = {
      {.name = "other_rows", .inputs = {{2, 3}, {3}}, .words = {"indices", "(3,)", "(2,)"}},
      {.name = "other_count",
       .inputs = {{2, 3, 4}, {5}},
       .words = {"indices", "(5,)", "6 elements", "(2,3,4)"}},
      {.name = "scalar", .inputs = {TShape::OfRank(0), {1}}, .words = {"a is a scalar"}},
  };
  return row;
}

// fill_element_0index.

OperatorRow FillElementRow() {
  OperatorRow row;
  row.name = "fill_element_0index";
  row.takes_integers = true;
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    const index_t n = in[0].shape[1];
    Values out = in[0];
    for (index_t i = 0; i < in[1].size(); ++i) {
      const auto at = static_cast<index_t>(in[2][i]);
      if (at >= 0 && at < n) out[i * n + at] = in[1][i];
    }
    return std::vector<Values>{out};
  };
  const auto add = [&row](const std::string& name, const TShape& lhs, const Fill& fill,
                          DType type = DType::kFloat32) {
    row.cases.push_back({.name = name,
                         .inputs = {lhs, {lhs[0]}, {lhs[0]}},
                         .fills = {Fill(), Fill(), fill},
                         .fixed_types = {DType::kUnknown, DType::kUnknown, type}});
  };
  add("matrix", {4, 5}, Fill::Integers(0, 4));
  add("of_int32", {4, 5}, Fill::Integers(0, 4), DType::kInt32);
  add("passes_over", {4, 5}, Fill::Given({-1, 5, 1.5, 4}));
  add("no_rows", {0, 5}, Fill());
  add("no_columns", {3, 0}, Fill::Integers(0, 4));
  row.errors = {
      {.name = "other_rows", .inputs = {{2, 3}, {3}}, .words = {"mhs", "(3,)", "(2,)"}},
      {.name = "vector", .inputs = {{3}}, .words = {"lhs", "(3,)"}},
  };
  return row;
}

const RowRegistration kPick(PickRow());
const RowRegistration kBatchTake(BatchTakeRow());
const RowRegistration kFillElement(FillElementRow());

}  // namespace
}  // namespace tessera::ops_testing
