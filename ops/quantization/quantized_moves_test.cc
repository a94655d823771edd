#include <algorithm>
#include <string>
#include <vector>

#include "tessera/ops/quantization/quantized_reference.h"
#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

OperatorRow FlattenRow() {
  OperatorRow row = RowOfCodes("_contrib_quantized_flatten");
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    Values out = in[0];
    const TShape& shape = in[0].shape;
    out.shape = {shape[0], shape.ProdShape(1, shape.ndim())};
    return std::vector<Values>{out, in[1], in[2]};
  };
  const auto add = [&row](const std::string& name, DType type, const TShape& shape) {
    row.cases.push_back(
        Arguments().Add(shape, type, Fill::Integers(0, 127)).AddRange(-1, 2).Case(name, {}));
  };
  add("of_int8", DType::kInt8, {2, 3, 2});
  add("of_uint8", DType::kUint8, {2, 3});
  add("of_int32", DType::kInt32, {3});
  add("none", DType::kInt8, {0, 3, 2});
  row.errors = {
      {.name = "number", .inputs = {TShape::OfRank(0)}, .words = {"data"}},
      {.name = "vector_of_ranges", .inputs = {{2}, {2}}, .words = {"min_data", "(2,)", "(1,)"}},
  };
  return row;
}

OperatorRow ActRow() {
  OperatorRow row = RowOfCodes("_contrib_quantized_act");
  row.shapes_follow_from_output = true;
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    Values out = in[0];
    for (double& x : out.data) x = std::max(x, 0.0);
    return std::vector<Values>{out, in[1], in[2]};
  };
  const ParameterMap relu = {{"act_type", "relu"}};
  const auto add = [&](const std::string& name, DType type, const TShape& shape) {
    row.cases.push_back(Arguments().AddCodes(type, shape).AddRange(-1, 2).Case(name, relu));
  };
  add("of_int8", DType::kInt8, {3, 30});
  add("of_uint8", DType::kUint8, {7});
  add("none", DType::kInt8, {0, 3});
  row.errors = {
      {.name = "tanh", .parameters = {{"act_type", "tanh"}}, .words = {"act_type", "relu"}},
      {.name = "vector_of_ranges",
       .parameters = relu,
       .inputs = {{2}, {2}},
       .words = {"min_data", "(2,)", "(1,)"}},
  };
  return row;
}

OperatorRow EmbeddingRow() {
  OperatorRow row = RowOfCodes("_contrib_quantized_embedding");
  row.forward = [](const ParameterMap&, const std::vector<Values>& in, std::vector<Values>*) {
    const index_t rows = in[1].shape[0], width = in[1].shape[1];
    std::vector<index_t> extents(in[0].shape.begin(), in[0].shape.end());
    extents.push_back(width);
    Values out{TShape(std::span<const index_t>(extents))};
    for (index_t i = 0; i < out.size(); ++i) {
      const auto index = static_cast<index_t>(in[0][i / width]);
      out[i] = in[1][std::clamp<index_t>(index, 0, rows - 1) * width + i % width];
    }
    return std::vector<Values>{out, in[2], in[3]};
  };
  const ParameterMap table = {{"input_dim", "4"}, {"output_dim", "3"}};
  const auto add = [&](const std::string& name, DType type, const TShape& shape) {
    row.cases.push_back(Arguments()
                            .Add(shape, type, Fill::Given({0, 3, 2.7, -1, 9, 1}))
                            .AddInt8({4, 3})
                            .AddRange(-1, 2)
                            .Case(name, table));
  };
  add("by_float32", DType::kFloat32, {2, 3});
  add("by_int32", DType::kInt32, {5});
  add("none", DType::kFloat32, {0, 3});
  row.errors = {
      {.name = "other_rows",
       .parameters = table,
       .inputs = {{2}, {5, 3}},
       .words = {"weight", "(5,3)", "(4,3)"}},
      {.name = "no_rows",
       .parameters = {{"input_dim", "0"}, {"output_dim", "3"}},
       .words = {"input_dim", "0"}},
  };
  return row;
}

