#include <cmath>
#include <functional>
#include <numbers>
#include <string>
#include <utility>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Returns log f of a sample's n numbers, with the parameters p[0] and p[1] of n numbers each.
using LogDensity = std::function<double(const double* x, const double* const* p, index_t n)>;

struct Distribution {
  std::string name;
  std::vector<std::string> parameters;
  std::vector<Fill> fills;  ///< of the sample and the parameters
  LogDensity log;
  bool of_classes = false;
  bool of_integers = false;
};

double NegativeBinomial(double x, double k, double p) {
  return std::log(std::tgamma(x + k) / (std::tgamma(k) * std::tgamma(x + 1)) * std::pow(p, k) *
                  std::pow(1 - p, x));
}

const std::vector<Distribution>& Distributions() {
  const Fill counts = Fill::Integers(0, 6), positive = Fill::Uniform(0.3, 3);
  static const std::vector<Distribution> all = {
      {.name = "uniform",
       .parameters = {"low", "high"},
       .fills = {Fill(), Fill::Uniform(-3, -1), Fill::Uniform(1, 2)},
       .log = [](auto*, auto p, index_t) { return std::log(1 / (*p[1] - *p[0])); }},
      {.name = "normal",
       .parameters = {"mu", "sigma"},
       .fills = {Fill(), Fill(), Fill::Uniform(0.5, 2)},
       .log =
           [](auto* x, auto p, index_t) {
             const double distance = (*x - *p[0]) * (*x - *p[0]);
             const double variance = *p[1] * *p[1];
             return -distance / (2 * variance) - std::log(2 * std::numbers::pi * variance) / 2;
           }},
      {.name = "gamma",
       .parameters = {"alpha", "beta"},
       .fills = {positive, positive, positive},
       .log =
           [](auto* x, auto p, index_t) {
             return std::log(std::pow(*p[1], *p[0]) * std::pow(*x, *p[0] - 1) *
                             std::exp(-*p[1] * *x) / std::tgamma(*p[0]));
           }},
      {.name = "exponential",
       .parameters = {"lam"},
       .fills = {Fill::Uniform(0, 2), positive},
       .log = [](auto* x, auto p, index_t) { return std::log(*p[0] * std::exp(-*p[0] * *x)); }},
      {.name = "poisson",
       .parameters = {"lam"},
       .fills = {counts, positive},
       .log =
           [](auto* x, auto p, index_t) {
             return std::log(std::pow(*p[0], *x) * std::exp(-*p[0]) / std::tgamma(*x + 1));
           },
       .of_integers = true},
      {.name = "negative_binomial",
       .parameters = {"k", "p"},
       .fills = {counts, positive, Fill::Uniform(0.2, 0.8)},
       .log = [](auto* x, auto p, index_t) { return NegativeBinomial(*x, *p[0], *p[1]); },
       .of_integers = true},
      {.name = "generalized_negative_binomial",
       .parameters = {"mu", "alpha"},
       .fills = {counts, positive, positive},
       .log = [](auto* x, auto p,
                 index_t) { return NegativeBinomial(*x, 1 / *p[1], 1 / (1 + *p[0] * *p[1])); },
       .of_integers = true},
      {.name = "dirichlet",
       .parameters = {"alpha"},
       .fills = {Fill::Uniform(0.1, 0.9), positive},
       .log =
           [](auto* x, auto p, index_t n) {
             double sum = 0, product = 1;
             for (index_t c = 0; c < n; ++c) {
               sum += p[0][c];
               product *= std::pow(x[c], p[0][c] - 1) / std::tgamma(p[0][c]);
             }
             return std::log(std::tgamma(sum) * product);
           },
       .of_classes = true},
  };
  return all;
}

/// A call: its samples, each with its parameters.
class Samples {
 public:
  Samples(const Distribution& distribution, const ParameterMap& given,
          const std::vector<Values>& in)
      : distribution_(distribution),
        is_log_(ParameterReader(given).Bool("is_log", false)),
        in_(in) {
    const TShape& shape = in[0].shape;
    size_ = distribution.of_classes ? shape[shape.ndim() - 1] : 1;
    const index_t rows = in[1].size() / size_;
    each_ = rows == 0 ? 0 : in[0].size() / size_ / rows;
  }
  index_t size() const { return size_; }

  /// Returns the first element of an input that sample i reads.
  index_t First(size_t input, index_t i) const { return (input == 0 ? i : i / each_) * size_; }

  double Density(index_t i) const {
    const double* p[2] = {};
    for (size_t k = 1; k < in_.size(); ++k) p[k - 1] = in_[k].data.data() + First(k, i);
    const double log = distribution_.log(in_[0].data.data() + First(0, i), p, size_);
    return is_log_ ? log : std::exp(log);
  }
  /// Returns the derivative of a sample's density with respect to an element of an input.
  double Slope(index_t i, size_t input, index_t element) {
    constexpr double kStep = 3e-4;
    double& value = in_[input][element];
    const double before = value;
    const auto at = [&](double steps) {
      value = before + steps * kStep;
      return Density(i);
    };
    // The central difference of sixth order.
    const double slope =
        (at(3) - at(-3) - 9 * (at(2) - at(-2)) + 45 * (at(1) - at(-1))) / (60 * kStep);
    value = before;
    return slope;
  }

