#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// (rows, columns) of the data.
std::array<index_t, 2> Extents(const ParameterMap& parameters, const TShape& data) {
  const bool flatten = ParameterReader(parameters).Bool("flatten", true);
  const int split = flatten ? 1 : data.ndim() - 1;
  std::array<index_t, 2> extents = {1, 1};
  for (int i = 0; i < data.ndim(); ++i) extents[i < split ? 0 : 1] *= data[i];
  return extents;
}

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const ParameterReader p(parameters);
  const index_t hidden = p.Int("num_hidden", 0);
  const auto [rows, columns] = Extents(parameters, in[0].shape);
  TShape shape = in[0].shape;
  if (p.Bool("flatten", true)) {
    shape = {rows, hidden};
  } else {
    shape[shape.ndim() - 1] = hidden;
  }
  Values out(shape);
  for (index_t i = 0; i < rows; ++i) {
    for (index_t j = 0; j < hidden; ++j) {
      double sum = p.Bool("no_bias", false) ? 0 : in[2][j];
      for (index_t k = 0; k < columns; ++k) sum += in[0][i * columns + k] * in[1][j * columns + k];
      out[i * hidden + j] = sum;
    }
  }
  return {out};
}

std::vector<Values> Backward(const ParameterMap& parameters, const std::vector<Values>& out_grad,
                             const std::vector<Values>& in, const std::vector<Values>&) {
  const index_t hidden = ParameterReader(parameters).Int("num_hidden", 0);
  const auto [rows, columns] = Extents(parameters, in[0].shape);
  std::vector<Values> grad;
  for (const Values& x : in) grad.emplace_back(x.shape);
  for (index_t i = 0; i < rows; ++i) {
    for (index_t j = 0; j < hidden; ++j) {
      const double g = out_grad[0][i * hidden + j];
      for (index_t k = 0; k < columns; ++k) {
        grad[0][i * columns + k] += g * in[1][j * columns + k];
        grad[1][j * columns + k] += g * in[0][i * columns + k];
      }
      if (in.size() > 2) grad[2][j] += g;
    }
  }
  return grad;
}

const RowRegistration kRow({
    .name = "FullyConnected",
    .cases =
        {
            {.name = "small", .parameters = {{"num_hidden", "3"}}, .inputs = {{4, 5}, {3, 5}, {3}}},
            {.name = "no_bias",
             .parameters = {{"num_hidden", "3"}, {"no_bias", "True"}},
             .inputs = {{4, 5}, {3, 5}}},
            {.name = "one_by_one",
             .parameters = {{"num_hidden", "1"}},
             .inputs = {{1, 1}, {1, 1}, {1}}},
            {.name = "batch_0",
             .parameters = {{"num_hidden", "3"}},
             .inputs = {{0, 5}, {3, 5}, {3}}},
            {.name = "batch_17",
             .parameters = {{"num_hidden", "10"}},
             .inputs = {{17, 13}, {10, 13}, {10}}},
            {.name = "batch_13",
             .parameters = {{"num_hidden", "33"}, {"no_bias", "True"}},
             .inputs = {{13, 7}, {33, 7}}},
            {.name = "no_columns",
             .parameters = {{"num_hidden", "3"}},
             .inputs = {{2, 0}, {3, 0}, {3}}},
            {.name = "rank_1_data",
             .parameters = {{"num_hidden", "3"}},
             .inputs = {{4}, {3, 1}, {3}}},
            {.name = "flattens_images",
             .parameters = {{"num_hidden", "6"}},
             .inputs = {{2, 3, 2, 2}, {6, 12}, {6}}},
            {.name = "keeps_leading_dimensions",
             .parameters = {{"num_hidden", "6"}, {"flatten", "False"}},
             .inputs = {{2, 3, 5}, {6, 5}, {6}}},
            {.name = "keeps_leading_dimensions_no_bias",
             .parameters = {{"num_hidden", "6"}, {"flatten", "0"}, {"no_bias", "1"}},
             .inputs = {{2, 3, 5}, {6, 5}}},
            {.name = "keeps_three_leading_dimensions",
             .parameters = {{"num_hidden", "4"}, {"flatten", "False"}},
             .inputs = {{2, 1, 3, 5}, {4, 5}, {4}}},
            {.name = "keeps_no_dimension",
             .parameters = {{"num_hidden", "4"}, {"flatten", "False"}},
             .inputs = {{5}, {4, 5}, {4}}},
            // A hidden layer of the digits network, where products are blocked and threaded.
            {.name = "large",
             .parameters = {{"num_hidden", "128"}},
             .inputs = {{64, 300}, {128, 300}, {128}},
             .large = true},
        },
    .forward = Forward,
    .backward = Backward,
    .forward_tolerance = {.of_largest = true},
    .backward_tolerance = {.of_largest = true},
    .errors =
        {
            {.name = "without_num_hidden", .words = {"required", "num_hidden"}},
            {.name = "no_outputs",
             .parameters = {{"num_hidden", "0"}},
             .words = {"num_hidden", "0"}},
            {.name = "misspelt",
             .parameters = {{"num_hiden", "3"}},
             .words = {"num_hiden", "did you mean \"num_hidden\""}},
            {.name = "text_for_a_number",
             .parameters = {{"num_hidden", "many"}},
             .words = {"num_hidden", "many", "integer"}},
            {.name = "bad_boolean",
             .parameters = {{"num_hidden", "3"}, {"no_bias", "maybe"}},
             .words = {"no_bias", "maybe", "True"}},
            {.name = "scalar",
             .parameters = {{"num_hidden", "3"}},
             .inputs = {TShape::OfRank(0)},
             .words = {"data", "scalar"}},
            {.name = "weight_of_other_columns",
             .parameters = {{"num_hidden", "3"}},
             .inputs = {{4, 5}, {3, 6}},
             .words = {"weight", "(3,6)", "(3,5)"}},
            {.name = "columns_no_multiple",
             .parameters = {{"num_hidden", "3"}},
             .inputs = {{4, 2, TShape::kUnknown}, {3, 5}},
             .words = {"data", "5 columns", "multiple of 2"}},
            {.name = "bias_of_other_length",
             .parameters = {{"num_hidden", "3"}},
             .inputs = {{4, 5}, {3, 5}, {4}},
             .words = {"bias", "(4,)", "(3,)"}},
            {.name = "overflowing_extents",
             .parameters = {{"num_hidden", "3"}},
             .inputs = {{1, index_t{1} << 40, index_t{1} << 40}},
             .words = {"data", "63 bits"}},
        },
});

}  // namespace
}  // namespace tessera::ops_testing
