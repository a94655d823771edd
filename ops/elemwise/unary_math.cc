// Elementary and special functions of one array. The gradient of each is computed from the head
// gradient g and from the input x or the output y, whichever is cheaper.
#include <cmath>

#include "tessera/ops/elemwise/map_function.h"
#include "tessera/ops/elemwise/unary.h"

namespace tessera {
namespace {

using namespace ops_internal;  // NOLINT: this file is a table of its functions

using Value = GradientBuilder::Value;

template <typename T>
using Real = op::RealOf<T>;

/// Inverse of erf. A start by S. Winitzki's formula, then Halley's steps on erfc(x) = 1 - |y|,
/// which keeps its digits where |y| is near 1.
struct ErfInverse {
  static constexpr index_t kElementCost = 100;
  template <typename T>
  TESSERA_HD static T Map(T y) {
    const double magnitude = std::abs(static_cast<double>(y));
    if (!(magnitude < 1)) {
      return static_cast<T>(magnitude == 1 ? static_cast<double>(y) * INFINITY : NAN);
    }
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
    return static_cast<T>(static_cast<double>(y) < 0 ? -x : x);
  }
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
TESSERA_GRADIENT(RcbrtGradient, g* v* v* v* v / T(-3));
TESSERA_GRADIENT(ReciprocalGradient, -g* v* v);
TESSERA_GRADIENT(SquareGradient, T(2) * g * v);
TESSERA_GRADIENT(SinGradient, g* op::cos::Map(v));
TESSERA_GRADIENT(CosGradient, -g* op::sin::Map(v));
TESSERA_GRADIENT(TanGradient, g*(one + v * v));
TESSERA_GRADIENT(ArcsinGradient, g / op::square_root::Map(static_cast<T>(one - v * v)));
TESSERA_GRADIENT(ArccosGradient, -g / op::square_root::Map(static_cast<T>(one - v * v)));
TESSERA_GRADIENT(ArctanGradient, g / (one + v * v));
TESSERA_GRADIENT(SinhGradient, g* op::cosh::Map(v));
TESSERA_GRADIENT(CoshGradient, g* op::sinh::Map(v));
TESSERA_GRADIENT(TanhGradient, g*(one - v * v));
TESSERA_GRADIENT(ArcsinhGradient, g / op::square_root::Map(static_cast<T>(v * v + one)));
TESSERA_GRADIENT(ArccoshGradient, g / op::square_root::Map(static_cast<T>(v * v - one)));
TESSERA_GRADIENT(ArctanhGradient, g / (one - v * v));
TESSERA_GRADIENT(ErfGradient, g* T(M_2_SQRTPI) * op::exp::Map(static_cast<T>(-v * v)));
TESSERA_GRADIENT(ErfInverseGradient, g* op::exp::Map(static_cast<T>(v* v)) / T(M_2_SQRTPI));
TESSERA_GRADIENT(GammaGradient, g* op::gamma::Map(v) * op::digamma::Map(v));
TESSERA_GRADIENT(LogGammaGradient, g* op::digamma::Map(v));
TESSERA_GRADIENT(SigmoidGradient, g* v*(one - v));
TESSERA_GRADIENT(SoftsignGradient, g / ((one + op::abs::Map(v)) * (one + op::abs::Map(v))));
#undef TESSERA_GRADIENT

struct Rsqrt {
  template <typename T>
  TESSERA_HD static T Map(T x) {
    return T(1) / op::square_root::Map(x);
  }
};
struct Rcbrt {
  static constexpr index_t kElementCost = 8;
  template <typename T>
  TESSERA_HD static T Map(T x) {
    return T(1) / op::cbrt::Map(x);
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

/// A row whose gradient is computed from g and the input, or the output.
template <typename Op, typename Gradient>
UnaryRow FromInput(std::string_view name, std::string_view description,
                   void (*build)(GradientBuilder*) = nullptr) {
  return {.name = name,
          .description = description,
          .value = MakeMapFunction<Op, 1>(),
          .gradient_reads = GradientReads::kInput,
          .gradient = MakeMapFunction<Gradient, 2>(),
          .build_gradient = build};
}
template <typename Op, typename Gradient>
UnaryRow FromOutput(std::string_view name, std::string_view description,
                    void (*build)(GradientBuilder*) = nullptr) {
  UnaryRow row = FromInput<Op, Gradient>(name, description, build);
  row.gradient_reads = GradientReads::kOutput;
  return row;
}
/// A row of a linear function, whose gradient is the function of g.
template <typename Op>
UnaryRow Linear(std::string_view name, std::string_view description,
                void (*build)(GradientBuilder*)) {
  return {.name = name,
          .description = description,
          .value = MakeMapFunction<Op, 1>(),
          .gradient_reads = GradientReads::kHead,
          .gradient = MakeMapFunction<Op, 1>(),
          .build_gradient = build};
}

/// Builds g * f(x), where f is a registered operator of x.
template <const char* kOp>
void TimesOfInput(GradientBuilder* b) {
  b->SetInGrad(0, b->Apply1("elemwise_mul", {b->OutGrad(0), b->Apply1(kOp, {b->Input(0)})}));
}
template <const char* kOp>
void OfHead(GradientBuilder* b) {
  b->SetInGrad(0, b->Apply1(kOp, {b->OutGrad(0)}));
}
constexpr char kCos[] = "cos", kCosh[] = "cosh", kSinh[] = "sinh", kReciprocal[] = "reciprocal",
               kDegrees[] = "degrees", kRadians[] = "radians";

void TimesOutput(GradientBuilder* b) {
  b->SetInGrad(0, b->Apply1("elemwise_mul", {b->OutGrad(0), b->Output(0)}));
}
void TimesTwiceInput(GradientBuilder* b) {
  const Value twice = b->Apply1("_mul_scalar", {b->Input(0)}, {{"scalar", "2"}});
  b->SetInGrad(0, b->Apply1("elemwise_mul", {b->OutGrad(0), twice}));
}
void OfSine(GradientBuilder* b) {
  const Value product = b->Apply1("elemwise_mul", {b->OutGrad(0), b->Apply1("sin", {b->Input(0)})});
  b->SetInGrad(0, b->Apply1("negative", {product}));
}

[[maybe_unused]] const bool kRegistered = RegisterUnary(
    TESSERA_TABLE_PLACE,
    {
        FromOutput<op::exp, Times>("exp", "e to the power of data.", &TimesOutput),
        FromOutput<op::expm1, Expm1Gradient>("expm1", "exp(data) - 1."),
        FromInput<op::log, OverInput>("log", "The natural logarithm.", &TimesOfInput<kReciprocal>),
        FromInput<op::log10, Log10Gradient>("log10", "The logarithm to base 10."),
        FromInput<op::log2, Log2Gradient>("log2", "The logarithm to base 2."),
        FromInput<op::log1p, Log1pGradient>("log1p", "log(1 + data)."),
        FromOutput<op::square_root, SqrtGradient>("sqrt", "The square root."),
        FromOutput<Rsqrt, RsqrtGradient>("rsqrt", "1 / sqrt(data)."),
        FromOutput<op::cbrt, CbrtGradient>("cbrt", "The cube root."),
        FromOutput<Rcbrt, RcbrtGradient>("rcbrt", "1 / cbrt(data)."),
        FromOutput<op::rcp, ReciprocalGradient>("reciprocal", "1 / data."),
        FromInput<op::sin, SinGradient>("sin", "The sine of data in radians.", &TimesOfInput<kCos>),
        FromInput<op::cos, CosGradient>("cos", "The cosine of data in radians.", &OfSine),
        FromOutput<op::tan, TanGradient>("tan", "The tangent of data in radians."),
        FromInput<op::asin, ArcsinGradient>("arcsin", "The inverse sine, in radians."),
        FromInput<op::acos, ArccosGradient>("arccos", "The inverse cosine, in radians."),
        FromInput<op::atan, ArctanGradient>("arctan", "The inverse tangent, in radians."),
        FromInput<op::sinh, SinhGradient>("sinh", "The hyperbolic sine.", &TimesOfInput<kCosh>),
        FromInput<op::cosh, CoshGradient>("cosh", "The hyperbolic cosine.", &TimesOfInput<kSinh>),
        FromOutput<op::tanh, TanhGradient>("tanh", "The hyperbolic tangent."),
        FromInput<op::asinh, ArcsinhGradient>("arcsinh", "The inverse hyperbolic sine."),
        FromInput<op::acosh, ArccoshGradient>("arccosh", "The inverse hyperbolic cosine."),
        FromInput<op::atanh, ArctanhGradient>("arctanh", "The inverse hyperbolic tangent."),
        Linear<Degrees>("degrees", "Radians as degrees.", &OfHead<kDegrees>),
        Linear<Radians>("radians", "Degrees as radians.", &OfHead<kRadians>),
        FromInput<op::erf, ErfGradient>("erf", "The error function."),
        FromOutput<ErfInverse, ErfInverseGradient>("erfinv", "The inverse of the error function."),
        FromInput<op::gamma, GammaGradient>("gamma", "The gamma function."),
        FromInput<op::lgamma, LogGammaGradient>("gammaln",
                                                "The logarithm of the gamma function's magnitude."),
        FromOutput<op::sigmoid, SigmoidGradient>("sigmoid", "1 / (1 + exp(-data))."),
        FromInput<op::softsign, SoftsignGradient>("softsign", "data / (1 + |data|)."),
    });

[[maybe_unused]] const bool kSquareRegistered = RegisterUnary(
    TESSERA_TABLE_PLACE, {{.name = "square",
                           .description = "data * data.",
                           .value = MakeMapFunction<op::square, 1, MapTypes::kArithmetic>(),
                           .gradient_reads = GradientReads::kInput,
                           .gradient = MakeMapFunction<SquareGradient, 2, MapTypes::kArithmetic>(),
                           .build_gradient = &TimesTwiceInput}});

}  // namespace
}  // namespace tessera
