#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

enum class Kind { kSoftmax, kSoftmin, kLogSoftmax };

/// Softmax along `axis` of an array seen as (outer, n, inner).
Values Softmax(Kind kind, const Values& x, int axis, double temperature, const Values* length) {
  if (axis < 0) axis += x.shape.ndim();
  const index_t outer = x.shape.ProdShape(0, axis), n = x.shape[axis];
  const index_t inner = x.shape.ProdShape(axis + 1, x.shape.ndim());
  const double sign = kind == Kind::kSoftmin ? -1 : 1;
  Values y(x.shape);
  for (index_t o = 0; o < outer; ++o) {
    for (index_t j = 0; j < inner; ++j) {
      const index_t used = length == nullptr ? n : static_cast<index_t>((*length)[o * inner + j]);
      const auto at = [&](index_t k) { return (o * n + k) * inner + j; };
      double largest = -INFINITY, sum = 0;
      for (index_t k = 0; k < used; ++k) largest = std::max(largest, sign * x[at(k)] / temperature);
      for (index_t k = 0; k < used; ++k) sum += std::exp(sign * x[at(k)] / temperature - largest);
      for (index_t k = 0; k < used; ++k) {
        const double log = sign * x[at(k)] / temperature - largest - std::log(sum);
        y[at(k)] = kind == Kind::kLogSoftmax ? log : std::exp(log);
      }
    }
  }
  return y;
}

OperatorRow Row(const std::string& name, Kind kind) {
  OperatorRow row;
  row.name = name;
  row.shapes_follow_from_output = true;
  row.forward = [kind](const ParameterMap& parameters, const std::vector<Values>& in,
                       std::vector<Values>*) {
    const ParameterReader p(parameters);
    return std::vector<Values>{Softmax(kind, in[0], static_cast<int>(p.Int("axis", -1)),
                                       p.Real("temperature", 1), in.size() > 1 ? &in[1] : nullptr)};
  };
  const auto add = [&](const std::string& case_name, ParameterMap parameters,
                       std::vector<TShape> inputs) -> OperatorCase& {
    return row.cases.emplace_back(OperatorCase{.name = case_name,
                                               .parameters = std::move(parameters),
                                               .inputs = std::move(inputs),
                                               .fills = {Fill::Uniform(-3, 3)}});
  };
  add("rows", {}, {{3, 5}});
  add("vector", {}, {{37}});
  add("one_element", {}, {{4, 1}});
  add("batch_0", {}, {{0, 4}});
  add("nothing_to_add", {}, {{3, 0}});
  add("first_axis", {{"axis", "0"}}, {{4, 3}});
  add("middle_axis", {{"axis", "1"}}, {{2, 5, 19}});
  add("negative_axis", {{"axis", "-3"}}, {{3, 4, 2, 2}});
  add("temperature", {{"temperature", "2.5"}}, {{3, 7}});
  add("negative_temperature", {{"temperature", "-0.5"}}, {{3, 7}});
  OperatorCase& wide = add("wide_output", {{"dtype", "float32"}}, {{3, 5}});
  wide.fixed_types = {DType::kUnknown};
  wide.dtypes = {DType::kFloat16, DType::kFloat32};
  OperatorCase& large_arguments = add("large_arguments", {}, {{2, 4}});
  large_arguments.fills = {Fill::Uniform(-3e4, 3e4)};
  large_arguments.large = true;
  // Along rows, across few columns, and across columns that make a tile.
  const Fill infinities = Fill::Given(
      {INFINITY, 0, 1, -INFINITY, -INFINITY, -INFINITY, -INFINITY, 0, 1, INFINITY, -INFINITY, 2});
  add("infinities", {}, {{4, 3}});
  add("infinities_across", {{"axis", "1"}}, {{1, 3, 4}});
  add("infinities_in_tiles", {{"axis", "1"}}, {{2, 3, 40}});
  if (kind == Kind::kSoftmax) {
    OperatorCase& lengths = add("infinities_with_length", {{"use_length", "True"}}, {{4, 3}, {4}});
    lengths.fills.push_back(Fill::Given({3, 2, 3, 1}));
    lengths.fixed_types = {DType::kUnknown, DType::kInt32};
  }
  for (OperatorCase& test_case : row.cases) {
    if (test_case.name.starts_with("infinities")) {
      test_case.fills[0] = infinities;
      test_case.large = true;
    }
  }
  // Rows that are no tiles, around the loops' partial sums.
  for (const index_t length : {65, 96, 97}) {
    add("row_of_" + std::to_string(length), {}, {{2, length}});
  }
  OperatorCase& parallel = add("parallel", {}, {{97, 1500}});
  parallel.dtypes = {DType::kFloat32, DType::kBFloat16};
  parallel.large = true;
  OperatorCase& columns = add("parallel_columns", {{"axis", "1"}}, {{5, 300, 70}});
  columns.dtypes = {DType::kFloat32, DType::kFloat16};
  columns.large = true;
  if (kind == Kind::kSoftmax) {
    for (const DType type : {DType::kInt32, DType::kInt64}) {
      for (const std::string axis : {"-1", "1"}) {
        OperatorCase& lengths = add("length_" + std::string(DTypeName(type)) + "_axis_" +
                                        std::to_string(std::abs(std::stoi(axis))) +
                                        (axis == "-1" ? "_from_the_end" : ""),
                                    {{"use_length", "True"}, {"axis", axis}},
                                    {{2, 3, 5}, axis == "1" ? TShape{2, 5} : TShape{2, 3}});
        lengths.fills.push_back(axis == "1" ? Fill::Given({2, 0, 3, 1, 3})
                                            : Fill::Given({2, 0, 5, 1, 4, 3}));
        lengths.fixed_types = {DType::kUnknown, type};
      }
    }
  }
  row.errors = {
      {.name = "axis_outside",
       .parameters = {{"axis", "2"}},
       .inputs = {{3, 4}},
       .words = {"axis", "2", "(3,4)"}},
      {.name = "scalar", .inputs = {TShape::OfRank(0)}, .words = {"axis", "()"}},
      {.name = "integer_output", .parameters = {{"dtype", "int32"}}, .words = {"dtype", "int32"}},
  };
  // Differences have no place where there are 100,000 elements.
  row.backward = [kind](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                        const std::vector<Values>& in, const std::vector<Values>& out) {
    const ParameterReader p(parameters);
    const Values& y = out[0];
    int axis = static_cast<int>(p.Int("axis", -1));
    if (axis < 0) axis += y.shape.ndim();
    const index_t outer = y.shape.ProdShape(0, axis), n = y.shape[axis];
    const index_t inner = y.shape.ProdShape(axis + 1, y.shape.ndim());
    const double scale = (kind == Kind::kSoftmin ? -1 : 1) / p.Real("temperature", 1);
    std::vector<Values> grad = {Values(y.shape)};
    if (in.size() > 1) grad.emplace_back(in[1].shape);
    for (index_t o = 0; o < outer; ++o) {
      for (index_t j = 0; j < inner; ++j) {
        const auto at = [&](index_t k) { return (o * n + k) * inner + j; };
        const index_t used = in.size() > 1 ? static_cast<index_t>(in[1][o * inner + j]) : n;
        double sum = 0;
        for (index_t k = 0; k < used; ++k) {
          sum += out_grad[0][at(k)] * (kind == Kind::kLogSoftmax ? 1 : y[at(k)]);
        }
        for (index_t k = 0; k < used; ++k) {
          const double g = out_grad[0][at(k)];
          grad[0][at(k)] = scale * (kind == Kind::kLogSoftmax ? g - std::exp(y[at(k)]) * sum
                                                              : y[at(k)] * (g - sum));
        }
      }
    }
    return grad;
  };
  row.forward_tolerance = {.float64 = 4e-15, .float32 = 2e-6};
  row.backward_tolerance = {.float64 = 4e-14, .float32 = 1e-5, .float16 = 1e-2, .bfloat16 = 1e-1};
  return row;
}

