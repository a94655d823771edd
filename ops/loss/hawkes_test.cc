#include <cmath>
#include <string>
#include <vector>

#include "tessera/ops/testing/operator_row.h"

namespace tessera::ops_testing {
namespace {

/// Sums over all pairs of events.
std::vector<Values> Forward(const ParameterMap&, const std::vector<Values>& in,
                            std::vector<Values>*) {
  const auto &lda = in[0], &alpha = in[1], &beta = in[2], &state = in[3], &lags = in[4],
             &marks = in[5], &valid_length = in[6], &max_time = in[7];
  const index_t batch = lags.shape[0], steps = lags.shape[1], processes = alpha.size();
  Values output({batch}), out_state({batch, processes});
  for (index_t i = 0; i < batch; ++i) {
    std::vector<std::vector<double>> events(static_cast<size_t>(processes));
    // The memory of process k from events that are `count` or fewer.
    const auto memory = [&](index_t k, double time, size_t count) {
      double sum = state[i * processes + k] * std::exp(-beta[k] * time);
      for (size_t e = 0; e < count; ++e) {
        sum += std::exp(-beta[k] * (time - events[static_cast<size_t>(k)][e]));
      }
      return sum;
    };
    double time = 0;
    for (index_t j = i * steps; j < i * steps + static_cast<index_t>(valid_length[i]); ++j) {
      time += lags[j];
      const auto k = static_cast<index_t>(marks[j]);
      auto& own = events[static_cast<size_t>(k)];
      output[i] +=
          std::log(lda[i * processes + k] + alpha[k] * beta[k] * memory(k, time, own.size()));
      own.push_back(time);
    }
    for (index_t k = 0; k < processes; ++k) {
      const size_t count = events[static_cast<size_t>(k)].size();
      const double end = memory(k, max_time[i], count);
      out_state[i * processes + k] = end;
      const double begin = state[i * processes + k] + static_cast<double>(count);
      output[i] -= lda[i * processes + k] * max_time[i] + alpha[k] * (begin - end);
    }
  }
  return {output, out_state};
}

/// Differences of the first output, with respect to lda, alpha and beta.
std::vector<Values> Backward(const ParameterMap& given, const std::vector<Values>& out_grad,
                             const std::vector<Values>& in, const std::vector<Values>&) {
  constexpr double kStep = 1e-4;
  std::vector<Values> grad, moved = in;
  for (const Values& input : in) grad.emplace_back(input.shape);
  for (size_t k = 0; k < 3; ++k) {
    for (index_t e = 0; e < in[k].size(); ++e) {
      const auto at = [&](double steps) {
        moved[k][e] = in[k][e] + steps * kStep;
        const Values output = Forward(given, moved, nullptr)[0];
        double sum = 0;
        for (index_t i = 0; i < output.size(); ++i) sum += out_grad[0][i] * output[i];
        return sum;
      };
      grad[k][e] = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * kStep);
      moved[k][e] = in[k][e];
    }
  }
  return grad;
}

OperatorRow Row() {
  OperatorRow row;
  row.name = "_contrib_hawkesll";
  row.forward = Forward;
  row.backward = Backward;
  row.gradient_is_derivative = false;  // out_state counts as constant
  const auto add = [&](const std::string& name, index_t batch, index_t processes, index_t steps,
                       const std::vector<double>& lengths) -> OperatorCase& {
    const Fill marks = Fill::Integers(0, static_cast<double>(processes - 1));
    row.cases.push_back(
        {.name = name,
         .inputs = {{batch, processes},
                    {processes},
                    {processes},
                    {batch, processes},
                    {batch, steps},
                    {batch, steps},
                    {batch},
                    {batch}},
         .fills = {Fill::Uniform(0.5, 2), Fill::Uniform(0.1, 0.8), Fill::Uniform(0.5, 2),
                   Fill::Uniform(0, 2), Fill::Uniform(0.1, 0.6), marks, Fill::Given(lengths),
                   Fill::Uniform(4, 6)},
         .fixed_types = {DType::kUnknown, DType::kUnknown, DType::kUnknown, DType::kUnknown,
                         DType::kUnknown, DType::kInt32},
         .shapes_follow_from_first = false});
    return row.cases.back();
  };
  add("samples", 3, 2, 5, {5, 2, 0});
  add("one_process", 2, 1, 4, {4, 1});
  add("one_sample", 1, 3, 6, {6});
  add("no_steps", 2, 3, 0, {0});
  add("no_samples", 0, 3, 4, {0});
  OperatorCase& parallel = add("parallel", 90, 3, 12, {12, 0, 7});
  parallel.dtypes = {DType::kFloat32};
  parallel.large = true;
  const auto refuse = [&](const std::string& name, size_t input, const TShape& shape,
                          const std::vector<std::string>& words) {
    std::vector<TShape> shapes = {{3, 2}, {2}, {2}, {3, 2}, {3, 4}, {3, 4}, {3}, {3}};
    shapes[input] = shape;
    row.errors.push_back({.name = name, .inputs = shapes, .words = words});
  };
  refuse("other_processes", 1, {3}, {"alpha", "(3,)", "(2,)"});
  refuse("other_state", 3, {3, 3}, {"state", "(3,3)", "(3,2)"});
  refuse("other_steps", 5, {3, 5}, {"marks", "(3,5)", "(3,4)"});
  refuse("other_batch", 7, {2}, {"max_time", "(2,)", "(3,)"});
  refuse("matrix_of_rates", 2, {1, 2}, {"beta", "(1,2)"});
  row.forward_tolerance = {
      .float64 = 1e-13, .float32 = 1e-5, .float16 = 1.5e-3, .bfloat16 = 1.2e-2};
  row.backward_tolerance = {
      .float64 = 1e-9, .float32 = 1e-5, .float16 = 1.5e-3, .bfloat16 = 1.2e-2, .of_largest = true};
  return row;
}

const RowRegistration kRow(Row());

}  // namespace
}  // namespace tessera::ops_testing
