#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// One sample of a call: the logarithms of its probabilities, which may be below the range of
/// double, and its labels.
struct Sample {
  Sample(const ParameterMap& parameters, const std::vector<Values>& in, index_t n)
      : frames(in[0].shape[0]), samples(in[0].shape[1]), classes(in[0].shape[2]), number(n) {
    const ParameterReader p(parameters);
    const bool first = p.Text("blank_label", "first") == "first";
    blank = first ? 0 : classes - 1;
    size_t next = 2;
    if (p.Bool("use_data_lengths", false)) frames = static_cast<index_t>(in[next++][n]);
    const index_t most = in[1].shape[1];
    const bool given = p.Bool("use_label_lengths", false);
    const index_t count = given ? static_cast<index_t>(in[next][n]) : most;
    for (index_t i = 0; i < count; ++i) {
      const auto label = static_cast<index_t>(in[1][n * most + i]);
      if (!given && label == (first ? 0 : -1)) break;
      labels.push_back(label);
    }
    for (index_t t = 0; t < frames; ++t) {
      double largest = in[0][At(t, 0)], sum = 0;
      for (index_t k = 1; k < classes; ++k) largest = std::max(largest, in[0][At(t, k)]);
      for (index_t k = 0; k < classes; ++k) sum += std::exp(in[0][At(t, k)] - largest);
      for (index_t k = 0; k < classes; ++k) {
        logarithms.push_back(in[0][At(t, k)] - largest - std::log(sum));
      }
    }
  }
  index_t At(index_t t, index_t k) const { return (t * samples + number) * classes + k; }

  /// Calls visit(classes of the path, the logarithm of its probability) for each path that reads as
  /// the labels.
  template <typename Visit>
  void ForEachPath(const Visit& visit) const {
    std::vector<index_t> path(static_cast<size_t>(frames), 0);
    while (true) {
      std::vector<index_t> read;
      double logarithm = 0;
      for (size_t t = 0; t < path.size(); ++t) {
        if (path[t] != blank && (t == 0 || path[t] != path[t - 1])) read.push_back(path[t]);
        logarithm += logarithms[t * static_cast<size_t>(classes) + static_cast<size_t>(path[t])];
      }
      if (read == labels) visit(path, logarithm);
      size_t t = 0;
      while (t < path.size() && ++path[t] == classes) path[t++] = 0;
      if (t == path.size()) return;
    }
  }

  index_t frames, samples, classes, number, blank;
  std::vector<index_t> labels;
  std::vector<double> logarithms;
};

/// Returns the losses, and their gradients by the definition: over all paths.
std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  std::vector<Values> out = {Values({in[0].shape[1]}), Values(in[0].shape)};
  for (index_t n = 0; n < in[0].shape[1]; ++n) {
    const Sample sample(parameters, in, n);
    bool has_path = false;
    double largest = -std::numeric_limits<double>::infinity();
    sample.ForEachPath([&](const std::vector<index_t>&, double logarithm) {
      has_path = true;
      largest = std::max(largest, logarithm);
    });
    if (!has_path) continue;
    // Probabilities are relative to that of the likeliest path.
    const double unit = std::isfinite(largest) ? largest : 0;
    double total = 0;
    Values at(in[0].shape);
    sample.ForEachPath([&](const std::vector<index_t>& path, double logarithm) {
      const double probability = std::exp(logarithm - unit);
      total += probability;
      for (size_t t = 0; t < path.size(); ++t) {
        at[sample.At(static_cast<index_t>(t), path[t])] += probability;
      }
    });
    out[0][n] = -unit - std::log(total);
    for (index_t t = 0; t < sample.frames; ++t) {
      for (index_t k = 0; k < sample.classes; ++k) {
        const index_t i = sample.At(t, k);
        out[1][i] = std::exp(sample.logarithms[static_cast<size_t>(t * sample.classes + k)]) -
                    at[i] / total;
      }
    }
  }
  return out;
}

