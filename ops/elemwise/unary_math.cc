// Elementary and special functions of one array. The gradient of each is computed from the head
// gradient g and from the input x or the output y, whichever is cheaper.
#include <cmath>
#include <concepts>
#include <cstddef>
#include <type_traits>

#include "tessera/ops/elemwise/unary.h"
#include "tessera/ops/loops/map_function.h"
#include "tessera/tensor/functors.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: this file is a table of its functions

template <typename T>
using Real = op::RealOf<T>;

/// Inverse of erf for float, within 4 ulp: y times a polynomial in w = -log(1 - y^2) up to w = 5,
/// and in sqrt(w) beyond, after M. Giles, Approximating the erfinv function (2012). The polynomials
/// interpolate at Chebyshev nodes, within 8e-9; the second one up to the largest float below 1.
struct ErfInverseOfFloat : ThroughKernels<ErfInverseOfFloat, 1, op::log> {
  TESSERA_HD static float Argument(float y) { return (1 - y) * (1 + y); }
  TESSERA_HD static float Result(float log, float y) {
    constexpr float kCentral[] = {
        1.50140936f,      0.2466402791f,    -0.004177392875f, -0.001252726392f, 2.183493862e-4f,
        -4.972419689e-6f, -3.463985268e-6f, 4.681313481e-7f,  2.33359672e-8f,   -8.93192597e-9f};
    constexpr float kTail[] = {
        2.832976796f,     1.001675035f,    0.009445645088f,  -0.007638592142f, 0.005683604928f,
        -0.003590552126f, 0.001494601902f, -7.077364811e-5f, -3.176867067e-4f, 1.257069437e-4f};
    // Both are computed, so that loops have no branches.
    const float central = Polynomial(-log - 2.5f, kCentral);
    const float tail = Polynomial(op::square_root::Map(-log) - 3, kTail);
    return op::abs::Map(y) == 1 ? y * INFINITY : y * (-log < 5 ? central : tail);
  }

 private:
  template <size_t kCount>
  TESSERA_HD static float Polynomial(float x, const float (&c)[kCount]) {
    float sum = c[kCount - 1];
    for (size_t i = kCount - 1; i > 0; --i) sum = sum * x + c[i - 1];
    return sum;
  }
};

/// Inverse of erf. That of a double has a start by S. Winitzki's formula, then Halley's steps on
/// erfc(x) = 1 - |y|, which keeps its digits where |y| is near 1.
struct ErfInverse {
  template <typename T>
  static constexpr index_t ElementCost() {
    return std::is_same_v<T, float> ? ErfInverseOfFloat::ElementCost<T>() : 100;
  }
  TESSERA_HD static float Map(float y) { return ErfInverseOfFloat::Map(y); }
  TESSERA_HD static double Map(double y) {
    const double magnitude = std::abs(y);
    if (!(magnitude < 1)) return magnitude == 1 ? y * INFINITY : NAN;
    if (magnitude == 0) return y;
    constexpr double kA = 0.147;
    const double log = std::log1p(-magnitude * magnitude);
    const double half = 2 / (M_PI * kA) + log / 2;
    double x = std::sqrt(std::sqrt(half * half - log / kA) - half);
    for (int i = 0; i < 3; ++i) {
      const double error =
          magnitude < 0.5 ? magnitude - std::erf(x) : std::erfc(x) - (1 - magnitude);
      const double slope = M_2_SQRTPI * std::exp(-x * x);
      x += error / (slope - x * error);
    }
    return y < 0 ? -x : x;
  }
#if !defined(TESSERA_XPU_GPU)
  template <std::same_as<float> T>
  static void Row(const T* const* in, T* out, index_t n) {
    MapRow<ErfInverseOfFloat, 1>(in, out, n);
  }
#endif
};

/// g times the derivative.
struct Times {
  template <typename T>
  TESSERA_HD static T Map(T g, T factor) {
    return g * factor;
  }
};
/// Declares a functor of g and v that gives `expression`, in which `one` is 1 of their type.
#define TESSERA_GRADIENT(name, expression) \
  struct name {                            \
    template <typename T>                  \
    TESSERA_HD static T Map(T g, T v) {    \
      [[maybe_unused]] const T one(1);     \
      return static_cast<T>(expression);   \
    }                                      \
  }
