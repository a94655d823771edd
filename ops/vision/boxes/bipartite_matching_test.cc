#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const ParameterReader p(parameters);
  const double sign = p.Bool("is_ascend", false) ? -1 : 1;
  const double threshold = sign * static_cast<float>(p.Real("threshold", 0));
  const index_t topk = p.Int("topk", -1);
  const TShape& shape = in[0].shape;
  const int last = shape.ndim() - 1;
  const index_t n = shape[last - 1], m = shape[last];
  std::vector<index_t> batches(shape.begin(), shape.end() - 2);
  std::vector<index_t> rows = batches, columns = batches;
  rows.push_back(n);
  columns.push_back(m);
  std::vector<Values> out = {Values(TShape(std::span<const index_t>(rows)), -1),
                             Values(TShape(std::span<const index_t>(columns)), -1)};
  const index_t batch = TShape(std::span<const index_t>(batches)).Size();
  for (index_t b = 0; b < batch; ++b) {
    // The best pair of the others, one by one.
    for (index_t pairs = 0; topk <= 0 || pairs <= topk; ++pairs) {
      index_t best = -1;
      double value = threshold;
      for (index_t i = 0; i < n * m; ++i) {
        if (out[0][b * n + i / m] >= 0 || out[1][b * m + i % m] >= 0) continue;
        if (sign * in[0][b * n * m + i] > value) {
          best = i;
          value = sign * in[0][b * n * m + i];
        }
      }
      if (best < 0) break;
      out[0][b * n + best / m] = static_cast<double>(best % m);
      out[1][b * m + best % m] = static_cast<double>(best / m);
    }
  }
  return out;
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_contrib_bipartite_matching";
  row.forward = Forward;
  const auto add = [&row](const std::string& name, const ParameterMap& parameters,
                          const TShape& data) {
    // Some are equal, to each other and to a threshold, in every type.
    const Fill fill = Fill::Given({0.5, 0.625, 0.125, 0.25, 0.375, 0.5, 0.75, 0.125, 1, -0.5, 0.25,
                                   0.875, 0.0625, 0.5, 0.6875, 0.3125, -1});
    row.cases.push_back(
        {.name = name, .parameters = parameters, .inputs = {data}, .fills = {fill}});
  };
  add("descending", {{"threshold", "1e-12"}}, {3, 2});
  add("ascending", {{"threshold", "0.75"}, {"is_ascend", "True"}}, {4, 5});
  add("few", {{"threshold", "0.5"}}, {4, 3});
  add("topk", {{"threshold", "0"}, {"topk", "2"}}, {5, 5});
  add("topk_0", {{"threshold", "0"}, {"topk", "0"}}, {5, 5});
  add("negative", {{"threshold", "-2"}}, {2, 3, 4, 2});
  add("one", {{"threshold", "0"}}, {1, 1});
  add("no_rows", {{"threshold", "0"}}, {2, 0, 3});
  add("no_columns", {{"threshold", "0"}}, {3, 0});
  add("parallel", {{"threshold", "0.1"}}, {40, 8, 7});
  row.errors = {
      {.name = "no_threshold", .words = {"threshold"}},
      {.name = "vector",
       .parameters = {{"threshold", "0"}},
       .inputs = {{6}},
       .words = {"(6,)", "(..., n, m)"}},
  };
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
