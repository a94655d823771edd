#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Where the classes lie: data is seen as (samples, classes, positions).
struct Layout {
  index_t samples = 1, classes = 1, positions = 1;

  Layout(const ParameterReader& p, const TShape& data) {
    const bool multi = p.Bool("multi_output", false);
    const bool preserve = p.Bool("preserve_shape", false);
    for (int i = 0; i < data.ndim(); ++i) {
      const bool is_class = multi ? i == 1 : preserve ? i == data.ndim() - 1 : i > 0;
      (is_class ? classes : multi && i > 1 ? positions : samples) *= data[i];
    }
  }
  index_t At(index_t n, index_t k, index_t p) const { return (n * classes + k) * positions + p; }
};

std::vector<Values> Forward(const ParameterMap& parameters, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const Layout l(ParameterReader(parameters), in[0].shape);
  Values out(in[0].shape);
  for (index_t n = 0; n < l.samples; ++n) {
    for (index_t p = 0; p < l.positions; ++p) {
      double highest = -INFINITY, sum = 0;
      for (index_t k = 0; k < l.classes; ++k) highest = std::max(highest, in[0][l.At(n, k, p)]);
      for (index_t k = 0; k < l.classes; ++k) sum += std::exp(in[0][l.At(n, k, p)] - highest);
      for (index_t k = 0; k < l.classes; ++k) {
        out[l.At(n, k, p)] = std::exp(in[0][l.At(n, k, p)] - highest) / sum;
      }
    }
  }
  return {out};
}

/// Returns the divisor of the gradient of each label's loss.
double Divisor(const ParameterReader& p, const Layout& l, const Values& label) {
  const std::string normalization = p.Text("normalization", "null");
  if (normalization == "valid") {
    const double ignored = p.Real("ignore_label", -1);
    double count = 0;
    for (const double t : label.data) count += t != ignored;
    return std::max(count, 1.0);
  }
  // With several outputs a sample, every other normalization takes their mean.
  const double outputs = static_cast<double>(l.positions);
  // Labels that no sample takes count too.
  const index_t labels = p.Bool("multi_output", false) ? l.samples : label.size();
  return normalization == "batch" ? outputs * static_cast<double>(labels) : outputs;
}

std::vector<Values> Backward(const ParameterMap& parameters, const std::vector<Values>& out_grad,
                             const std::vector<Values>& in, const std::vector<Values>& out) {
  const ParameterReader p(parameters);
  const Values& label = in[1];
  const double scale = p.Real("grad_scale", 1);
  std::vector<Values> grad = {Values(in[0].shape), Values(label.shape)};
  if (label.shape == in[0].shape) {
    for (index_t i = 0; i < label.size(); ++i) grad[0][i] = scale * (out[0][i] - label[i]);
  } else {
    const Layout l(p, in[0].shape);
    const double divisor = Divisor(p, l, label);
    const double alpha = p.Bool("multi_output", false) ? 0 : p.Real("smooth_alpha", 0);
    for (index_t n = 0; n < l.samples; ++n) {
      for (index_t q = 0; q < l.positions; ++q) {
        const double target = label[n * l.positions + q];
        if (p.Bool("use_ignore", false) && target == p.Real("ignore_label", -1)) continue;
        for (index_t k = 0; k < l.classes; ++k) {
          const double others = l.classes > 1 ? alpha / static_cast<double>(l.classes - 1) : 0;
          const double wanted = static_cast<double>(k) == std::trunc(target) ? 1 - alpha : others;
          grad[0][l.At(n, k, q)] = scale / divisor * (out[0][l.At(n, k, q)] - wanted);
        }
      }
    }
  }
  if (p.Bool("out_grad", false)) {
    for (index_t i = 0; i < grad[0].size(); ++i) grad[0][i] *= out_grad[0][i];
  }
  return grad;
}