TESSERA_GRADIENT(OverInput, g / v);
TESSERA_GRADIENT(Expm1Gradient, g*(v + one));
TESSERA_GRADIENT(Log10Gradient, g / (v * T(M_LN10)));
TESSERA_GRADIENT(Log2Gradient, g / (v * T(M_LN2)));
TESSERA_GRADIENT(Log1pGradient, g / (one + v));
TESSERA_GRADIENT(SqrtGradient, g* T(0.5) / v);
TESSERA_GRADIENT(RsqrtGradient, g* T(-0.5) * v * v * v);
TESSERA_GRADIENT(CbrtGradient, g / (T(3) * v * v));
// Divided first, so that only a result beyond the range overflows.
TESSERA_GRADIENT(RcbrtGradient, g / T(-3) * v * v * v * v);
TESSERA_GRADIENT(ReciprocalGradient, -g* v* v);
TESSERA_GRADIENT(SquareGradient, T(2) * g * v);
TESSERA_GRADIENT(TanGradient, g*(one + v * v));
TESSERA_GRADIENT(ArcsinGradient, g / op::square_root::Map(static_cast<T>(one - v * v)));
TESSERA_GRADIENT(ArccosGradient, -g / op::square_root::Map(static_cast<T>(one - v * v)));
TESSERA_GRADIENT(ArctanGradient, g / (one + v * v));
TESSERA_GRADIENT(TanhGradient, g*(one - v * v));
TESSERA_GRADIENT(ArccoshGradient, g / (op::square_root::Map(static_cast<T>(v - one)) *
                                       op::square_root::Map(static_cast<T>(v + one))));
TESSERA_GRADIENT(ArctanhGradient, g / (one - v * v));
TESSERA_GRADIENT(SigmoidGradient, g* v*(one - v));
TESSERA_GRADIENT(SoftsignGradient, g / ((one + op::abs::Map(v)) * (one + op::abs::Map(v))));
#undef TESSERA_GRADIENT
/// Declares a functor of g and v that gives `expression`, in which f is the functor Costly of
/// `argument`.
#define TESSERA_GRADIENT_THROUGH(name, Costly, argument, expression) \
  struct name : ThroughKernels<name, 2, Costly> {                    \
    template <typename T>                                            \
    TESSERA_HD static T Argument(T, T v) {                           \
      return static_cast<T>(argument);                               \
    }                                                                \
    template <typename T>                                            \
    TESSERA_HD static T Result(T f, T g, T) {                        \
      return static_cast<T>(expression);                             \
    }                                                                \
  }
TESSERA_GRADIENT_THROUGH(SinGradient, op::cos, v, g* f);
TESSERA_GRADIENT_THROUGH(CosGradient, op::sin, v, -g* f);
TESSERA_GRADIENT_THROUGH(SinhGradient, op::cosh, v, g* f);
TESSERA_GRADIENT_THROUGH(CoshGradient, op::sinh, v, g* f);
TESSERA_GRADIENT_THROUGH(ErfGradient, op::exp, -v* v, g* T(M_2_SQRTPI) * f);
TESSERA_GRADIENT_THROUGH(ErfInverseGradient, op::exp, v* v, g* f / T(M_2_SQRTPI));
TESSERA_GRADIENT_THROUGH(LogGammaGradient, op::digamma, v, g* f);
#undef TESSERA_GRADIENT_THROUGH
struct GammaGradient : ThroughKernels<GammaGradient, 2, op::gamma, op::digamma> {
  template <typename T>
  TESSERA_HD static T Argument(T, T v) {
    return v;
  }
  template <typename T>
  TESSERA_HD static T Result(T gamma, T digamma, T g, T) {
    return g * gamma * digamma;
  }
};
struct ArcsinhGradient {
  template <typename T>
  TESSERA_HD static T Map(T g, T v) {
    // From here on v^2 + 1 rounds to v^2, which may overflow.
    const T magnitude = op::abs::Map(v);
    return g /
           (magnitude > T(1e9) ? magnitude : op::square_root::Map(static_cast<T>(v * v + T(1))));
  }
};

