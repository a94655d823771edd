#ifndef TESSERA_OPS_NORM_NORM_GRADIENT_H_
#define TESSERA_OPS_NORM_NORM_GRADIENT_H_

#include <functional>
#include <string>

#include "tessera/ops/gradient_formula.h"

namespace tessera::ops_internal {

/// Returns the reductions of a term by a registered operator, as a value that broadcasts to it.
using RowReduction = std::function<Term(const char* op, const Term& term)>;

/// Returns 1 / sqrt(total + eps) for rows of x, where `total` is the reduction of x^2 by `op`, sum
/// or mean. It is finite also if squares overflow or underflow.
Term InverseLength(const char* op, const Term& x, double eps, const RowReduction& reduced);

/// The gradients of out = (x - mean) / sqrt(var + eps) * gamma + beta as graphs.
struct NormGradients {
  Term x, gamma, beta;
};

/// Returns the gradients for the head gradient g. Mean and variance are those along `axis`. gamma,
/// which is marked by Broadcast(), broadcasts to x. The gradients of gamma and beta are sums over
/// all axes but `channel_axis`, so that they are vectors.
NormGradients BuildNormGradients(const Term& g, const Term& x, const Term& gamma, double eps,
                                 const std::string& axis, const std::string& channel_axis);

/// Builds the gradients of data, gamma and beta, where data is normalized over groups: in shape
/// `rows`, "(0, groups, -1)" of Reshape, it has one row for each sample and group. gamma and beta
/// have one element for each group.
void BuildGroupNormGradient(GradientBuilder* builder, const std::string& rows, double eps);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_NORM_NORM_GRADIENT_H_
