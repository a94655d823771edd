#include <utility>
#include <vector>

#include "tessera/ops/optimizer/step_row.h"

namespace tessera::ops_testing {
namespace {

/// lr * (clip(rescale_grad * grad) + wd * weight)
double Descent(const StepReader& p, double weight, double grad) {
  return p.Real("lr", 0) * (p.Gradient(grad) + p.Real("wd", 0) * weight);
}

double Sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }
/// Returns the product, which is 0 for a factor of 0 even where x is infinite or NaN.
double Scaled(double factor, double x) { return factor == 0 ? 0 : factor * x; }

double Plain(const StepReader& p, double weight, double grad, double*) {
  return weight - Descent(p, weight, grad);
}
double Momentum(const StepReader& p, double weight, double grad, double* mom) {
  *mom = p.Real("momentum", 0) * *mom - Descent(p, weight, grad);
  return weight + *mom;
}
double Nesterov(const StepReader& p, double weight, double grad, double* mom) {
  const double momentum = p.Real("momentum", 0), descent = Descent(p, weight, grad);
  *mom = momentum * *mom - descent;
  return weight + momentum * *mom - descent;
}
/// Nesterov, but the momentum takes the decay from the new weight.
double MasterNesterov(const StepReader& p, double weight, double grad, double* mom) {
  const double before = p.Real("momentum", 0) * *mom;
  const double next = Nesterov(p, weight, grad, mom);
  *mom = before - Descent(p, next, grad);
  return next;
}
double SignSgd(const StepReader& p, double weight, double grad, double*) {
  const double lr = p.Real("lr", 0);
  return (1 - lr * p.Real("wd", 0)) * weight - lr * Sign(grad);
}
double Signum(const StepReader& p, double weight, double grad, double* mom) {
  const double lr = p.Real("lr", 0), momentum = p.Real("momentum", 0);
  *mom = Scaled(momentum, *mom) - (1 - momentum) * (p.Gradient(grad) + p.Real("wd", 0) * weight);
  return (1 - lr * p.Real("wd_lh", 0)) * weight + lr * Sign(*mom);
}

const std::vector<ParameterMap> kLazy = {{{"lazy_update", "False"}}};
const std::vector<ParameterMap> kMomenta = {{{"momentum", "0.9"}},
                                            {{"momentum", "0.9"}, {"wd", "0.1"}},
                                            {{"momentum", "0.5"}, {"clip_gradient", "0.3"}}};

std::vector<ParameterMap> With(std::vector<ParameterMap> cases, ParameterMap added) {
  cases.push_back(std::move(added));
  return cases;
}

const RowRegistration kPlain(MakeStepRow({.name = "sgd_update", .step = Plain, .cases = kLazy}));
const RowRegistration kMomentum(MakeStepRow({.name = "sgd_mom_update",
                                             .num_states = 1,
                                             .step = Momentum,
                                             .cases = With(kMomenta, {{"momentum", "0.5"},
                                                                      {"lazy_update", "False"}})}));
const RowRegistration kMasterPlain(MakeStepRow(
    {.name = "mp_sgd_update", .num_states = 1, .master = true, .step = Plain, .cases = kLazy}));
const RowRegistration kMasterMomentum(MakeStepRow({.name = "mp_sgd_mom_update",
                                                   .num_states = 2,
                                                   .master = true,
                                                   .step = Momentum,
                                                   .cases = kMomenta}));
const RowRegistration kNesterov(
    MakeStepRow({.name = "nag_mom_update", .num_states = 1, .step = Nesterov, .cases = kMomenta}));
const RowRegistration kMasterNesterov(MakeStepRow({.name = "mp_nag_mom_update",
                                                   .num_states = 2,
                                                   .master = true,
                                                   .step = MasterNesterov,
                                                   .cases = kMomenta}));
const RowRegistration kSignSgd(MakeStepRow({.name = "signsgd_update", .step = SignSgd}));
const RowRegistration kSignum(MakeStepRow({.name = "signum_update",
                                           .num_states = 1,
                                           .step = Signum,
                                           .cases = With(kMomenta, {{"wd_lh", "0.25"}})}));

}  // namespace
}  // namespace tessera::ops_testing