struct Rsqrt {
  template <typename T>
  TESSERA_HD static T Map(T x) {
    return T(1) / op::square_root::Map(x);
  }
};
struct Rcbrt : ThroughKernels<Rcbrt, 1, op::cbrt> {
  template <typename T>
  TESSERA_HD static T Argument(T x) {
    return x;
  }
  template <typename T>
  TESSERA_HD static T Result(T root, T) {
    return T(1) / root;
  }
};
struct Degrees {
  template <typename T>
  TESSERA_HD static T Map(T x) {
    return x * T(180 / M_PI);
  }
};
struct Radians {
  template <typename T>
  TESSERA_HD static T Map(T x) {
    return x * T(M_PI / 180);
  }
};

/// A row whose gradient is computed from g and the input, or the output. `graph` is the same
/// gradient as a formula.
template <typename Op, typename Gradient>
UnaryRow FromInput(std::string_view name, std::string_view description,
                   UnaryGraph graph = nullptr) {
  return {.name = name,
          .description = description,
          .value = MakeMapFunction<Op, 1>(),
          .gradient_reads = GradientReads::kInput,
          .gradient = MakeMapFunction<Gradient, 2>(),
          .graph = graph};
}
template <typename Op, typename Gradient>
UnaryRow FromOutput(std::string_view name, std::string_view description,
                    UnaryGraph graph = nullptr) {
  UnaryRow row = FromInput<Op, Gradient>(name, description, graph);
  row.gradient_reads = GradientReads::kOutput;
  return row;
}
/// A row of a linear function, whose gradient is the function of g.
template <typename Op>
UnaryRow Linear(std::string_view name, std::string_view description, UnaryGraph graph) {
  return {.name = name,
          .description = description,
          .value = MakeMapFunction<Op, 1>(),
          .gradient_reads = GradientReads::kHead,
          .gradient = MakeMapFunction<Op, 1>(),
          .graph = graph};
}

/// Returns sqrt(x^2 + 1), whose squares do not overflow.
Term LengthWithOne(const Term& x) { return Apply("_hypot_scalar", {x}, {{"scalar", "1"}}); }

/// The formula of a gradient.
#define TESSERA_GRAPH(expression)                                                             \
  [](const Term& g, [[maybe_unused]] const Term& x, [[maybe_unused]] const Term& y) -> Term { \
    return expression;                                                                        \
  }

