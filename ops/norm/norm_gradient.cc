#include "tessera/ops/norm/norm_gradient.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tessera::ops_internal {

Term InverseLength(const char* op, const Term& x, double eps, const RowReduction& reduced) {
  // The result does not depend on the unit, so the unit counts as a constant.
  constexpr double kLeastUnit = std::numeric_limits<float>::min();
  const Term largest = reduced("max", Apply("abs", {x}));
  const Term unit =
      Apply("BlockGrad", {Apply("_maximum_scalar", {largest},
                                {{"scalar", NumberText(std::max(std::sqrt(eps), kLeastUnit))}})});
  const Term scaled = (x / unit).Whole();
  return Apply("rsqrt", {reduced(op, scaled * scaled) + eps / unit / unit}) / unit;
}

NormGradients BuildNormGradients(const Term& g, const Term& x, const Term& gamma, double eps,
                                 const std::string& axis, const std::string& channel_axis) {
  const auto reduced = [&](const char* op, const Term& term) {
    return Apply(op, {term}, {{"axis", axis}, {"keepdims", "True"}}).Broadcast();
  };
  const auto mean = [&](const Term& term) { return reduced("mean", term); };
  const auto sum = [&](const Term& term) {
    return Apply("sum", {term}, {{"axis", channel_axis}, {"exclude", "True"}});
  };
  const Term centred = (x - mean(x)).Whole();
  const Term inverse = InverseLength("mean", centred, eps, reduced);
  const Term normal = (centred * inverse).Whole();
  const Term h = (g * gamma).Whole();
  const Term of_x = (h - mean(h) - normal * mean(h * normal)) * inverse;
  return {.x = of_x.Whole(), .gamma = sum(g * normal), .beta = sum(g)};
}

void BuildGroupNormGradient(GradientBuilder* builder, const std::string& rows, double eps) {
  const Term g(builder, builder->OutGrad(0)), x(builder, builder->Input(0)),
      gamma(builder, builder->Input(1));
  const auto reshaped = [](const Term& term, const std::string& shape) {
    return Apply("Reshape", {term}, {{"shape", shape}});
  };
  const NormGradients gradients =
      BuildNormGradients(reshaped(g, rows), reshaped(x, rows),
                         reshaped(gamma, "(1, -1, 1)").Broadcast(), eps, "2", "1");
  SetInGrad(builder, 0, Apply("reshape_like", {gradients.x, x}));
  SetInGrad(builder, 1, gradients.gamma);
  SetInGrad(builder, 2, gradients.beta);
}

}  // namespace tessera::ops_internal
