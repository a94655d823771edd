#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Data seen as steps of sequences, each of `width` elements.
struct Sequences {
  int axis;
  index_t steps, batch, width;
  Sequences(const ParameterMap& parameters, const TShape& data)
      : axis(static_cast<int>(ParameterReader(parameters).Int("axis", 0))),
        steps(data[axis]),
        batch(data[1 - axis]),
        width(data.ProdShape(2, data.ndim())) {}

  index_t At(index_t t, index_t b, index_t j) const {
    return ((axis == 0 ? t * batch + b : b * steps + t)) * width + j;
  }
  index_t Length(const std::vector<Values>& in, index_t b) const {
    return in.size() > 1 ? std::min(static_cast<index_t>(in[1][b]), steps) : steps;
  }
  template <typename Function>
  void ForEach(const Function& function) const {
    for (index_t t = 0; t < steps; ++t) {
      for (index_t b = 0; b < batch; ++b) {
        for (index_t j = 0; j < width; ++j) function(t, b, j);
      }
    }
  }
};

std::vector<Values> Mask(const ParameterMap& parameters, const std::vector<Values>& in,
                         std::vector<Values>*) {
  const Sequences s(parameters, in[0].shape);
  Values out = in[0];
  const double value = ParameterReader(parameters).Real("value", 0);
  s.ForEach([&](index_t t, index_t b, index_t j) {
    if (t >= s.Length(in, b)) out[s.At(t, b, j)] = value;
  });
  return {out};
}

std::vector<Values> Last(const ParameterMap& parameters, const std::vector<Values>& in,
                         std::vector<Values>*) {
  const Sequences s(parameters, in[0].shape);
  std::vector<index_t> extents(in[0].shape.begin(), in[0].shape.end());
  extents.erase(extents.begin() + s.axis);
  Values out{TShape(std::span<const index_t>(extents))};
  s.ForEach([&](index_t t, index_t b, index_t j) {
    if (t == s.Length(in, b) - 1) out[b * s.width + j] = in[0][s.At(t, b, j)];
  });
  return {out};
}

std::vector<Values> Reverse(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const Sequences s(parameters, in[0].shape);
  Values out = in[0];
  s.ForEach([&](index_t t, index_t b, index_t j) {
    const index_t length = s.Length(in, b);
    if (t < length) out[s.At(t, b, j)] = in[0][s.At(length - 1 - t, b, j)];
  });
  return {out};
}

/// The gradient of a function that moves elements. Where they go is found by moving their positions
/// in place of them.
BackwardReference GradientOf(const ForwardReference& forward) {
  return [forward](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                   const std::vector<Values>& in, const std::vector<Values>&) {
    std::vector<Values> numbered = in, grad;
    for (const Values& input : in) grad.emplace_back(input.shape);
    for (index_t i = 0; i < in[0].size(); ++i) numbered[0][i] = static_cast<double>(i);
    ParameterMap unmarked = parameters;
    unmarked["value"] = "-1";
    const Values from = forward(unmarked, numbered, nullptr)[0];
    for (index_t i = 0; i < from.size(); ++i) {
      if (from[i] >= 0) grad[0][static_cast<index_t>(from[i])] += out_grad[0][i];
    }
    return grad;
  };
}

OperatorRow Row(const std::string& op, ForwardReference forward) {
  OperatorRow row;
  row.name = op;
  row.takes_integers = true;
  row.batch_follows_from_output = false;
  row.forward = forward;
  row.backward = GradientOf(forward);
  const bool has_value = op == "SequenceMask", has_axis = op != "SequenceReverse";
  const bool takes_0 = op != "SequenceLast";
  const auto add = [&](const std::string& name, ParameterMap parameters, const TShape& data,
                       std::vector<double> lengths, DType type) -> OperatorCase& {
    parameters["use_sequence_length"] = "True";
    const index_t batch = data[1 - ParameterReader(parameters).Int("axis", 0)];
    return row.cases.emplace_back(OperatorCase{.name = name,
                                               .parameters = std::move(parameters),
                                               .inputs = {data, {batch}},
                                               .fills = {Fill(), Fill::Given(std::move(lengths))},
                                               .fixed_types = {DType::kUnknown, type}});
  };
  row.cases.push_back({.name = "whole", .inputs = {{4, 3, 2}}});
  row.cases.push_back({.name = "whole_matrix",
                       .parameters = {{"use_sequence_length", "False"}},
                       .inputs = {{4, 3}}});
  add("by_float32", {}, {4, 3, 2}, {2, 4, 1}, DType::kFloat32);
  add("by_int32", {}, {4, 5}, {2, 2, 4, 1, 3}, DType::kInt32);
  add("by_int64", {}, {4, 3, 2, 2}, {4, 1, 4}, DType::kInt64);
  add("by_fractions", {}, {4, 3}, {1.5, 2.75, 3}, DType::kFloat16);
  add("by_uint8", {}, {4, 3}, {2, 3, 1}, DType::kUint8);
  if (takes_0) add("of_0", {}, {4, 3}, {0, 3, 0}, DType::kInt32);
  if (has_axis) {
    add("batch_first", {{"axis", "1"}}, {3, 4, 2}, {2, 4, 1}, DType::kFloat32);
    add("batch_first_matrix", {{"axis", "1"}}, {3, 4}, {2, 4, 1}, DType::kInt32);
    row.cases.push_back(
        {.name = "whole_batch_first", .parameters = {{"axis", "1"}}, .inputs = {{3, 4, 2}}});
  }
  if (has_value) {
    add("with_value", {{"value", "-1.5"}}, {4, 3, 2}, {2, 4, 1}, DType::kFloat32);
    add("longer_than_data", {}, {4, 3}, {2, 9, 4}, DType::kInt32);
  }
  add("of_no_batch", {}, {4, 0, 2}, {1}, DType::kInt32);
  OperatorCase& integers = add("of_integers", {}, {4, 3, 2}, {2, 4, 1}, DType::kInt32);
  integers.fills[0] = Fill::Integers(0, 99);
  integers.dtypes = {DType::kInt32, DType::kInt64, DType::kInt8, DType::kUint8};
  integers.large = true;
  OperatorCase& parallel = add("parallel", {}, {40, 30, 70}, {7, 40, 1, 33, 8, 8}, DType::kInt32);
  parallel.dtypes = {DType::kFloat32, DType::kBFloat16};
  parallel.large = true;
  row.errors = {
      {.name = "vector", .inputs = {{4}}, .words = {"data", "(4,)", "2 dimensions"}},
      {.name = "axis_2", .parameters = {{"axis", "2"}}, .words = {"axis", "2"}},
      {.name = "negative_axis", .parameters = {{"axis", "-1"}}, .words = {"axis", "-1"}},
      {.name = "other_batch",
       .parameters = {{"use_sequence_length", "True"}},
       .inputs = {{4, 3}, {2}},
       .words = {"sequence_length", "(2,)", "(3,)"}},
  };
  if (op == "SequenceLast") {
    row.errors.push_back({.name = "no_steps", .inputs = {{0, 3}}, .words = {"(0,3)", "step"}});
  }
  return row;
}

const RowRegistration kRows[] = {
    RowRegistration(Row("SequenceMask", Mask)),
    RowRegistration(Row("SequenceLast", Last)),
    RowRegistration(Row("SequenceReverse", Reverse)),
};

}  // namespace
}  // namespace tessera::ops_testing
