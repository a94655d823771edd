#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Data seen as (outer, channels, inner).
struct Layout {
  index_t outer, channels, inner;
  Layout(const ParameterMap& parameters, const TShape& data) {
    int axis = static_cast<int>(ParameterReader(parameters).Int("axis", 1));
    if (axis < 0) axis += data.ndim();
    outer = data.ProdShape(0, axis);
    channels = data[axis];
    inner = data.ProdShape(axis + 1, data.ndim());
  }
  index_t count() const { return outer * inner; }
  template <typename Function>
  void ForEach(index_t c, const Function& function) const {
    for (index_t o = 0; o < outer; ++o) {
      for (index_t i = 0; i < inner; ++i) function((o * channels + c) * inner + i);
    }
  }
};

struct Options {
  double eps, momentum;
  bool fix_gamma, use_global_stats;
  explicit Options(const ParameterMap& parameters) {
    const ParameterReader p(parameters);
    eps = p.Real("eps", 1e-3f);
    momentum = static_cast<float>(p.Real("momentum", 0.9));
    fix_gamma = p.Bool("fix_gamma", true);
    use_global_stats = p.Bool("use_global_stats", false);
  }
};

/// The differences of the variants.
struct Variant {
  bool shows_inverse = true;
  bool rectifies = false;
  bool has_axis = true;
};