std::vector<OperatorCase> Cases() {
  using P = ParameterMap;
  const std::vector<Fill> four_classes = {Fill::Uniform(-3, 3), Fill::Integers(0, 3)};
  std::vector<OperatorCase> cases;
  const auto add = [&](const std::string& name, P parameters, std::vector<TShape> inputs,
                       bool label_follows = true) -> OperatorCase& {
    return cases.emplace_back(OperatorCase{.name = name,
                                           .parameters = std::move(parameters),
                                           .inputs = std::move(inputs),
                                           .fills = four_classes,
                                           .shapes_follow_from_first = label_follows});
  };
  add("plain", {}, {{6, 4}, {6}});
  add("one_sample", {}, {{1, 4}, {1}});
  add("batch_0", {}, {{0, 4}, {0}});
  add("one_class", {}, {{3, 1}, {3}}).fills[1] = Fill::Given({0});
  add("one_class_smoothed", {{"smooth_alpha", "0.25"}}, {{3, 1}, {3}}).fills[1] = Fill::Given({0});
  add("classes_over_a_packet", {}, {{5, 37}, {5}});
  add("rank_4", {}, {{3, 2, 2, 3}, {3, 2, 2}});
  add("rank_4_with_a_vector", {}, {{3, 2, 2, 3}, {3}}, false);
  add("rank_3_by_batch", {{"normalization", "batch"}}, {{3, 4, 2}, {3, 4}});
  add("rank_3_with_a_vector_by_batch", {{"normalization", "batch"}}, {{3, 4, 2}, {3}}, false);
  add("rank_3_ignoring_by_valid",
      {{"use_ignore", "True"}, {"ignore_label", "1"}, {"normalization", "valid"}},
      {{3, 4, 2}, {3, 4}})
      .fills[1] = Fill::Given({3, 1, 7, 0, 1, 1, 5, 5, 5, 5, 2, 1});
  add("scaled", {{"grad_scale", "0.125"}}, {{6, 4}, {6}});
  add("by_batch", {{"normalization", "batch"}, {"grad_scale", "2"}}, {{6, 4}, {6}});
  add("by_valid", {{"normalization", "valid"}}, {{6, 4}, {6}});
  add("by_valid_with_ignored", {{"normalization", "valid"}, {"ignore_label", "2"}}, {{6, 4}, {6}});
  add("ignoring", {{"use_ignore", "True"}, {"ignore_label", "2"}}, {{9, 4}, {9}});
  add("ignoring_by_batch",
      {{"use_ignore", "True"}, {"ignore_label", "2"}, {"normalization", "batch"}}, {{9, 4}, {9}});
  add("ignoring_by_valid",
      {{"use_ignore", "True"}, {"ignore_label", "2"}, {"normalization", "valid"}}, {{9, 4}, {9}});
  add("ignoring_all", {{"use_ignore", "True"}, {"normalization", "valid"}}, {{5, 4}, {5}})
      .fills[1] = Fill::Given({-1});
  // More labels than the narrow types can count one by one.
  add("by_many_valid", {{"normalization", "valid"}, {"grad_scale", "2999"}}, {{2999, 4}, {2999}});
  add("smoothed", {{"smooth_alpha", "0.1"}}, {{6, 4}, {6}});
  add("smoothed_ignoring_by_valid",
      {{"smooth_alpha", "0.1"},
       {"use_ignore", "True"},
       {"ignore_label", "0"},
       {"normalization", "valid"}},
      {{9, 4}, {9}});
  add("times_head_gradient", {{"out_grad", "True"}, {"grad_scale", "3"}}, {{6, 4}, {6}});
  add("labels_out_of_range", {}, {{6, 4}, {6}}).fills[1] = Fill::Given({-1, 0, 4, 99, 3, 2});
  add("labels_with_fractions", {}, {{6, 4}, {6}}).fills[1] = Fill::Given({0.5, 1.75, 2.25, 3.5});
  add("labels_of_nan_and_infinity", {}, {{6, 4}, {6}}).fills[1] =
      Fill::Given({NAN, INFINITY, -INFINITY, 1});
  add("large_logits", {}, {{4, 4}, {4}}).fills[0] = Fill::Uniform(-3e4, 3e4);
  add("classes_out_of_reach", {}, {{3, 4}, {3}}).fills[0] =
      Fill::Given({-INFINITY, 0, 1, -INFINITY});

  add("preserving_shape", {{"preserve_shape", "True"}}, {{2, 3, 4}, {2, 3}});
  add("preserving_shape_by_batch", {{"preserve_shape", "True"}, {"normalization", "batch"}},
      {{2, 3, 4}, {2, 3}});
  add("preserving_shape_of_a_matrix", {{"preserve_shape", "True"}}, {{3, 4}, {3}});

  const auto multi = [](P parameters) {
    parameters["multi_output"] = "True";
    return parameters;
  };
  add("multi", multi({}), {{2, 4, 5}, {2, 5}});
  add("multi_of_an_image", multi({}), {{2, 4, 3, 2}, {2, 6}});
  add("multi_with_an_image_of_labels", multi({}), {{2, 4, 3, 2}, {2, 3, 2}}, false);
  add("multi_with_one_channel_of_labels", multi({}), {{2, 4, 3, 2}, {2, 1, 3, 2}}, false);
  add("multi_of_a_matrix", multi({}), {{3, 4}, {3, 1}});
  add("multi_of_a_matrix_with_a_vector", multi({}), {{3, 4}, {3}}, false);
  add("multi_by_batch", multi({{"normalization", "batch"}}), {{2, 4, 5}, {2, 5}});
  add("multi_by_valid", multi({{"normalization", "valid"}, {"ignore_label", "1"}}),
      {{2, 4, 5}, {2, 5}});
  add("multi_ignoring_smoothed_by_valid",
      multi({{"normalization", "valid"},
             {"use_ignore", "True"},
             {"ignore_label", "1"},
             {"smooth_alpha", "0.2"},
             {"grad_scale", "7"}}),
      {{2, 4, 5}, {2, 5}});
  add("multi_times_head_gradient", multi({{"out_grad", "True"}}), {{2, 4, 5}, {2, 5}});

  const std::vector<Fill> probabilities = {Fill::Uniform(-3, 3), Fill::Uniform(0, 1)};
  add("probabilities", {{"grad_scale", "0.5"}}, {{6, 4}, {6, 4}}, false).fills = probabilities;
  add("probabilities_times_head_gradient", {{"out_grad", "True"}}, {{6, 4}, {6, 4}}, false).fills =
      probabilities;
  add("multi_probabilities", multi({{"normalization", "batch"}}), {{2, 4, 5}, {2, 4, 5}}, false)
      .fills = probabilities;

  OperatorCase& parallel = add("parallel", {{"normalization", "valid"}}, {{4099, 10}, {4099}});
  parallel.dtypes = {DType::kFloat32, DType::kBFloat16};
  return cases;
}

