#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// The extents of a call, and where the elements of its arrays lie.
struct Heads {
  index_t queries, keys, batch, heads, width;

  index_t Size() const { return batch * heads; }
  /// The index of element x of the projection `part` of `parts` at a position, for head b.
  index_t At(index_t position, index_t b, index_t x, int parts, int part) const {
    const index_t head = b % heads, n = b / heads;
    return (((position * batch + n) * heads + head) * parts + part) * width + x;
  }
  index_t Attention(index_t b, index_t i, index_t j) const { return (b * queries + i) * keys + j; }
};

/// Where the projections lie: an input, and the number and place of its parts.
struct Place {
  size_t input;
  int parts, part;
};

OperatorRow ScoresRow(const std::string& name, const Place& queries, const Place& keys) {
  const auto heads_of = [=](const ParameterMap& parameters, const std::vector<Values>& in) {
    const index_t heads = ParameterReader(parameters).Int("heads", 1);
    const TShape &q = in[queries.input].shape, &k = in[keys.input].shape;
    return Heads{q[0], k[0], q[1], heads, q[2] / (heads * queries.parts)};
  };
  // Calls function(query, key, element of the attention, scale) for every term.
  const auto for_each = [=](const Heads& h, const auto& function) {
    const double scale = 1 / std::sqrt(static_cast<double>(h.width));
    for (index_t b = 0; b < h.Size(); ++b) {
      for (index_t i = 0; i < h.queries; ++i) {
        for (index_t j = 0; j < h.keys; ++j) {
          for (index_t x = 0; x < h.width; ++x) {
            function(h.At(i, b, x, queries.parts, queries.part),
                     h.At(j, b, x, keys.parts, keys.part), h.Attention(b, i, j), scale);
          }
        }
      }
    }
  };
  OperatorRow row;
  row.name = name;
  row.forward_tolerance = row.backward_tolerance = {.of_largest = true};
  row.forward = [=](const ParameterMap& parameters, const std::vector<Values>& in,
                    std::vector<Values>*) {
    const Heads h = heads_of(parameters, in);
    Values out({h.Size(), h.queries, h.keys});
    for_each(h, [&](index_t q, index_t k, index_t a, double scale) {
      out[a] += scale * in[queries.input][q] * in[keys.input][k];
    });
    return std::vector<Values>{out};
  };
  row.backward = [=](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                     const std::vector<Values>& in, const std::vector<Values>&) {
    std::vector<Values> grad;
    for (const Values& input : in) grad.emplace_back(input.shape);
    for_each(heads_of(parameters, in), [&](index_t q, index_t k, index_t a, double scale) {
      grad[queries.input][q] += scale * out_grad[0][a] * in[keys.input][k];
      grad[keys.input][k] += scale * out_grad[0][a] * in[queries.input][q];
    });
    return grad;
  };
  return row;
}

OperatorRow ValuesRow(const std::string& name, int parts, int part) {
  const auto heads_of = [=](const ParameterMap& parameters, const std::vector<Values>& in) {
    const index_t heads = ParameterReader(parameters).Int("heads", 1);
    const TShape &v = in[0].shape, &a = in[1].shape;
    return Heads{a[1], a[2], v[1], heads, v[2] / (heads * parts)};
  };
  // Calls function(value, element of the attention, output) for every term.
  const auto for_each = [=](const Heads& h, const auto& function) {
    for (index_t b = 0; b < h.Size(); ++b) {
      for (index_t i = 0; i < h.queries; ++i) {
        for (index_t j = 0; j < h.keys; ++j) {
          for (index_t x = 0; x < h.width; ++x) {
            function(h.At(j, b, x, parts, part), h.Attention(b, i, j), h.At(i, b, x, 1, 0));
          }
        }
      }
    }
  };
  OperatorRow row;
  row.name = name;
  row.forward_tolerance = row.backward_tolerance = {.of_largest = true};
  row.forward = [=](const ParameterMap& parameters, const std::vector<Values>& in,
                    std::vector<Values>*) {
    const Heads h = heads_of(parameters, in);
    Values out({h.queries, h.batch, h.heads * h.width});
    for_each(h, [&](index_t v, index_t a, index_t o) { out[o] += in[1][a] * in[0][v]; });
    return std::vector<Values>{out};
  };
  row.backward = [=](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                     const std::vector<Values>& in, const std::vector<Values>&) {
    std::vector<Values> grad = {Values(in[0].shape), Values(in[1].shape)};
    for_each(heads_of(parameters, in), [&](index_t v, index_t a, index_t o) {
      grad[0][v] += in[1][a] * out_grad[0][o];
      grad[1][a] += in[0][v] * out_grad[0][o];
    });
    return grad;
  };
  return row;
}