OperatorRow Row(const std::string& name, const Variant& variant) {
  const bool shows_inverse = variant.shows_inverse, rectifies = variant.rectifies;
  OperatorRow row;
  row.name = name;
  row.shapes_follow_from_output = false;
  row.forward = [=](const ParameterMap& parameters, const std::vector<Values>& in,
                    std::vector<Values>* mutated) {
    const Layout l(parameters, in[0].shape);
    const Options o(parameters);
    std::vector<Values> out = {Values(in[0].shape), Values(in[1].shape), Values(in[1].shape)};
    for (index_t c = 0; c < l.channels; ++c) {
      double mean = 0, var = 0;
      if (o.use_global_stats) {
        mean = in[3][c];
        var = in[4][c];
      } else if (l.count() > 0) {
        const double n = static_cast<double>(l.count());
        l.ForEach(c, [&](index_t i) { mean += in[0][i] / n; });
        l.ForEach(c, [&](index_t i) { var += (in[0][i] - mean) * (in[0][i] - mean) / n; });
        Values& moving_mean = (*mutated)[0];
        Values& moving_var = (*mutated)[1];
        moving_mean[c] = moving_mean[c] * o.momentum + mean * (1 - o.momentum);
        moving_var[c] = moving_var[c] * o.momentum + var * (1 - o.momentum);
      }
      const double invstd = 1 / std::sqrt(var + o.eps);
      const double gamma = o.fix_gamma ? 1 : in[1][c];
      l.ForEach(c, [&](index_t i) {
        out[0][i] = (in[0][i] - mean) * invstd * gamma + in[2][c];
        if (rectifies) out[0][i] = std::max(out[0][i], 0.0);
      });
      out[1][c] = mean;
      out[2][c] = shows_inverse ? invstd : var;
    }
    return out;
  };
  row.backward = [=](const ParameterMap& parameters, const std::vector<Values>& out_grad,
                     const std::vector<Values>& in, const std::vector<Values>& out) {
    const Layout l(parameters, in[0].shape);
    const Options o(parameters);
    std::vector<Values> grad;
    for (const Values& input : in) grad.emplace_back(input.shape);
    for (index_t c = 0; c < l.channels; ++c) {
      const double mean = out[1][c];
      const double invstd = shows_inverse ? out[2][c] : 1 / std::sqrt(out[2][c] + o.eps);
      const double gamma = o.fix_gamma ? 1 : in[1][c];
      const double n = static_cast<double>(l.count());
      double sum = 0, dot = 0;
      const auto g = [&](index_t i) { return rectifies && !(out[0][i] > 0) ? 0 : out_grad[0][i]; };
      l.ForEach(c, [&](index_t i) {
        sum += g(i);
        dot += g(i) * (in[0][i] - mean) * invstd;
      });
      l.ForEach(c, [&](index_t i) {
        const double xhat = (in[0][i] - mean) * invstd;
        const double centered = o.use_global_stats ? 0 : sum / n + xhat * dot / n;
        grad[0][i] = gamma * invstd * (g(i) - centered);
      });
      grad[1][c] = o.fix_gamma ? 0 : dot;
      grad[2][c] = sum;
    }
    return grad;
  };
  const auto add = [&](const std::string& case_name, ParameterMap parameters, const TShape& data,
                       index_t channels) {
    for (const bool narrow : {false, true}) {
      const DType of_statistics = narrow ? DType::kFloat32 : DType::kUnknown;
      OperatorCase& made = row.cases.emplace_back(
          OperatorCase{.name = case_name + (narrow ? "_narrow" : ""),
                       .parameters = parameters,
                       .inputs = {data, {channels}, {channels}, {channels}, {channels}},
                       .fills = {Fill::Uniform(-1, 3), Fill::Uniform(0.5, 2), Fill(), Fill(),
                                 Fill::Uniform(0.5, 2)},
                       .fixed_types = {DType::kUnknown, of_statistics, of_statistics, of_statistics,
                                       of_statistics}});
      made.large = data.Size() > 1000 || case_name == "with_statistics";
      made.dtypes = narrow ? std::vector<DType>{DType::kFloat16, DType::kBFloat16}
                           : std::vector<DType>{DType::kFloat64, DType::kFloat32};
    }
  };
  const ParameterMap scaled = {{"fix_gamma", "False"}};
  add("image", scaled, {3, 4, 3, 5}, 4);
  add("long_segments", scaled, {2, 3, 11, 12}, 3);
  add("matrix", scaled, {6, 4}, 4);
  add("fixed_gamma", {}, {3, 2, 5}, 2);
  add("one_sample", scaled, {1, 3, 7}, 3);
  add("batch_0", scaled, {0, 3, 2}, 3);
  add("batch_0_of_long_segments", scaled, {0, 3, 150}, 3);
  add("global", {{"fix_gamma", "False"}, {"use_global_stats", "True"}}, {3, 4, 5}, 4);
  add("global_matrix", {{"use_global_stats", "True"}}, {5, 4}, 4);
  add("eps_and_momentum", {{"eps", "0.1"}, {"momentum", "0.25"}}, {4, 3, 2}, 3);
  add("with_statistics", {{"output_mean_var", "True"}}, {4, 3, 2}, 3);
  add("parallel", scaled, {9, 33, 41, 13}, 33);
  // The mean is large beside the deviation, and known exactly.
  add("global_far_from_0", {{"fix_gamma", "False"}, {"use_global_stats", "True"}}, {3, 2, 5}, 2);
  for (OperatorCase& made : row.cases) {
    if (made.name != "global_far_from_0") continue;
    made.dtypes = {DType::kFloat32};
    made.fills[0] = Fill::Integers(16380, 16388);
    made.fills[3] = Fill::Given({16384, 16385});
    made.large = true;
  }
  if (variant.has_axis) {
    add("last_axis", {{"fix_gamma", "False"}, {"axis", "-1"}}, {3, 2, 5, 19}, 19);
    add("first_axis", {{"axis", "0"}}, {3, 5}, 3);
    add("global_last_axis", {{"axis", "2"}, {"use_global_stats", "True"}}, {3, 2, 4}, 4);
  }
  row.errors = {
      {.name = "vector", .inputs = {{4}}, .words = {"axis", "(4,)"}},
      {.name = "gamma_of_other_channels",
       .inputs = {{2, 3, 4}, {4}},
       .words = {"gamma", "(4,)", "(3,)"}},
      {.name = "negative_eps", .parameters = {{"eps", "-1"}}, .words = {"eps", "-1"}},
      {.name = "momentum_above_1", .parameters = {{"momentum", "1.5"}}, .words = {"momentum"}},
  };
  row.forward_tolerance = {.float64 = 1e-14, .float32 = 4e-6, .float16 = 4e-3, .bfloat16 = 3e-2};
  row.backward_tolerance = {.float64 = 1e-13, .float32 = 2e-5, .float16 = 1e-2, .bfloat16 = 6e-2};
  row.backward_tolerance.of_largest = true;
  return row;
}

OperatorRow SyncRow() {
  OperatorRow row = Row("_contrib_SyncBatchNorm", {.shows_inverse = false, .has_axis = false});
  for (OperatorCase& made : row.cases) made.parameters["key"] = "a";
  for (ErrorCase& error : row.errors) error.parameters["key"] = "a";
  row.errors.push_back({.name = "without_key", .words = {"required", "key"}});
  row.errors.push_back(
      {.name = "no_devices", .parameters = {{"key", "a"}, {"ndev", "0"}}, .words = {"ndev", "0"}});
  return row;
}

const RowRegistration kRows[] = {
    RowRegistration(Row("BatchNorm", {})),
    RowRegistration(Row("BatchNorm_v1", {.shows_inverse = false, .has_axis = false})),
    RowRegistration(Row("_contrib_BatchNormWithReLU", {.rectifies = true})),
    RowRegistration(SyncRow()),
};

}  // namespace
}  // namespace tessera::ops_testing
