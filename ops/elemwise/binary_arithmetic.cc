// Arithmetic of two arrays, or of an array and a number: rows of RegisterBinary. Integers wrap
// around; their quotients are cut off towards 0, and division by 0 gives 0. So does 0 to a negative
// power.
//
// Beside integers, a number is cut off towards 0 as in MXNet, in a type that holds it: int8 + 300
// wraps around, int8 / 300 is 0. Exponents and bases with a fraction keep it: the power is computed
// in float64 and cut off. Maximum and minimum limit the number to the integers' type: the minimum
// of uint8 and -1 is 0, the maximum of uint8 and 300 is 255. (MXNet converts the number first, by
// undefined C++.)
//
// Gradients where the formula is 0 * infinity or 0 / 0, as in PyTorch except for hypot, which has
// NaN there:
//
//   a^b, d a   0 where b is 0
//   a^b, d b   0 where a is 0 and b is not negative
//   hypot      0 at (0, 0), a subgradient
//
// As graphs, they have second derivatives 0 at (0, 0), too.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "tessera/ops/elemwise/binary.h"
#include "tessera/ops/loops/map_function.h"
#include "tessera/ops/loops/reduce_function.h"
#include "tessera/ops/loops/reducers.h"
#include "tessera/tensor/functors.h"

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
struct First {
  template <typename T>
  TESSERA_HD static T Map(T a, T) {
    return a;
  }
};
struct Power {
  static constexpr index_t kElementCost = 10;
  template <typename T>
  TESSERA_HD static T Map(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using Bits = std::make_unsigned_t<T>;
      const bool is_unit = a == 1 || a == -1;
      if (b < 0 && !is_unit) return 0;
      if (is_unit) return b % 2 == 0 ? 1 : a;
      Bits power = 1, factor = static_cast<Bits>(a);
      for (; b != 0; b = static_cast<T>(b / 2), factor *= factor) {
        if (b % 2 != 0) power *= factor;
      }
      return static_cast<T>(power);
    } else {
      return op::power::Map(a, b);
    }
  }
  template <op::FloatArrayKernelElement T>
  static void Row(const T* const* in, T* out, index_t n) {
    op::power::ArrayKernel({in[0]}, {in[1]}, out, n);
  }
};
/// sqrt(a^2 + b^2) without overflow on the way; infinite where either operand is, even beside NaN.
struct Hypotenuse {
  static constexpr index_t kElementCost = 4;
  TESSERA_HD static double Map(double a, double b) { return std::hypot(a, b); }
  /// Squares of floats are exact in double, so that the result is within 1 ulp.
  TESSERA_HD static float Map(float a, float b) {
    const double x = a, y = b;
    const bool is_infinite = (op::abs::Map(a) == INFINITY) | (op::abs::Map(b) == INFINITY);
    return is_infinite ? INFINITY : static_cast<float>(std::sqrt(x * x + y * y));
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
TESSERA_GRADIENT(ModRight, -g* op::floor::Map(Quotient::Map(a, b)));
TESSERA_GRADIENT(MaximumLeft, a >= b ? g : T(0));
TESSERA_GRADIENT(MaximumRight, a >= b ? T(0) : g);
TESSERA_GRADIENT(MinimumLeft, a <= b ? g : T(0));
TESSERA_GRADIENT(MinimumRight, a <= b ? T(0) : g);
#undef TESSERA_GRADIENT

/// The gradient of b in a / b. The square of a floating-point b might overflow or underflow.
struct DivRight {
  template <typename T>
  TESSERA_HD static T Map(T g, T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return Quotient::Map(op::negation::Map(op::mul::Map(g, a)), op::mul::Map(b, b));
    } else {
      return -g * (a / b / b);
    }
  }
};
// Slopes are computed where they are not used, too, so that loops have no branches.
/// The gradient of a in a^b, where `power` is a^(b - 1).
struct PowerLeftOf {
  template <typename T>
  TESSERA_HD static T Map(T power, T g, T, T b) {
    const T slope = g * b * power;
    return b == T(0) ? T(0) : slope;
  }
};
/// The gradient of b in a^b, where `power` is a^b.
struct PowerRightOf {
  template <typename T>
  TESSERA_HD static T Map(T power, T log, T g, T a, T b) {
    const T slope = g * power * log;
    return a == T(0) && b >= T(0) ? T(0) : slope;
  }
};
struct PowerLeft {
  template <typename T>
  TESSERA_HD static T Map(T g, T a, T b) {
    return PowerLeftOf::Map(op::power::Map(a, static_cast<T>(b - T(1))), g, a, b);
  }
#if !defined(TESSERA_XPU_GPU)
  template <op::FloatArrayKernelElement T>
  static void Row(const T* const* in, T* out, index_t n) {
    alignas(64) T powers[kMapBlock];
    for (index_t first = 0; first < n; first += kMapBlock) {
      const index_t count = std::min(kMapBlock, n - first);
      const T* const operands[] = {powers, in[0] + first, in[1] + first, in[2] + first};
      for (index_t i = 0; i < count; ++i) powers[i] = operands[3][i] - T(1);
      op::power::ArrayKernel({operands[2]}, {powers}, powers, count);
      MapInLoop<PowerLeftOf, 4>(operands, out + first, count);
    }
  }
#endif
};
struct PowerRight {
  template <typename T>
  TESSERA_HD static T Map(T g, T a, T b) {
    return PowerRightOf::Map(op::power::Map(a, b), op::log::Map(a), g, a, b);
  }
#if !defined(TESSERA_XPU_GPU)
  template <op::FloatArrayKernelElement T>
  static void Row(const T* const* in, T* out, index_t n) {
    alignas(64) T powers[kMapBlock], logs[kMapBlock];
    for (index_t first = 0; first < n; first += kMapBlock) {
      const index_t count = std::min(kMapBlock, n - first);
      const T* const operands[] = {powers, logs, in[0] + first, in[1] + first, in[2] + first};
      op::power::ArrayKernel({operands[3]}, {operands[4]}, powers, count);
      op::log::ArrayKernel(operands[3], logs, count);
      MapInLoop<PowerRightOf, 5>(operands, out + first, count);
    }
  }
#endif
};
struct HypotLeft {
  template <typename T>
  TESSERA_HD static T Map(T g, T a, T b) {
    const T length = Hypotenuse::Map(a, b);
    return length == T(0) ? T(0) : g * (a / length);
  }
};
struct HypotRight {
  template <typename T>
  TESSERA_HD static T Map(T g, T a, T b) {
    return HypotLeft::Map(g, b, a);
  }
};

using enum OperandGradient;
using enum MapTypes;

/// Sets the gradient of one operand: kForm tells what `Function` takes.
template <OperandGradient kForm, typename Function, MapTypes kTypes>
void SetGradient(OperandGradient* form, MapFunction* function) {
  constexpr int kOperands = kForm == kBoth ? 3 : kForm == kOther ? 2 : 1;
  *form = kForm;
  *function = MakeMapFunction<Function, kOperands, kTypes>();
}

/// A row of function Op with the gradients of its operands.
template <MapTypes kTypes, typename Op, OperandGradient kLeft, typename Left,
          OperandGradient kRight, typename Right, MapTypes kGradientTypes = kTypes>
BinaryRow Row(BinaryRow row) {
  row.value = MakeMapFunction<Op, 2, kTypes>();
  SetGradient<kLeft, Left, kGradientTypes>(&row.left_form, &row.left);
  SetGradient<kRight, Right, kGradientTypes>(&row.right_form, &row.right);
  return row;
}

Term LogOf(const Term& a) { return a.is_number() ? Term(std::log(a.number())) : Apply("log", {a}); }

Term PowerLeftGraph(const Term& g, const Term& a, const Term& b) {
  const Term is_constant = IsEqual(b, 0);
  if (is_constant.is_number()) return g * b * PowerOf(a, b - 1);
  // At (0, 0), the exponent becomes 0 in place of -1.
  const Term at_origin = is_constant * IsEqual(a, 0);
  return g * (b * (1 - at_origin)) * PowerOf(a, b - 1 + at_origin);
}
Term PowerRightGraph(const Term& g, const Term& a, const Term& b, const Term& y) {
  const Term is_zero = IsEqual(a, 0);
  if (is_zero.IsNumber(0)) return g * y * LogOf(a);
  // The logarithm is that of 1 in place of 0.
  const Term has_limit_0 = is_zero * IsGreaterEqual(b, 0);
  return g * (y * (1 - has_limit_0 * IsEqual(b, 0))) * LogOf(a + has_limit_0);
}
Term HypotGraph(const Term& g, const Term& a, const Term& y) {
  const Term at_origin = IsEqual(y, 0);
  return g * (1 - at_origin) * (a / (y + at_origin));
}

/// The formula of a gradient.
#define TESSERA_GRAPH(expression)                                                   \
  [](const Term& g, [[maybe_unused]] const Term& a, [[maybe_unused]] const Term& b, \
     [[maybe_unused]] const Term& y) -> Term { return expression; }

[[maybe_unused]] const bool kRegistered =
    RegisterBinary(TESSERA_TABLE_PLACE, MakeReduceFunction<SumReducer>(),
                   {
                       Row<kArithmetic, op::plus, kLinear, op::identity, kLinear, op::identity>(
                           {.elementwise = "elemwise_add",
                            .broadcast = "broadcast_add",
                            .scalar = "_plus_scalar",
                            .formula = "lhs + rhs",
                            .left_graph = TESSERA_GRAPH(g),
                            .right_graph = TESSERA_GRAPH(g)}),
                       Row<kArithmetic, op::minus, kLinear, op::identity, kLinear, op::negation>(
                           {.elementwise = "elemwise_sub",
                            .broadcast = "broadcast_sub",
                            .scalar = "_minus_scalar",
                            .reverse_scalar = "_rminus_scalar",
                            .formula = "lhs - rhs",
                            .left_graph = TESSERA_GRAPH(g),
                            .right_graph = TESSERA_GRAPH(-g)}),
                       // MXNet's `_scatter_*` skip elements that sparse arrays do not store.
                       Row<kArithmetic, op::plus, kLinear, op::identity, kLinear, op::identity>(
                           {.elementwise = "_grad_add",
                            .scalar = "_scatter_plus_scalar",
                            .formula = "lhs + rhs",
                            .left_graph = TESSERA_GRAPH(g),
                            .right_graph = TESSERA_GRAPH(g)}),
                       Row<kArithmetic, op::minus, kLinear, op::identity, kLinear, op::negation>(
                           {.scalar = "_scatter_minus_scalar",
                            .formula = "lhs - rhs",
                            .left_graph = TESSERA_GRAPH(g),
                            .right_graph = TESSERA_GRAPH(-g)}),
                       Row<kArithmetic, Quotient, kOther, Quotient, kBoth, DivRight>(
                           {.elementwise = "_scatter_elemwise_div",
                            .formula = "lhs / rhs",
                            .left_graph = TESSERA_GRAPH(g / b),
                            .right_graph = TESSERA_GRAPH(-(g * (y / b)))}),
                       Row<kArithmetic, First, kOther, op::mul, kZero, op::identity>(
                           {.scalar = "_contrib_gradientmultiplier",
                            .formula = "lhs, whose gradient is multiplied by rhs",
                            .left_graph = TESSERA_GRAPH(g * b)}),
                       Row<kArithmetic, op::mul, kOther, op::mul, kOther, op::mul>(
                           {.elementwise = "elemwise_mul",
                            .broadcast = "broadcast_mul",
                            .scalar = "_mul_scalar",
                            .formula = "lhs * rhs",
                            .left_graph = TESSERA_GRAPH(g * b),
                            .right_graph = TESSERA_GRAPH(g * a)}),
                       Row<kArithmetic, Quotient, kOther, Quotient, kBoth, DivRight>(
                           {.elementwise = "elemwise_div",
                            .broadcast = "broadcast_div",
                            .scalar = "_div_scalar",
                            .reverse_scalar = "_rdiv_scalar",
                            .formula = "lhs / rhs",
                            .left_graph = TESSERA_GRAPH(g / b),
                            .right_graph = TESSERA_GRAPH(-(g * (y / b)))}),
                       Row<kArithmetic, Remainder, kLinear, op::identity, kBoth, ModRight>(
                           {.elementwise = "_mod",
                            .broadcast = "broadcast_mod",
                            .scalar = "_mod_scalar",
                            .reverse_scalar = "_rmod_scalar",
                            .formula = "the remainder of lhs / rhs, with the sign of rhs",
                            .left_graph = TESSERA_GRAPH(g),
                            .right_graph = TESSERA_GRAPH(-(g * Apply("floor", {a / b})))}),
                       Row<kArithmetic, Power, kBoth, PowerLeft, kBoth, PowerRight, kReal>(
                           {.elementwise = "_power",
                            .broadcast = "broadcast_power",
                            .scalar = "_power_scalar",
                            .reverse_scalar = "_rpower_scalar",
                            .formula = "lhs to the power rhs",
                            .numbers = NumberBesideIntegers::kExact,
                            .left_graph = TESSERA_GRAPH(PowerLeftGraph(g, a, b)),
                            .right_graph = TESSERA_GRAPH(PowerRightGraph(g, a, b, y))}),
                       Row<kReal, Hypotenuse, kBoth, HypotLeft, kBoth, HypotRight>(
                           {.elementwise = "_hypot",
                            .broadcast = "broadcast_hypot",
                            .scalar = "_hypot_scalar",
                            .formula = "sqrt(lhs^2 + rhs^2)",
                            .left_graph = TESSERA_GRAPH(HypotGraph(g, a, y)),
                            .right_graph = TESSERA_GRAPH(HypotGraph(g, b, y))}),
                       Row<kArithmetic, op::maximum, kBoth, MaximumLeft, kBoth, MaximumRight>(
                           {.elementwise = "_maximum",
                            .broadcast = "broadcast_maximum",
                            .scalar = "_maximum_scalar",
                            .formula = "the larger of lhs and rhs",
                            .numbers = NumberBesideIntegers::kSaturate,
                            .left_graph = TESSERA_GRAPH(g * IsGreaterEqual(a, b)),
                            .right_graph = TESSERA_GRAPH(g * (1 - IsGreaterEqual(a, b)))}),
                       Row<kArithmetic, op::minimum, kBoth, MinimumLeft, kBoth, MinimumRight>(
                           {.elementwise = "_minimum",
                            .broadcast = "broadcast_minimum",
                            .scalar = "_minimum_scalar",
                            .formula = "the smaller of lhs and rhs",
                            .numbers = NumberBesideIntegers::kSaturate,
                            .left_graph = TESSERA_GRAPH(g * IsLesserEqual(a, b)),
                            .right_graph = TESSERA_GRAPH(g * (1 - IsLesserEqual(a, b)))}),
                   });
#undef TESSERA_GRAPH

}  // namespace
}  // namespace tessera
