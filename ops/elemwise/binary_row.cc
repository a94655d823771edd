#include "tessera/ops/elemwise/binary_row.h"

#include <vector>

#include "tessera/ops/parameter.h"

namespace tessera::ops_testing {
namespace {

/// The element of an array that is broadcast to shape `of`, at position `index` of that shape.
index_t BroadcastIndex(const TShape& shape, const TShape& of, index_t index) {
  index_t offset = 0, stride = 1;
  for (int d = of.ndim() - 1; d >= 0; --d) {
    const index_t position = index % of[d];
    index /= of[d];
    const int own = d - (of.ndim() - shape.ndim());
    if (own < 0) continue;
    if (shape[own] != 1) offset += position * stride;
    stride *= shape[own];
  }
  return offset;
}

TShape BroadcastShape(const TShape& a, const TShape& b) {
  TShape shape = a.ndim() >= b.ndim() ? a : b;
  const TShape& other = a.ndim() >= b.ndim() ? b : a;
  for (int i = 1; i <= other.ndim(); ++i) {
    if (other[other.ndim() - i] != 1) shape[shape.ndim() - i] = other[other.ndim() - i];
  }
  return shape;
}

OperatorRow RowOfTwo(const BinaryFunction& f, const std::string& name) {
  OperatorRow row;
  row.name = name;
  row.takes_integers = true;
  row.gradient_is_derivative = f.is_smooth;
  row.forward = [f](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    Values out(BroadcastShape(in[0].shape, in[1].shape));
    for (index_t i = 0; i < out.size(); ++i) {
      out[i] = f.value(in[0][BroadcastIndex(in[0].shape, out.shape, i)],
                       in[1][BroadcastIndex(in[1].shape, out.shape, i)]);
    }
    return std::vector<Values>{out};
  };
  row.backward = [f](const ParameterMap&, const std::vector<Values>& out_grad,
                     const std::vector<Values>& in, const std::vector<Values>& out) {
    std::vector<Values> grad = {Values(in[0].shape), Values(in[1].shape)};
    for (index_t i = 0; i < out[0].size(); ++i) {
      const index_t a = BroadcastIndex(in[0].shape, out[0].shape, i);
      const index_t b = BroadcastIndex(in[1].shape, out[0].shape, i);
      grad[0][a] += out_grad[0][i] * f.left(in[0][a], in[1][b]);
      grad[1][b] += out_grad[0][i] * f.right(in[0][a], in[1][b]);
    }
    return grad;
  };
  row.forward_tolerance = {.float64 = 4e-15, .float32 = 2e-6, .float16 = 2e-3, .bfloat16 = 1.6e-2};
  row.backward_tolerance = {
      .float64 = 2e-14, .float32 = 1e-5, .float16 = 1e-2, .bfloat16 = 8e-2, .of_largest = true};
  return row;
}

void AddCase(OperatorRow* row, const BinaryFunction& f, const std::string& name, const TShape& a,
             const TShape& b) {
  row->cases.push_back({.name = name, .inputs = {a, b}, .fills = {f.left_fill, f.right_fill}});
}

/// Adds the special operands of `f`, of shapes a and b.
void AddSpecialCase(OperatorRow* row, const BinaryFunction& f, const TShape& a, const TShape& b) {
  if (f.special_left.empty()) return;
  row->cases.push_back({.name = "special",
                        .inputs = {a, b},
                        .fills = {Fill::Given(f.special_left), Fill::Given(f.special_right)},
                        .large = true});
}

OperatorRow RowWithNumber(const BinaryFunction& f, bool is_reverse) {
  OperatorRow row;
  row.name = is_reverse ? f.reverse_scalar : f.scalar;
  row.takes_integers = true;
  row.gradient_is_derivative = f.is_smooth;
  row.shapes_follow_from_output = true;
  row.forward = [f, is_reverse](const ParameterMap& parameters, const std::vector<Values>& in,
                                std::vector<Values>*) {
    const double s = ParameterReader(parameters).Real("scalar", 1);
    Values out(in[0].shape);
    for (index_t i = 0; i < out.size(); ++i) {
      out[i] = is_reverse ? f.value(s, in[0][i]) : f.value(in[0][i], s);
    }
    return std::vector<Values>{out};
  };
  row.backward = [f, is_reverse](const ParameterMap& parameters,
                                 const std::vector<Values>& out_grad, const std::vector<Values>& in,
                                 const std::vector<Values>&) {
    const double s = ParameterReader(parameters).Real("scalar", 1);
    Values grad(in[0].shape);
    for (index_t i = 0; i < grad.size(); ++i) {
      grad[i] = out_grad[0][i] * (is_reverse ? f.right(s, in[0][i]) : f.left(in[0][i], s));
    }
    return std::vector<Values>{grad};
  };
  const Fill fill = is_reverse ? f.right_fill : f.left_fill;
  const auto add = [&](const std::string& name, const ParameterMap& parameters,
                       const TShape& shape) {
    row.cases.push_back(
        {.name = name, .parameters = parameters, .inputs = {shape}, .fills = {fill}});
  };
  add("matrix", {{"scalar", "1.25"}}, {3, 7});
  add("empty", {{"scalar", "1.25"}}, {0, 3});
  add("rank_0", {{"scalar", "1.75"}}, TShape::OfRank(0));
  add("default_of_one", {{"is_int", "True"}}, {5});
  add("blocks", {{"scalar", "1.25"}}, {1100});
  const std::vector<double>& numbers = is_reverse ? f.special_left : f.special_right;
  const std::vector<double>& elements = is_reverse ? f.special_right : f.special_left;
  for (size_t i = 0; i < numbers.size(); ++i) {
    row.cases.push_back(
        {.name = "special_" + std::to_string(i),
         .parameters = {{"scalar", ops_internal::ParameterText<double>::Print(numbers[i])}},
         .inputs = {{static_cast<index_t>(elements.size())}},
         .fills = {Fill::Given(elements)},
         .large = true});
  }
  row.forward_tolerance = {.float64 = 4e-15, .float32 = 2e-6, .float16 = 2e-3, .bfloat16 = 1.6e-2};
  row.backward_tolerance = {.float64 = 1e-14, .float32 = 4e-6, .float16 = 8e-3, .bfloat16 = 6e-2};
  row.errors = {
      {.name = "no_number", .parameters = {{"scalar", "one"}}, .words = {"scalar", "one"}}};
  return row;
}

}  // namespace

BinaryRows::BinaryRows(const BinaryFunction& f) {
  if (!f.elementwise.empty()) {
    OperatorRow row = RowOfTwo(f, f.elementwise);
    row.shapes_follow_from_output = true;
    AddCase(&row, f, "matrix", {3, 7}, {3, 7});
    AddCase(&row, f, "empty", {0, 3}, {0, 3});
    AddCase(&row, f, "rank_0", TShape::OfRank(0), TShape::OfRank(0));
    AddCase(&row, f, "blocks", {2, 3, 200}, {2, 3, 200});
    const auto special = static_cast<index_t>(f.special_left.size());
    AddSpecialCase(&row, f, {special}, {special});
    row.errors = {
        {.name = "other_shape", .inputs = {{2, 3}, {2, 4}}, .words = {"rhs", "(2,3)", "(2,4)"}},
        {.name = "other_rank", .inputs = {{2, 3}, {6}}, .words = {"rhs", "(2,3)", "(6,)"}}};
    RowRegistration{row};
  }
  if (!f.broadcast.empty()) {
    OperatorRow row = RowOfTwo(f, f.broadcast);
    row.batch_follows_from_output = false;
    AddCase(&row, f, "one_shape", {3, 4}, {3, 4});
    AddCase(&row, f, "row", {3, 4}, {1, 4});
    AddCase(&row, f, "column_of_lower_rank", {2, 3, 4}, {3, 1});
    AddCase(&row, f, "both", {3, 1, 5}, {1, 2, 5});
    AddCase(&row, f, "channel", {2, 3, 5, 40}, {1, 3, 1, 1});
    AddCase(&row, f, "rank_0", {2, 3}, TShape::OfRank(0));
    AddCase(&row, f, "empty", {0, 3}, {1, 3});
    AddSpecialCase(&row, f, {static_cast<index_t>(f.special_left.size()), 1},
                   {static_cast<index_t>(f.special_right.size())});
    for (OperatorCase& test_case : row.cases) test_case.shapes_follow_from_first = false;
    row.errors = {{.name = "other_extent",
                   .inputs = {{2, 3}, {2, 4}},
                   .words = {"lhs", "rhs", "(2,3)", "(2,4)"}}};
    RowRegistration{row};
  }
  if (!f.scalar.empty()) RowRegistration{RowWithNumber(f, false)};
  if (!f.reverse_scalar.empty()) RowRegistration{RowWithNumber(f, true)};
}

}  // namespace tessera::ops_testing