const RowRegistration kRow({
    .name = "SoftmaxOutput",
    .cases = Cases(),
    .forward = Forward,
    .backward = Backward,
    .gradient_is_derivative = false,
    .errors =
        {
            {.name = "unknown_normalization",
             .parameters = {{"normalization", "mean"}},
             .words = {"normalization", "mean", "valid"}},
            {.name = "smoothing_above_1",
             .parameters = {{"smooth_alpha", "1.5"}},
             .words = {"smooth_alpha", "1.5", "range"}},
            {.name = "vector", .inputs = {{4}}, .words = {"data", "(4,)"}},
            {.name = "label_for_another_batch",
             .inputs = {{6, 4}, {5}},
             .words = {"label", "(5,)", "(6,)"}},
            {.name = "label_of_other_leading_dimensions",
             .inputs = {{3, 4, 5}, {3, 5}},
             .words = {"label", "(3,5)", "(3,4)"}},
            {.name = "multi_label_of_other_positions",
             .parameters = {{"multi_output", "True"}},
             .inputs = {{2, 4, 3, 2}, {2, 5}},
             .words = {"label", "(2,5)", "(2,6)"}},
            {.name = "multi_label_of_other_rank",
             .parameters = {{"multi_output", "True"}},
             .inputs = {{2, 4, 3, 2}, {2, 3, 2, 1}},
             .words = {"label", "(2,3,2,1)", "(2,6)", "(2,3,2)"}},
        },
});

}  // namespace
}  // namespace tessera::ops_testing
