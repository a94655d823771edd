// Functions of one array that are piecewise constant or linear: rounding, signs, logic. The
// straight-through estimators _contrib_*_ste (Bengio, Léonard and Courville, 2013) have the value
// of a step and the gradient of the identity.
#include <cmath>

#include "tessera/ops/elemwise/unary.h"
#include "tessera/ops/loops/map_function.h"
#include "tessera/tensor/functors.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: this file is a table of its functions

/// Rounds to the nearest integer, ties down, as MXNet's rint does.
struct Rint {
  template <typename T>
  TESSERA_HD static T Map(T x) {
    const T below = op::floor::Map(x), above = op::ceil::Map(x);
    return x - below <= above - x ? below : above;
  }
};
struct LogicalNot {
  template <typename T>
  TESSERA_HD static T Map(T x) {
    return x == T(0) ? T(1) : T(0);
  }
};
struct ReluGradient {
  /// NaN stays NaN, as in MXNet.
  template <typename T>
  TESSERA_HD static T Map(T g, T y) {
    return g * (y > T(0) ? T(1) : y);
  }
};
struct AbsGradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T x) {
    return x > T(0) ? g : x < T(0) ? static_cast<T>(-g) : T(0);
  }
};

/// A row whose gradient is 0.
template <typename Op>
UnaryRow Constant(std::string_view name, std::string_view description) {
  return {.name = name,
          .description = description,
          .value = MakeMapFunction<Op, 1, MapTypes::kArithmetic>(),
          .gradient_reads = GradientReads::kNothing,
          .gradient = MakeMapFunction<op::identity, 1, MapTypes::kArithmetic>()};
}

/// A row whose gradient is that of the identity: a straight-through estimator.
template <typename Op>
UnaryRow StraightThrough(std::string_view name, std::string_view description) {
  return {.name = name,
          .description = description,
          .value = MakeMapFunction<Op, 1, MapTypes::kArithmetic>(),
          .gradient_reads = GradientReads::kHead,
          .gradient = MakeMapFunction<op::identity, 1, MapTypes::kArithmetic>(),
          .graph = [](const Term& g, const Term&, const Term&) { return g; }};
}

Term Negated(const Term& g, const Term&, const Term&) { return -g; }
Term TimesSign(const Term& g, const Term& x, const Term&) { return g * Apply("sign", {x}); }
Term TimesStep(const Term& g, const Term&, const Term& y) { return g * IsGreater(y, 0); }

[[maybe_unused]] const bool kRegistered =
    RegisterUnary(TESSERA_TABLE_PLACE,
                  {
                      Constant<op::floor>("floor", "The largest integer not above data."),
                      Constant<op::ceil>("ceil", "The least integer not below data."),
                      Constant<op::round>("round", "The nearest integer, halves away from 0."),
                      Constant<Rint>("rint", "The nearest integer, halves downwards."),
                      Constant<op::trunc>("trunc", "The integer part."),
                      Constant<op::trunc>("fix", "The integer part."),
                      Constant<op::sign>("sign", "-1, 0 or 1."),
                      StraightThrough<op::round>("_contrib_round_ste", "round with gradient 1."),
                      StraightThrough<op::sign>("_contrib_sign_ste", "sign with gradient 1."),
                      Constant<LogicalNot>("logical_not", "1 where data is 0, else 0."),
                      {.name = "negative",
                       .description = "-data.",
                       .value = MakeMapFunction<op::negation, 1, MapTypes::kArithmetic>(),
                       .gradient_reads = GradientReads::kHead,
                       .gradient = MakeMapFunction<op::negation, 1, MapTypes::kArithmetic>(),
                       .graph = &Negated},
                      {.name = "abs",
                       .description = "The absolute value.",
                       .value = MakeMapFunction<op::abs, 1, MapTypes::kArithmetic>(),
                       .gradient_reads = GradientReads::kInput,
                       .gradient = MakeMapFunction<AbsGradient, 2, MapTypes::kArithmetic>(),
                       .graph = &TimesSign},
                      {.name = "relu",
                       .description = "max(data, 0).",
                       .value = MakeMapFunction<op::relu, 1, MapTypes::kArithmetic>(),
                       .gradient_reads = GradientReads::kOutput,
                       .gradient = MakeMapFunction<ReluGradient, 2, MapTypes::kArithmetic>(),
                       .graph = &TimesStep},
                  });

}  // namespace
}  // namespace tessera
