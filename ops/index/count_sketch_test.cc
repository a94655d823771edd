#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Calls function(element of data, element of the output, factor).
template <typename Function>
void ForEachTerm(const ParameterMap& given, const std::vector<Values>& in,
                 const Function& function) {
  const index_t out_dim = ParameterReader(given).Int("out_dim", 0), channels = in[1].size();
  for (index_t i = 0; i < in[0].size(); ++i) {
    const index_t row = i / channels, c = i % channels;
    function(i, row * out_dim + static_cast<index_t>(in[1][c]), in[2][c]);
  }
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_contrib_count_sketch";
  row.forward = [](const ParameterMap& given, const std::vector<Values>& in, std::vector<Values>*) {
    TShape shape = in[0].shape;
    shape[shape.ndim() - 1] = ParameterReader(given).Int("out_dim", 0);
    Values out(shape);
    ForEachTerm(given, in,
                [&](index_t from, index_t to, double sign) { out[to] += sign * in[0][from]; });
    return std::vector<Values>{out};
  };
  row.backward = [](const ParameterMap& given, const std::vector<Values>& out_grad,
                    const std::vector<Values>& in, const std::vector<Values>&) {
    std::vector<Values> grad = {Values(in[0].shape), Values(in[1].shape), Values(in[2].shape)};
    ForEachTerm(given, in, [&](index_t from, index_t to, double sign) {
      grad[0][from] = sign * out_grad[0][to];
    });
    return grad;
  };
  const auto add = [&](const std::string& name, const TShape& data, index_t out_dim,
                       const std::vector<double>& h) -> OperatorCase& {
    const index_t channels = data[data.ndim() - 1];
    row.cases.push_back({.name = name,
                         .parameters = {{"out_dim", std::to_string(out_dim)}},
                         .inputs = {data, {1, channels}, {1, channels}},
                         .fills = {Fill(), Fill::Given(h), Fill::Given({1, -1, 1, 1, -1})}});
    return row.cases.back();
  };
  add("rows", {3, 5}, 4, {0, 3, 0, 1, 3}).parameters["processing_batch_size"] = "1";
  add("images", {2, 3, 2, 5}, 3, {2, 2, 1, 0, 1});
  add("one_row", {7}, 9, {8, 0, 4});
  add("one_sum", {2, 3}, 1, {0});
  add("truncates", {2, 3}, 2, {1.5, 0.25, -0.5});
  add("no_rows", {0, 3}, 2, {1, 0});
  add("no_channels", {3, 0}, 2, {0});
  OperatorCase& parallel = add("parallel", {2000, 50}, 7, {0, 6, 3, 3, 2, 1, 5, 4, 0});
  parallel.dtypes = {DType::kFloat32};
  parallel.large = true;
  const auto refuse = [&](const std::string& name, const std::string& out_dim,
                          const std::vector<TShape>& shapes,
                          const std::vector<std::string>& words) {
    row.errors.push_back(
        {.name = name, .parameters = {{"out_dim", out_dim}}, .inputs = shapes, .words = words});
  };
  refuse("nothing_out", "0", {}, {"out_dim", "0"});
  refuse("scalar", "2", {TShape::OfRank(0)}, {"data", "scalar"});
  refuse("vector_of_indices", "2", {{3, 4}, {4}, {1, 4}}, {"h", "(4,)"});
  refuse("several_rows_of_indices", "2", {{3, 4}, {3, 4}, {3, 4}}, {"h", "(3,4)", "(1,"});
  refuse("other_signs", "2", {{3, 4}, {1, 4}, {1, 5}}, {"s", "(1,5)", "(1,4)"});
  refuse("other_channels", "2", {{3, 4}, {1, 5}, {1, 5}}, {"data", "(3,4)", "5"});
  row.errors.push_back({.name = "without_out_dim", .parameters = {}, .words = {"out_dim"}});
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