void Add(const std::string& name, const std::string& heads, const std::vector<TShape>& inputs,
         OperatorRow* row) {
  row->cases.push_back({.name = name,
                        .parameters = {{"heads", heads}},
                        .inputs = inputs,
                        .shapes_follow_from_first = inputs.size() == 1});
}

OperatorRow SelfScoresRow() {
  OperatorRow row = ScoresRow("_contrib_interleaved_matmul_selfatt_qk", {0, 3, 0}, {0, 3, 1});
  Add("heads", "2", {{4, 3, 30}}, &row);
  Add("one_head", "1", {{5, 2, 9}}, &row);
  Add("one_of_each", "1", {{1, 1, 3}}, &row);
  Add("no_positions", "2", {{0, 2, 12}}, &row);
  Add("large", "4", {{33, 5, 4 * 3 * 16}}, &row);
  row.cases.back().large = true;
  row.errors = {
      {.name = "without_heads", .words = {"required", "heads"}},
      {.name = "no_heads", .parameters = {{"heads", "0"}}, .words = {"heads", "0"}},
      {.name = "width_does_not_fit",
       .parameters = {{"heads", "2"}},
       .inputs = {{4, 3, 15}},
       .words = {"queries_keys_values", "(4,3,15)", "multiple of 6", "heads=2"}},
      {.name = "matrix", .parameters = {{"heads", "1"}}, .inputs = {{4, 3}}, .words = {"(4,3)"}},
  };
  return row;
}

OperatorRow SelfValuesRow() {
  OperatorRow row = ValuesRow("_contrib_interleaved_matmul_selfatt_valatt", 3, 2);
  Add("heads", "2", {{4, 3, 30}, {6, 4, 4}}, &row);
  Add("one_head", "1", {{5, 2, 9}, {2, 5, 5}}, &row);
  Add("no_batch", "2", {{3, 0, 12}, {0, 3, 3}}, &row);
  row.errors = {
      {.name = "other_attention",
       .parameters = {{"heads", "2"}},
       .inputs = {{4, 3, 30}, {6, 4, 5}},
       .words = {"attention", "(6,4,5)", "(6,4,4)"}},
      {.name = "attention_of_no_batch",
       .parameters = {{"heads", "2"}},
       .inputs = {{4, 3, 30}, {5, 4, 4}},
       .words = {"attention", "(5,4,4)", "multiple of 2"}},
  };
  return row;
}

OperatorRow EncoderScoresRow() {
  OperatorRow row = ScoresRow("_contrib_interleaved_matmul_encdec_qk", {0, 1, 0}, {1, 2, 0});
  Add("heads", "2", {{4, 3, 10}, {5, 3, 20}}, &row);
  Add("one_head", "1", {{5, 2, 3}, {1, 2, 6}}, &row);
  Add("no_keys", "2", {{3, 2, 4}, {0, 2, 8}}, &row);
  row.errors = {
      {.name = "other_batch",
       .parameters = {{"heads", "2"}},
       .inputs = {{4, 3, 10}, {5, 2, 20}},
       .words = {"keys_values", "(5,2,20)", "(5,3,20)"}},
      {.name = "other_width",
       .parameters = {{"heads", "2"}},
       .inputs = {{4, 3, 10}, {5, 3, 24}},
       .words = {"keys_values", "(5,3,24)", "20"}},
  };
  return row;
}

OperatorRow EncoderValuesRow() {
  OperatorRow row = ValuesRow("_contrib_interleaved_matmul_encdec_valatt", 2, 1);
  Add("heads", "2", {{5, 3, 20}, {6, 4, 5}}, &row);
  Add("one_head", "1", {{1, 2, 6}, {2, 5, 1}}, &row);
  Add("no_keys", "1", {{0, 2, 6}, {2, 5, 0}}, &row);
  row.errors = {
      {.name = "other_keys",
       .parameters = {{"heads", "2"}},
       .inputs = {{5, 3, 20}, {6, 4, 4}},
       .words = {"attention", "(6,4,4)"}},
  };
  return row;
}

const RowRegistration kSelfScores(SelfScoresRow());
const RowRegistration kSelfValues(SelfValuesRow());
const RowRegistration kEncoderScores(EncoderScoresRow());
const RowRegistration kEncoderValues(EncoderValuesRow());

}  // namespace
}  // namespace tessera::ops_testing
