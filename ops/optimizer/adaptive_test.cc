#include <cmath>
#include <vector>

#include "tessera/ops/optimizer/step_row.h"

namespace tessera::ops_testing {
namespace {

double RmsProp(const StepReader& p, double weight, double grad, double* n) {
  const double gamma = p.Real("gamma1", 0.95f), g = p.DecayedGradient(weight, grad);
  *n = gamma * *n + (1 - gamma) * g * g;
  const double next = weight - p.Real("lr", 0) * g / std::sqrt(*n + p.Real("epsilon", 1e-8f));
  return p.Clip("clip_weights", next);
}

double RmsPropAlex(const StepReader& p, double weight, double grad, double* state) {
  const double gamma1 = p.Real("gamma1", 0.95f), gamma2 = p.Real("gamma2", 0.9f);
  const double g = p.DecayedGradient(weight, grad);
  state[0] = gamma1 * state[0] + (1 - gamma1) * g * g;
  state[1] = gamma1 * state[1] + (1 - gamma1) * g;
  const double root = std::sqrt(state[0] - state[1] * state[1] + p.Real("epsilon", 1e-8f));
  state[2] = gamma2 * state[2] - p.Real("lr", 0) * g / root;
  return p.Clip("clip_weights", weight + state[2]);
}

double Ftml(const StepReader& p, double weight, double grad, double* state) {
  const double beta1 = p.Real("beta1", 0.6f), beta2 = p.Real("beta2", 0.999f);
  const double t = p.Real("t", 1);
  const double epsilon = p.reader().Real("epsilon", static_cast<double>(1e-8f));
  const double g = p.Clip("clip_grad", p.Real("rescale_grad", 1) * grad + p.Real("wd", 0) * weight);
  state[1] = beta2 * state[1] + (1 - beta2) * g * g;
  const double d = (1 - std::pow(beta1, t)) / p.Real("lr", 0) *
                   (std::sqrt(state[1] / (1 - std::pow(beta2, t))) + epsilon);
  state[2] = beta1 * state[2] + (1 - beta1) * g - (d - beta1 * state[0]) * weight;
  state[0] = d;
  return -state[2] / d;
}

double Ftrl(const StepReader& p, double weight, double grad, double* state) {
  const double lr = p.Real("lr", 0), lamda1 = p.Real("lamda1", 0.01f);
  const double g = p.Gradient(grad), before = state[1];
  state[1] += g * g;
  state[0] += g - (std::sqrt(state[1]) - std::sqrt(before)) * weight / lr;
  if (std::abs(state[0]) <= lamda1) return 0;
  return (std::copysign(lamda1, state[0]) - state[0]) /
         ((p.Real("beta", 1) + std::sqrt(state[1])) / lr + p.Real("wd", 0));
}

double Adagrad(const StepReader& p, double weight, double grad, double* history) {
  const double g = p.Gradient(grad);
  *history += g * g;
  return weight - p.Real("lr", 0) * (g / std::sqrt(*history + p.Real("epsilon", 1e-7f)) +
                                     p.Real("wd", 0) * weight);
}

const std::vector<ParameterMap> kGammas = {
    {{"gamma1", "0.5"}}, {{"gamma1", "0.3"}, {"epsilon", "0.1"}}, {{"clip_weights", "0.4"}}};
const RowRegistration kRmsProp(
    MakeStepRow({.name = "rmsprop_update", .num_states = 1, .step = RmsProp, .cases = kGammas}));

/// Keeps n far above g^2, so that the variance is not a small difference.
OperatorRow RmsPropAlexRow() {
  std::vector<ParameterMap> cases = kGammas;
  cases.push_back({{"gamma2", "0.25"}});
  OperatorRow row = MakeStepRow(
      {.name = "rmspropalex_update", .num_states = 3, .step = RmsPropAlex, .cases = cases});
  for (OperatorCase& each : row.cases) {
    each.fills = {Fill(), Fill(), Fill::Uniform(4, 6), Fill::Uniform(-1, 1), Fill()};
  }
  return row;
}
const RowRegistration kRmsPropAlex(RmsPropAlexRow());

OperatorRow FtmlRow() {
  OperatorRow row = MakeStepRow({.name = "ftml_update",
                                 .num_states = 3,
                                 .step = Ftml,
                                 .required = {{"lr", "0.5"}, {"t", "3"}},
                                 .cases = {{{"beta1", "0.5"}, {"beta2", "0.75"}},
                                           {{"epsilon", "0.1"}},
                                           {{"t", "1"}},
                                           {{"t", "1000"}, {"wd", "0.1"}}},
                                 .clip = "clip_grad"});
  // d is up to 50, of which z is a difference.
  row.forward_tolerance = {
      .float64 = 2e-14, .float32 = 1e-5, .float16 = 1.5e-3, .bfloat16 = 1.2e-2};
  row.errors.push_back({.name = "step_0",
                        .parameters = {{"lr", "0.5"}, {"t", "0"}},
                        .words = {"t", "\"0\"", "range"}});
  return row;
}
const RowRegistration kFtml(FtmlRow());

const RowRegistration kFtrl(MakeStepRow(
    {.name = "ftrl_update",
     .num_states = 2,
     .step = Ftrl,
     .cases = {{{"lamda1", "0.5"}}, {{"beta", "0.25"}, {"wd", "0.5"}}, {{"lamda1", "100"}}}}));
const RowRegistration kAdagrad(MakeStepRow({.name = "_sparse_adagrad_update",
                                            .num_states = 1,
                                            .step = Adagrad,
                                            .cases = {{{"epsilon", "0.25"}}}}));

}  // namespace
}  // namespace tessera::ops_testing
