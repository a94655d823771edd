// Arithmetic of two arrays, or of an array and a number: rows of RegisterBinary. Integers wrap
// around; their quotients are cut off towards 0, and division by 0 gives 0.
#include <limits>
#include <type_traits>

#include "tessera/ops/elemwise/binary.h"
#include "tessera/ops/elemwise/map_function.h"
#include "tessera/ops/reduce/reduce_function.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: this file is a table of its functions

struct Quotient {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if (b == -1) return op::negation::Map(a);  // the least integer stays
    }
    return static_cast<T>(a / b);
  }
};
/// The remainder of a / b with the sign of b; 0 if b is 0.
struct Remainder {
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    if (b == T(0)) return T(0);
    T rest;
    if constexpr (std::is_integral_v<T>) {
      if (b == -1) return 0;
      rest = static_cast<T>(a % b);
    } else {
      rest = std::fmod(a, b);
    }
    return rest != T(0) && (rest < T(0)) != (b < T(0)) ? static_cast<T>(rest + b) : rest;
  }
};
struct Power {
  static constexpr index_t kElementCost = 10;
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return op::power::Map(a, b);
  }
};
struct Hypotenuse {
  static constexpr index_t kElementCost = 4;
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    return std::hypot(a, b);
  }
};

/// Declares a functor of the head gradient g and the operands a and b.
#define TESSERA_GRADIENT(name, expression)        \
  struct name {                                   \
    template <typename T>                         \
    TESSERA_HD static T Map(T g, T a, T b) {      \
      static_cast<void>(a), static_cast<void>(b); \
      return static_cast<T>(expression);          \
    }                                             \
  }
TESSERA_GRADIENT(MulLeft, op::mul::Map(g, b));
TESSERA_GRADIENT(MulRight, op::mul::Map(g, a));
TESSERA_GRADIENT(DivLeft, Quotient::Map(g, b));
TESSERA_GRADIENT(DivRight,
                 Quotient::Map(op::negation::Map(op::mul::Map(g, a)), op::mul::Map(b, b)));
TESSERA_GRADIENT(ModLeft, g);
TESSERA_GRADIENT(ModRight, -g* op::floor::Map(Quotient::Map(a, b)));
TESSERA_GRADIENT(PowerLeft, g* b* op::power::Map(a, static_cast<T>(b - T(1))));
TESSERA_GRADIENT(PowerRight, g* op::power::Map(a, b) * op::log::Map(a));
TESSERA_GRADIENT(HypotLeft, g* a / std::hypot(a, b));
TESSERA_GRADIENT(HypotRight, g* b / std::hypot(a, b));
TESSERA_GRADIENT(MaximumLeft, a >= b ? g : T(0));
TESSERA_GRADIENT(MaximumRight, a >= b ? T(0) : g);
TESSERA_GRADIENT(MinimumLeft, a <= b ? g : T(0));
TESSERA_GRADIENT(MinimumRight, a <= b ? T(0) : g);
#undef TESSERA_GRADIENT

constexpr MapTypes kArithmetic = MapTypes::kArithmetic;

/// A row whose gradients are linear functions of g alone.
template <typename Op, typename Left, typename Right>
BinaryRow Linear(BinaryRow row) {
  row.value = MakeMapFunction<Op, 2, kArithmetic>();
  row.left_reads = row.right_reads = GradientReads::kHead;
  row.left = MakeMapFunction<Left, 1, kArithmetic>();
  row.right = MakeMapFunction<Right, 1, kArithmetic>();
  return row;
}
/// A row whose gradients read the operands.
template <MapTypes kTypes, typename Op, typename Left, typename Right>
BinaryRow OfOperands(BinaryRow row) {
  row.value = MakeMapFunction<Op, 2, kTypes>();
  row.left_reads = row.right_reads = GradientReads::kInput;
  row.left = MakeMapFunction<Left, 3, kTypes>();
  row.right = MakeMapFunction<Right, 3, kTypes>();
  return row;
}

[[maybe_unused]] const bool kRegistered = RegisterBinary(
    TESSERA_TABLE_PLACE, MakeReduceFunction<SumReducer>(),
    {
        Linear<op::plus, op::identity, op::identity>({.elementwise = "elemwise_add",
                                                      .broadcast = "broadcast_add",
                                                      .scalar = "_plus_scalar",
                                                      .formula = "lhs + rhs"}),
        Linear<op::minus, op::identity, op::negation>({.elementwise = "elemwise_sub",
                                                       .broadcast = "broadcast_sub",
                                                       .scalar = "_minus_scalar",
                                                       .reverse_scalar = "_rminus_scalar",
                                                       .formula = "lhs - rhs"}),
        OfOperands<kArithmetic, op::mul, MulLeft, MulRight>({.elementwise = "elemwise_mul",
                                                             .broadcast = "broadcast_mul",
                                                             .scalar = "_mul_scalar",
                                                             .formula = "lhs * rhs"}),
        OfOperands<kArithmetic, Quotient, DivLeft, DivRight>({.elementwise = "elemwise_div",
                                                              .broadcast = "broadcast_div",
                                                              .scalar = "_div_scalar",
                                                              .reverse_scalar = "_rdiv_scalar",
                                                              .formula = "lhs / rhs"}),
        OfOperands<kArithmetic, Remainder, ModLeft, ModRight>(
            {.elementwise = "_mod",
             .broadcast = "broadcast_mod",
             .scalar = "_mod_scalar",
             .reverse_scalar = "_rmod_scalar",
             .formula = "the remainder of lhs / rhs, with the sign of rhs"}),
        OfOperands<MapTypes::kReal, Power, PowerLeft, PowerRight>(
            {.elementwise = "_power",
             .broadcast = "broadcast_power",
             .scalar = "_power_scalar",
             .reverse_scalar = "_rpower_scalar",
             .formula = "lhs to the power rhs"}),
        OfOperands<MapTypes::kReal, Hypotenuse, HypotLeft, HypotRight>(
            {.elementwise = "_hypot",
             .broadcast = "broadcast_hypot",
             .scalar = "_hypot_scalar",
             .formula = "sqrt(lhs^2 + rhs^2)"}),
        OfOperands<kArithmetic, op::maximum, MaximumLeft, MaximumRight>(
            {.elementwise = "_maximum",
             .broadcast = "broadcast_maximum",
             .scalar = "_maximum_scalar",
             .formula = "the larger of lhs and rhs"}),
        OfOperands<kArithmetic, op::minimum, MinimumLeft, MinimumRight>(
            {.elementwise = "_minimum",
             .broadcast = "broadcast_minimum",
             .scalar = "_minimum_scalar",
             .formula = "the smaller of lhs and rhs"}),
    });

}  // namespace
}  // namespace tessera
