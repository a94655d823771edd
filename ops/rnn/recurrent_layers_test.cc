#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "tessera/ops/rnn/recurrent_reference.h"
#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// A number that remembers how it was computed, for gradients by the chain rule. The records are
/// those of the last BackwardOf of the thread.
struct Traced {
  double value;
  int record;  // -1 for a constant

  Traced(double constant = 0) : value(constant), record(-1) {}  // NOLINT: as numbers are

  struct Record {
    std::array<int, 2> from;
    std::array<double, 2> slope;
  };
  static std::vector<Record>& Records() {
    static thread_local std::vector<Record> records;
    return records;
  }
  static Traced Of(double value, const Traced& a, double slope_a, const Traced& b = 0,
                   double slope_b = 0) {
    Traced result(value);
    result.record = static_cast<int>(Records().size());
    Records().push_back({{a.record, b.record}, {slope_a, slope_b}});
    return result;
  }
};

Traced operator+(Traced a, Traced b) { return Traced::Of(a.value + b.value, a, 1, b, 1); }
Traced operator-(Traced a, Traced b) { return Traced::Of(a.value - b.value, a, 1, b, -1); }
Traced operator*(Traced a, Traced b) {
  return Traced::Of(a.value * b.value, a, b.value, b, a.value);
}

double ValueOf(const Traced& x) { return x.value; }
Traced Tanh(Traced x) {
  const double y = std::tanh(x.value);
  return Traced::Of(y, x, 1 - y * y);
}
Traced Sigmoid(Traced x) {
  const double y = ops_testing::Sigmoid(x.value);
  return Traced::Of(y, x, y * (1 - y));
}
Traced Limit(Traced x, double low, double high) {
  const bool is_inside = low < x.value && x.value < high;
  return Traced::Of(ops_testing::Limit(x.value, low, high), x, is_inside ? 1 : 0);
}
Traced Relu(Traced x) { return Traced::Of(ops_testing::Relu(x.value), x, x.value > 0 ? 1 : 0); }

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  std::vector<Array<double>> arrays;
  for (const Values& values : in) {
    arrays.emplace_back(values.shape);
    arrays.back().data = values.data;
  }
  std::vector<Values> out;
  for (Array<double>& array : Network(parameters, arrays)) {
    out.emplace_back();
    out.back().shape = array.shape;
    out.back().data = array.data;
  }
  return out;
}

std::vector<Values> Backward(const ParameterMap& parameters, const std::vector<Values>& out_grad,
                             const std::vector<Values>& in, const std::vector<Values>&) {
  auto& records = Traced::Records();
  records.clear();
  std::vector<Array<Traced>> arrays;
  for (const Values& values : in) {
    arrays.emplace_back(values.shape);
    for (index_t i = 0; i < values.size(); ++i) {
      arrays.back().data[static_cast<size_t>(i)] = Traced::Of(values[i], 0, 0);
    }
  }
  const std::vector<Array<Traced>> out = Network(parameters, arrays);
  std::vector<double> slopes(records.size(), 0.0);
  for (size_t k = 0; k < out.size(); ++k) {
    for (size_t i = 0; i < out[k].data.size(); ++i) {
      const int record = out[k].data[i].record;
      if (record >= 0) slopes[static_cast<size_t>(record)] += out_grad[k].data[i];
    }
  }
  for (size_t i = records.size(); i-- > 0;) {
    for (size_t k = 0; k < 2; ++k) {
      const int from = records[i].from[k];
      if (from >= 0) slopes[static_cast<size_t>(from)] += slopes[i] * records[i].slope[k];
    }
  }
  std::vector<Values> gradients;
  size_t next = 0;
  for (const Values& values : in) {
    gradients.emplace_back(values.shape);
    for (index_t i = 0; i < values.size(); ++i) gradients.back()[i] = slopes[next++];
  }
  records.clear();
  return gradients;
}

struct Sizes {
  index_t steps, batch, inputs, size, layers, directions;
};