std::vector<Values> Concat(const ParameterMap& parameters, const std::vector<Values>& in,
                           std::vector<Values>*) {
  const ParameterReader p(parameters);
  const auto count = static_cast<size_t>(p.Int("num_args", 0));
  const index_t dim = p.Int("dim", 1);
  TShape shape = in[0].shape;
  const int axis = static_cast<int>(dim < 0 ? dim + shape.ndim() : dim);
  double low = 0, high = 0;
  bool is_uint8 = true;
  shape[axis] = 0;
  for (size_t i = 0; i < count; ++i) {
    shape[axis] += in[i].shape[axis];
    low = std::min(low, in[count + 2 * i][0]);
    high = std::max(high, in[count + 2 * i + 1][0]);
    is_uint8 = is_uint8 && IsUint8(in[i]);
  }
  const double one = (is_uint8 ? 255.5 : 127.5) / std::max(-low, high);
  Values out(shape);
  const index_t row = shape.ProdShape(axis, shape.ndim());
  index_t first = 0;
  for (size_t i = 0; i < count; ++i) {
    const double own = CodeOfOneIn(in[i], in[count + 2 * i], in[count + 2 * i + 1]);
    const index_t width = in[i].shape.ProdShape(axis, shape.ndim());
    for (index_t k = 0; k < in[i].size(); ++k) {
      out[k / width * row + first + k % width] = NearestCode(in[i][k] * one / own, is_uint8);
    }
    first += width;
  }
  return {out, Number(low), Number(high)};
}

OperatorRow ConcatRow() {
  OperatorRow row = RowOfCodes("_contrib_quantized_concat");
  row.forward = Concat;
  const auto add = [&row](const std::string& name, ParameterMap parameters,
                          const std::vector<TShape>& shapes, const std::vector<DType>& types) {
    Arguments arguments;
    for (size_t i = 0; i < shapes.size(); ++i) arguments.AddCodes(types[i], shapes[i]);
    // No converted code is in the middle of two integers.
    for (size_t i = 0; i < shapes.size(); ++i) {
      arguments.AddRange(types[i] == DType::kUint8 ? 0 : -1.25, 3 + 2 * static_cast<double>(i));
    }
    parameters["num_args"] = std::to_string(shapes.size());
    row.cases.push_back(arguments.Case(name, parameters));
    row.cases.back().shapes_follow_from_first = shapes.size() == 1;
  };
  constexpr DType kInt8 = DType::kInt8, kUint8 = DType::kUint8;
  add("of_int8", {}, {{2, 30}, {2, 20}, {2, 1}}, {kInt8, kInt8, kInt8});
  add("of_uint8", {}, {{2, 30}, {2, 20}}, {kUint8, kUint8});
  add("of_int8_and_uint8", {}, {{2, 30}, {2, 20}}, {kInt8, kUint8});
  add("of_uint8_and_int8", {}, {{3, 2, 5}, {3, 1, 5}}, {kUint8, kInt8});
  add("rows", {{"dim", "0"}}, {{2, 3}, {1, 3}}, {kInt8, kInt8});
  add("last", {{"dim", "-1"}}, {{2, 2, 3}, {2, 2, 4}}, {kInt8, kInt8});
  add("one", {}, {{2, 3}}, {kInt8});
  add("none", {}, {{0, 3}, {0, 2}}, {kInt8, kInt8});
  row.errors = {
      {.name = "other_rows",
       .parameters = {{"num_args", "2"}},
       .inputs = {{2, 3}, {3, 3}},
       .words = {"arg1", "(3,3)"}},
      {.name = "vector_of_ranges",
       .parameters = {{"num_args", "1"}},
       .inputs = {{2, 3}, {2}},
       .words = {"arg0_min", "(2,)", "(1,)"}},
      {.name = "no_count", .words = {"num_args"}},
  };
  return row;
}

const RowRegistration kFlatten(FlattenRow());
const RowRegistration kAct(ActRow());
const RowRegistration kEmbedding(EmbeddingRow());
const RowRegistration kConcat(ConcatRow());

}  // namespace
}  // namespace tessera::ops_testing