OperatorRow ActivationRow() {
  OperatorRow row = Row("SoftmaxActivation", Kind::kSoftmax);
  row.cases.clear();
  for (const std::string mode : {"instance", "channel"}) {
    for (const TShape& shape : {TShape{3, 4}, TShape{2, 5, 3}, TShape{2, 3, 2, 17}}) {
      row.cases.push_back({.name = mode + "_" + std::to_string(shape.ndim()),
                           .parameters = {{"mode", mode}},
                           .inputs = {shape},
                           .fills = {Fill::Uniform(-3, 3)}});
    }
  }
  const auto with_axis = [](const ParameterMap& parameters) {
    const bool channel = ParameterReader(parameters).Text("mode", "instance") == "channel";
    return ParameterMap{{"axis", channel ? "1" : "-1"}};
  };
  row.forward = [with_axis, forward = row.forward](const ParameterMap& parameters,
                                                   const std::vector<Values>& in,
                                                   std::vector<Values>* mutated) {
    return forward(with_axis(parameters), in, mutated);
  };
  row.backward = [with_axis, backward = row.backward](
                     const ParameterMap& parameters, const std::vector<Values>& out_grad,
                     const std::vector<Values>& in, const std::vector<Values>& out) {
    return backward(with_axis(parameters), out_grad, in, out);
  };
  row.errors = {{.name = "channel_of_a_vector",
                 .parameters = {{"mode", "channel"}},
                 .inputs = {{4}},
                 .words = {"axis", "(4,)"}}};
  return row;
}

const RowRegistration kRows[] = {
    RowRegistration(Row("softmax", Kind::kSoftmax)),
    RowRegistration(Row("softmin", Kind::kSoftmin)),
    RowRegistration(Row("log_softmax", Kind::kLogSoftmax)),
    RowRegistration(ActivationRow()),
};

}  // namespace
}  // namespace tessera::ops_testing