std::vector<Values> Backward(const ParameterMap&, const std::vector<Values>& out_grad,
                             const std::vector<Values>& in, const std::vector<Values>& out) {
  std::vector<Values> grad;
  for (const Values& x : in) grad.emplace_back(x.shape);
  const index_t samples = in[0].shape[1], classes = in[0].shape[2];
  for (index_t i = 0; i < grad[0].size(); ++i) {
    grad[0][i] = out_grad[0][i / classes % samples] * out[1][i];
  }
  return grad;
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "CTCLoss";
  row.forward = Forward;
  row.backward = Backward;
  row.batch_follows_from_output = false;
  const auto add = [&row](const std::string& name, const ParameterMap& parameters,
                          const TShape& data, const TShape& label, const Fill& labels,
                          DType type = DType::kFloat32) -> OperatorCase& {
    row.cases.push_back({.name = name,
                         .parameters = parameters,
                         .inputs = {data, label},
                         .fills = {Fill::Uniform(-2, 2), labels},
                         .fixed_types = {DType::kUnknown, type},
                         .shapes_follow_from_first = false});
    return row.cases.back();
  };
  const ParameterMap last = {{"blank_label", "last"}};
  add("padded", {}, {4, 3, 4}, {3, 3}, Fill::Given({1, 2, 0, 3, 0, 2, 2, 1, 3}));
  add("repeats", {}, {5, 2, 3}, {2, 3}, Fill::Given({1, 1, 2, 2, 2, 0}), DType::kInt32);
  add("just_fits", {}, {5, 2, 3}, {2, 3}, Fill::Given({1, 1, 1, 2, 1, 2}), DType::kUint8);
  add("too_long", {}, {3, 2, 3}, {2, 3}, Fill::Given({1, 1, 2, 1, 0, 0}));
  add("blank_last", last, {4, 2, 4}, {2, 3}, Fill::Given({0, 2, 1, 1, -1, 0}), DType::kInt64);
  add("no_label", {}, {3, 2, 3}, {2, 2}, Fill::Given({0, 1, 1, 2}));
  add("label_of_no_extent", {}, {3, 2, 3}, {2, 0}, Fill());
  add("one_class", {}, {3, 2, 1}, {2, 1}, Fill::Given({0}));
  add("one_frame", {}, {1, 2, 4}, {2, 1}, Fill::Given({3, 0}));
  add("no_frames", {}, {0, 2, 4}, {2, 0}, Fill());
  add("no_samples", {}, {3, 0, 4}, {0, 2}, Fill());
  OperatorCase& lengths =
      add("lengths", {{"use_data_lengths", "True"}, {"use_label_lengths", "True"}}, {4, 4, 4},
          {4, 3}, Fill::Given({1, 2, 9, 3, 3, 3, 2, 9, 9, 1, 9, 9}), DType::kInt32);
  lengths.inputs.insert(lengths.inputs.end(), 2, {4});
  lengths.fills.insert(lengths.fills.end(), {Fill::Given({3, 4, 4, 0}), Fill::Given({2, 2, 1, 0})});
  lengths.fixed_types.insert(lengths.fixed_types.end(), {DType::kInt64, DType::kInt32});
  OperatorCase& frames = add("data_lengths", {{"use_data_lengths", "True"}}, {4, 2, 3}, {2, 2},
                             Fill::Given({1, 2, 2, 0}));
  frames.inputs.push_back({2});
  frames.fills.push_back(Fill::Given({2, 3}));
  frames.fixed_types.push_back(DType::kFloat32);
  OperatorCase& labels =
      add("label_lengths", {{"use_label_lengths", "True"}, {"blank_label", "last"}}, {4, 2, 3},
          {2, 2}, Fill::Given({0, 1, 1, 7}));
  labels.inputs.push_back({2});
  labels.fills.push_back(Fill::Given({2, 1}));
  labels.fixed_types.push_back(DType::kFloat64);
  row.errors = {
      {.name = "more_labels_than_frames",
       .inputs = {{3, 2, 4}, {2, 4}},
       .words = {"label", "(2,4)", "3 frames"}},
      {.name = "label_of_other_batch", .inputs = {{5, 3, 4}, {2, 3}}, .words = {"label", "(2,3)"}},
      {.name = "no_classes", .inputs = {{5, 2, 0}, {2, 3}}, .words = {"(5,2,0)", "no class"}},
      {.name = "lengths_of_other_batch",
       .parameters = {{"use_data_lengths", "True"}},
       .inputs = {{5, 2, 4}, {2, 3}, {3}},
       .words = {"data_lengths", "(3,)"}},
      {.name = "matrix", .inputs = {{5, 2}}, .words = {"data", "(5,2)"}},
  };
  row.forward_tolerance = {.float64 = 1e-14, .float32 = 2e-6};
  row.backward_tolerance = {.float64 = 1e-14, .float32 = 2e-6};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