OperatorCase Case(const std::string& name, const std::string& mode, Sizes s,
                  ParameterMap more = {}) {
  const index_t gates = mode == "lstm" ? 4 : mode == "gru" ? 3 : 1;
  const auto projection = more.find("projection_size");
  const bool projects = projection != more.end();
  const index_t width = projects ? std::stoll(projection->second) : s.size;
  index_t count = 0;
  for (index_t l = 0; l < s.layers; ++l) {
    const index_t inputs = l == 0 ? s.inputs : s.directions * width;
    count +=
        s.directions * (gates * s.size * (inputs + width + 2) + (projects ? width * s.size : 0));
  }
  OperatorCase result;
  result.name = mode + "_" + name;
  result.parameters = {{"mode", mode},
                       {"state_size", std::to_string(s.size)},
                       {"num_layers", std::to_string(s.layers)}};
  if (s.directions == 2) result.parameters["bidirectional"] = "True";
  result.parameters.insert(more.begin(), more.end());
  const index_t states = s.layers * s.directions;
  result.inputs = {{s.steps, s.batch, s.inputs}, {count}, {states, s.batch, width}};
  if (mode == "lstm") result.inputs.push_back({states, s.batch, s.size});
  // Hidden outputs have another type than 16-bit data.
  result.fixed_types = {DType::kUnknown};
  return result;
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "RNN";
  row.forward = Forward;
  row.backward = Backward;
  const ParameterMap states = {{"state_outputs", "True"}};
  for (const std::string mode : {"rnn_relu", "rnn_tanh", "lstm", "gru"}) {
    row.cases.push_back(Case("one", mode, {5, 3, 4, 6, 1, 1}));
    row.cases.push_back(Case("one_both_ways", mode, {4, 2, 3, 5, 1, 2}, states));
    row.cases.push_back(Case("three", mode, {3, 2, 5, 4, 3, 1}, states));
    row.cases.push_back(Case("two_both_ways", mode, {4, 3, 2, 3, 2, 2}));
    OperatorCase lengths = Case("lengths", mode, {4, 4, 3, 2, 2, 2},
                                {{"state_outputs", "True"}, {"use_sequence_length", "True"}});
    lengths.inputs.push_back({4});
    lengths.fills = std::vector<Fill>(lengths.inputs.size());
    lengths.fills.back() = Fill::Given({2, 4, 0, 3});
    lengths.fixed_types = std::vector<DType>(lengths.inputs.size(), DType::kUnknown);
    lengths.fixed_types.back() = DType::kInt32;
    row.cases.push_back(lengths);
  }
  // The weights are packed from 16 rows on.
  for (const std::string mode : {"rnn_tanh", "lstm", "gru"}) {
    row.cases.push_back(Case("packed", mode, {8, 2, 2, 3, 1, 2}, states));
  }
  row.cases.push_back(Case("one_unit", "gru", {1, 1, 1, 1, 1, 1}, states));
  row.cases.push_back(Case("four", "lstm", {2, 2, 3, 2, 4, 2}, states));
  row.cases.push_back(Case("no_steps", "lstm", {0, 2, 3, 4, 2, 1}, states));
  row.cases.push_back(Case("no_samples", "gru", {3, 0, 3, 4, 2, 2}, states));
  row.cases.push_back(Case("no_inputs", "rnn_tanh", {3, 2, 0, 4, 2, 1}, states));
  row.cases.push_back(Case("all_dropped", "gru", {3, 2, 3, 4, 3, 2}, {{"p", "1"}}));
  row.cases.push_back(Case("one_layer_drops_nothing", "lstm", {3, 2, 3, 4, 1, 1}, {{"p", "0.5"}}));
  const auto projected = [](index_t size, ParameterMap more = {{"state_outputs", "True"}}) {
    more["projection_size"] = std::to_string(size);
    return more;
  };
  const auto limited = [](ParameterMap more = {}) {
    more.insert({{"lstm_state_clip_min", "-0.25"}, {"lstm_state_clip_max", "0.125"}});
    return more;
  };
  row.cases.push_back(Case("projected", "lstm", {3, 2, 4, 5, 1, 1}, projected(3, {})));
  row.cases.push_back(Case("projected_both_ways", "lstm", {4, 3, 2, 3, 3, 2}, projected(2)));
  row.cases.push_back(Case("projected_to_more", "lstm", {3, 2, 3, 2, 2, 1}, projected(5)));
  row.cases.push_back(Case("projected_packed", "lstm", {8, 2, 2, 5, 1, 2}, projected(3)));
  row.cases.push_back(Case("projected_no_steps", "lstm", {0, 2, 3, 4, 2, 1}, projected(3)));
  row.cases.push_back(
      Case("projected_all_dropped", "lstm", {3, 2, 3, 4, 2, 2}, projected(3, {{"p", "1"}})));
  row.cases.push_back(Case("limited", "lstm", {4, 3, 4, 6, 1, 1}, limited(states)));
  row.cases.push_back(Case("limited_both_ways", "lstm", {4, 2, 3, 5, 2, 2},
                           limited({{"lstm_state_clip_nan", "True"}})));
  row.cases.push_back(Case("limited_projected", "lstm", {3, 2, 3, 5, 2, 1}, limited(projected(4))));
  OperatorCase lengths =
      Case("projected_lengths", "lstm", {4, 4, 3, 5, 2, 2},
           projected(2, {{"state_outputs", "True"}, {"use_sequence_length", "True"}}));
  lengths.inputs.push_back({4});
  lengths.fills = std::vector<Fill>(lengths.inputs.size());
  lengths.fills.back() = Fill::Given({2, 4, 0, 3});
  lengths.fixed_types = std::vector<DType>(lengths.inputs.size(), DType::kUnknown);
  lengths.fixed_types.back() = DType::kInt32;
  row.cases.push_back(lengths);
  // More steps or layers enlarge a rounding of unbounded states beyond the tolerance.
  row.cases.push_back(Case("parallel_projected", "lstm", {2, 40, 30, 60, 1, 2}, projected(20)));
  row.cases.back().large = true;
  row.cases.back().dtypes = {DType::kFloat32};
  row.cases.push_back(Case("parallel", "lstm", {4, 40, 30, 60, 2, 2}, states));
  row.cases.back().large = true;
  row.cases.back().dtypes = {DType::kFloat32, DType::kFloat16};
  row.cases.push_back(Case("parallel", "gru", {3, 40, 30, 60, 1, 2}, states));
  row.cases.back().large = true;
  row.cases.back().dtypes = {DType::kFloat32};

  const ParameterMap lstm = row.cases[10].parameters;
  const auto with = [&](const std::string& name, const std::string& value) {
    ParameterMap parameters = lstm;
    parameters[name] = value;
    return parameters;
  };
  row.errors = {
      {.name = "without_mode",
       .parameters = {{"state_size", "3"}, {"num_layers", "1"}},
       .words = {"required", "mode"}},
      {.name = "no_units", .parameters = with("state_size", "0"), .words = {"state_size", "range"}},
      {.name = "no_layers", .parameters = with("num_layers", "0"), .words = {"num_layers"}},
      {.name = "p_above_1", .parameters = with("p", "1.5"), .words = {"p", "1.5", "range"}},
      {.name = "projection_to_nothing",
       .parameters = with("projection_size", "0"),
       .words = {"projection_size", "range"}},
      {.name = "projection_of_gru",
       .parameters =
           {{"mode", "gru"}, {"state_size", "3"}, {"num_layers", "1"}, {"projection_size", "2"}},
       .words = {"projection_size", "lstm"}},
      {.name = "limits_of_gru",
       .parameters = limited({{"mode", "gru"}, {"state_size", "3"}, {"num_layers", "1"}}),
       .words = {"lstm_state_clip_min", "lstm"}},
      {.name = "one_limit",
       .parameters = with("lstm_state_clip_min", "-1"),
       .words = {"lstm_state_clip_min", "lstm_state_clip_max"}},
      {.name = "limits_in_the_other_order",
       .parameters = {{"mode", "lstm"},
                      {"state_size", "3"},
                      {"num_layers", "1"},
                      {"lstm_state_clip_min", "2"},
                      {"lstm_state_clip_max", "-1"}},
       .words = {"lstm_state_clip_min", "2", "-1"}},
      {.name = "state_of_other_projection",
       .parameters = with("projection_size", "2"),
       .inputs = {{5, 3, 4}, {}, {1, 3, 6}},
       .words = {"state", "(1,3,6)"}},
      {.name = "data_of_rank_2",
       .parameters = lstm,
       .inputs = {{3, 4}},
       .words = {"data", "(3,4)"}},
      {.name = "parameters_of_other_size",
       .parameters = lstm,
       .inputs = {{5, 3, 4}, {287}},
       .words = {"parameters", "(287,)", "(288,)"}},
      {.name = "state_of_other_batch",
       .parameters = lstm,
       .inputs = {{5, 3, 4}, {}, {1, 1, 6}},
       .words = {"state", "(1,1,6)"}},
      {.name = "too_many_parameters",
       .parameters = with("state_size", "4294967295"),
       .inputs = {{5, 3, 4}},
       .words = {"parameters", "(5,3,4)"}},
  };
  row.forward_tolerance = {.float64 = 2e-14, .float32 = 4e-6, .float16 = 2e-3, .bfloat16 = 2e-2};
  row.backward_tolerance = {
      .float64 = 1e-13, .float32 = 2e-5, .float16 = 4e-3, .bfloat16 = 3e-2, .of_largest = true};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