[[maybe_unused]] const bool kRegistered = RegisterUnary(
    TESSERA_TABLE_PLACE,
    {
        FromOutput<op::exp, Times>("exp", "e to the power of data.", TESSERA_GRAPH(g* y)),
        FromOutput<op::expm1, Expm1Gradient>("expm1", "exp(data) - 1.", TESSERA_GRAPH(g*(y + 1))),
        FromInput<op::log, OverInput>("log", "The natural logarithm.", TESSERA_GRAPH(g / x)),
        FromInput<op::log10, Log10Gradient>("log10", "The logarithm to base 10.",
                                            TESSERA_GRAPH(g / (x * M_LN10))),
        FromInput<op::log2, Log2Gradient>("log2", "The logarithm to base 2.",
                                          TESSERA_GRAPH(g / (x * M_LN2))),
        FromInput<op::log1p, Log1pGradient>("log1p", "log(1 + data).", TESSERA_GRAPH(g / (x + 1))),
        FromOutput<op::square_root, SqrtGradient>("sqrt", "The square root.",
                                                  TESSERA_GRAPH(g * 0.5 / y)),
        FromOutput<Rsqrt, RsqrtGradient>("rsqrt", "1 / sqrt(data).",
                                         TESSERA_GRAPH(g * -0.5 * (y * y * y))),
        FromOutput<op::cbrt, CbrtGradient>("cbrt", "The cube root.",
                                           TESSERA_GRAPH(g / (y * y * 3))),
        FromOutput<Rcbrt, RcbrtGradient>("rcbrt", "1 / cbrt(data).",
                                         TESSERA_GRAPH(g / -3 * (y * y) * (y * y))),
        FromOutput<op::rcp, ReciprocalGradient>("reciprocal", "1 / data.",
                                                TESSERA_GRAPH(-(g*(y* y)))),
        FromInput<op::sin, SinGradient>("sin", "The sine of data in radians.",
                                        TESSERA_GRAPH(g* Apply("cos", {x}))),
        FromInput<op::cos, CosGradient>("cos", "The cosine of data in radians.",
                                        TESSERA_GRAPH(-(g* Apply("sin", {x})))),
        FromOutput<op::tan, TanGradient>("tan", "The tangent of data in radians.",
                                         TESSERA_GRAPH(g*(y* y + 1))),
        FromInput<op::asin, ArcsinGradient>("arcsin", "The inverse sine, in radians.",
                                            TESSERA_GRAPH(g* Apply("rsqrt", {1 - x * x}))),
        FromInput<op::acos, ArccosGradient>("arccos", "The inverse cosine, in radians.",
                                            TESSERA_GRAPH(-(g* Apply("rsqrt", {1 - x * x})))),
        FromInput<op::atan, ArctanGradient>("arctan", "The inverse tangent, in radians.",
                                            TESSERA_GRAPH(g / (x * x + 1))),
        FromInput<op::sinh, SinhGradient>("sinh", "The hyperbolic sine.",
                                          TESSERA_GRAPH(g* Apply("cosh", {x}))),
        FromInput<op::cosh, CoshGradient>("cosh", "The hyperbolic cosine.",
                                          TESSERA_GRAPH(g* Apply("sinh", {x}))),
        FromOutput<op::tanh, TanhGradient>("tanh", "The hyperbolic tangent.",
                                           TESSERA_GRAPH(g*(1 - y * y))),
        FromInput<op::asinh, ArcsinhGradient>("arcsinh", "The inverse hyperbolic sine.",
                                              TESSERA_GRAPH(g / LengthWithOne(x))),
        FromInput<op::acosh, ArccoshGradient>(
            "arccosh", "The inverse hyperbolic cosine.",
            TESSERA_GRAPH(g* Apply("rsqrt", {x - 1}) * Apply("rsqrt", {x + 1}))),
        FromInput<op::atanh, ArctanhGradient>("arctanh", "The inverse hyperbolic tangent.",
                                              TESSERA_GRAPH(g / (1 - x * x))),
        Linear<Degrees>("degrees", "Radians as degrees.", TESSERA_GRAPH(Apply("degrees", {g}))),
        Linear<Radians>("radians", "Degrees as radians.", TESSERA_GRAPH(Apply("radians", {g}))),
        FromInput<op::erf, ErfGradient>("erf", "The error function.",
                                        TESSERA_GRAPH(g* M_2_SQRTPI* Apply("exp", {-(x * x)}))),
        FromOutput<ErfInverse, ErfInverseGradient>(
            "erfinv", "The inverse of the error function.",
            TESSERA_GRAPH(g / M_2_SQRTPI * Apply("exp", {y * y}))),
        FromInput<op::gamma, GammaGradient>("gamma", "The gamma function."),
        FromInput<op::lgamma, LogGammaGradient>("gammaln",
                                                "The logarithm of the gamma function's magnitude."),
        FromOutput<op::sigmoid, SigmoidGradient>("sigmoid", "1 / (1 + exp(-data)).",
                                                 TESSERA_GRAPH(g* y*(1 - y))),
        FromInput<op::softsign, SoftsignGradient>(
            "softsign", "data / (1 + |data|).",
            TESSERA_GRAPH(g* Apply("square", {1 / (Apply("abs", {x}) + 1)}))),
    });

[[maybe_unused]] const bool kSquareRegistered = RegisterUnary(
    TESSERA_TABLE_PLACE, {{.name = "square",
                           .description = "data * data.",
                           .value = MakeMapFunction<op::square, 1, MapTypes::kArithmetic>(),
                           .gradient_reads = GradientReads::kInput,
                           .gradient = MakeMapFunction<SquareGradient, 2, MapTypes::kArithmetic>(),
                           .graph = TESSERA_GRAPH(g * (x * 2))}});
#undef TESSERA_GRAPH

}  // namespace
}  // namespace tessera
