#include <cmath>
#include <vector>

#include "tessera/ops/optimizer/step_row.h"

namespace tessera::ops_testing {
namespace {

double Adam(const StepReader& p, double weight, double grad, double* state) {
  const double beta1 = p.Real("beta1", 0.9f), beta2 = p.Real("beta2", 0.999f);
  const double g = p.DecayedGradient(weight, grad);
  state[0] = beta1 * state[0] + (1 - beta1) * g;
  state[1] = beta2 * state[1] + (1 - beta2) * g * g;
  return weight - p.Real("lr", 0) * state[0] / (std::sqrt(state[1]) + p.Real("epsilon", 1e-8f));
}

const std::vector<ParameterMap> kBetas = {
    {{"beta1", "0.5"}, {"beta2", "0.75"}}, {{"beta1", "0.3"}}, {{"epsilon", "0.1"}, {"wd", "0.1"}}};

const RowRegistration kAdam(
    MakeStepRow({.name = "adam_update", .num_states = 2, .step = Adam, .cases = [] {
                   std::vector<ParameterMap> cases = kBetas;
                   cases.push_back({{"lazy_update", "False"}});
                   return cases;
                 }()}));

}  // namespace
}  // namespace tessera::ops_testing