 private:
  const Distribution& distribution_;
  const bool is_log_;
  std::vector<Values> in_;
  index_t size_, each_;
};

TShape WithClasses(const Distribution& distribution, TShape shape) {
  if (!distribution.of_classes) return shape;
  std::vector<index_t> extents(shape.begin(), shape.end());
  extents.push_back(3);
  return TShape(std::span<const index_t>(extents));
}

OperatorRow Row(const Distribution& distribution) {
  OperatorRow row;
  row.name = "_random_pdf_" + distribution.name;
  row.forward = [&distribution](const ParameterMap& given, const std::vector<Values>& in,
                                std::vector<Values>*) {
    const TShape& shape = in[0].shape;
    Values out(distribution.of_classes
                   ? TShape(std::span<const index_t>(shape.begin(), shape.end() - 1))
                   : shape);
    const Samples samples(distribution, given, in);
    for (index_t i = 0; i < out.size(); ++i) out[i] = samples.Density(i);
    return std::vector<Values>{out};
  };
  row.backward = [&distribution](const ParameterMap& given, const std::vector<Values>& out_grad,
                                 const std::vector<Values>& in, const std::vector<Values>&) {
    std::vector<Values> grad;
    for (const Values& input : in) grad.emplace_back(input.shape);
    Samples samples(distribution, given, in);
    for (index_t i = 0; i < out_grad[0].size(); ++i) {
      for (size_t k = distribution.of_integers ? 1 : 0; k < in.size(); ++k) {
        const index_t first = samples.First(k, i);
        for (index_t e = first; e < first + samples.size(); ++e) {
          grad[k][e] += out_grad[0][i] * samples.Slope(i, k, e);
        }
      }
    }
    return grad;
  };
  const auto add = [&](const std::string& name, const TShape& sample, const TShape& parameters,
                       bool is_log = false) {
    OperatorCase added = {.name = name,
                          .inputs = {WithClasses(distribution, sample)},
                          .fills = distribution.fills,
                          .shapes_follow_from_first = false};
    if (is_log) added.parameters = {{"is_log", "True"}};
    added.inputs.resize(1 + distribution.parameters.size(), WithClasses(distribution, parameters));
    row.cases.push_back(std::move(added));
  };
  add("one_each", {4, 3}, {4, 3});
  add("several_each", {3, 5}, {3});
  add("several_axes", {2, 3, 2, 3}, {2, 3});
  add("logarithms", {3, 5}, {3}, true);
  add("one_distribution", {2, 3}, TShape::OfRank(0), true);
  add("no_samples", {3, 0}, {3});
  add("no_distributions", {0, 4}, {0});
  for (const bool is_log : {false, true}) {
    add(is_log ? "parallel_logarithms" : "parallel", {11, 401}, {11}, is_log);
    row.cases.back().dtypes = {DType::kFloat32};
    row.cases.back().large = true;
  }
  const auto refuse = [&](const std::string& name, std::vector<TShape> shapes,
                          const std::vector<std::string>& words) {
    for (TShape& shape : shapes) shape = WithClasses(distribution, shape);
    shapes.resize(1 + distribution.parameters.size(), shapes.back());
    row.errors.push_back({.name = name, .inputs = shapes, .words = words});
  };
  const std::string& first = distribution.parameters[0];
  refuse("other_extent", {{4, 3}, {3}}, {first, "(3,", "(4,"});
  refuse("more_axes", {{2}, {2, 3}}, {first, "(2,3", "sample", "(2,"});
  if (distribution.parameters.size() == 2) {
    refuse("other_shape", {{4, 3}, {4}, {3}}, {distribution.parameters[1], "(3,)", "(4,)"});
  }
  if (distribution.of_classes) {
    row.errors.push_back(
        {.name = "no_class", .inputs = {{2, 0}, {0}}, .words = {"sample", "(2,0)", "class"}});
    row.errors.push_back(
        {.name = "no_axis", .inputs = {TShape::OfRank(0), {3}}, .words = {"sample", "classes"}});
    row.errors.push_back(
        {.name = "other_classes", .inputs = {{2, 4}, {3}}, .words = {"alpha", "(3,)", "(4,)"}});
  }
  row.forward_tolerance = {.float64 = 1e-13};
  row.backward_tolerance = {
      .float64 = 1e-9, .float32 = 1e-5, .float16 = 2e-3, .bfloat16 = 2e-2, .of_largest = true};
  return row;
}

std::vector<RowRegistration> Register() {
  std::vector<RowRegistration> rows;
  for (const Distribution& distribution : Distributions()) rows.emplace_back(Row(distribution));
  return rows;
}

const std::vector<RowRegistration> kRows = Register();

}  // namespace
}  // namespace tessera::ops_testing
