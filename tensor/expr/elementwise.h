#ifndef TESSERA_TENSOR_EXPR_ELEMENTWISE_H_
#define TESSERA_TENSOR_EXPR_ELEMENTWISE_H_

#include "tessera/tensor/expr/expression.h"
#include "tessera/tensor/functors/functors.h"

/// Element-wise functions of expressions: `y = log(1 + exp(x)) * (x > 0)`. Each function returns
/// F<Op>, where Op is a functor of functors.h. The functor's comment states the value and its
/// accuracy.
///
/// The operands have equal shapes and element types. In functions of two or three operands some may
/// be numbers; docs/tensor.md has a table of what may stand beside what. The result has the
/// operands' element type. Comparisons return that type too: 1 for true, 0 for false; & and |
/// combine them. Half and bfloat16 compute in float. Calls with an expression find these functions
/// without any `using`.
namespace tessera {
namespace expr {
inline namespace TESSERA_ISA_NAMESPACE {

/// The functor of the same name, applied to each element: NAME(a) is F<op::NAME>(a). Four functions
/// apply a functor of another name: sqrt applies op::square_root, sqr applies op::square, softplus
/// applies op::softrelu, and fabs applies op::abs.
template <Operand A>
auto sqrt(const AnyOperand<A>& a) {
  return F<op::square_root>(a.self());
}
template <Operand A>
auto cbrt(const AnyOperand<A>& a) {
  return F<op::cbrt>(a.self());
}
template <Operand A>
auto sqr(const AnyOperand<A>& a) {
  return F<op::square>(a.self());
}
template <Operand A>
auto square(const AnyOperand<A>& a) {
  return F<op::square>(a.self());
}
template <Operand A>
auto rcp(const AnyOperand<A>& a) {
  return F<op::rcp>(a.self());
}
template <Operand A>
auto floor(const AnyOperand<A>& a) {
  return F<op::floor>(a.self());
}
template <Operand A>
auto ceil(const AnyOperand<A>& a) {
  return F<op::ceil>(a.self());
}
template <Operand A>
auto round(const AnyOperand<A>& a) {
  return F<op::round>(a.self());
}
template <Operand A>
auto trunc(const AnyOperand<A>& a) {
  return F<op::trunc>(a.self());
}
template <Operand A>
auto exp(const AnyOperand<A>& a) {
  return F<op::exp>(a.self());
}
template <Operand A>
auto exp2(const AnyOperand<A>& a) {
  return F<op::exp2>(a.self());
}
template <Operand A>
auto expm1(const AnyOperand<A>& a) {
  return F<op::expm1>(a.self());
}
template <Operand A>
auto log(const AnyOperand<A>& a) {
  return F<op::log>(a.self());
}
template <Operand A>
auto log10(const AnyOperand<A>& a) {
  return F<op::log10>(a.self());
}
template <Operand A>
auto log2(const AnyOperand<A>& a) {
  return F<op::log2>(a.self());
}
template <Operand A>
auto log1p(const AnyOperand<A>& a) {
  return F<op::log1p>(a.self());
}
template <Operand A>
auto sin(const AnyOperand<A>& a) {
  return F<op::sin>(a.self());
}
template <Operand A>
auto cos(const AnyOperand<A>& a) {
  return F<op::cos>(a.self());
}
template <Operand A>
auto tan(const AnyOperand<A>& a) {
  return F<op::tan>(a.self());
}
template <Operand A>
auto asin(const AnyOperand<A>& a) {
  return F<op::asin>(a.self());
}
template <Operand A>
auto acos(const AnyOperand<A>& a) {
  return F<op::acos>(a.self());
}
template <Operand A>
auto atan(const AnyOperand<A>& a) {
  return F<op::atan>(a.self());
}
template <Operand A>
auto sinh(const AnyOperand<A>& a) {
  return F<op::sinh>(a.self());
}
template <Operand A>
auto cosh(const AnyOperand<A>& a) {
  return F<op::cosh>(a.self());
}
template <Operand A>
auto tanh(const AnyOperand<A>& a) {
  return F<op::tanh>(a.self());
}
template <Operand A>
auto asinh(const AnyOperand<A>& a) {
  return F<op::asinh>(a.self());
}
template <Operand A>
auto acosh(const AnyOperand<A>& a) {
  return F<op::acosh>(a.self());
}
template <Operand A>
auto atanh(const AnyOperand<A>& a) {
  return F<op::atanh>(a.self());
}
template <Operand A>
auto erf(const AnyOperand<A>& a) {
  return F<op::erf>(a.self());
}
template <Operand A>
auto erfc(const AnyOperand<A>& a) {
  return F<op::erfc>(a.self());
}
template <Operand A>
auto gamma(const AnyOperand<A>& a) {
  return F<op::gamma>(a.self());
}
template <Operand A>
auto lgamma(const AnyOperand<A>& a) {
  return F<op::lgamma>(a.self());
}
template <Operand A>
auto digamma(const AnyOperand<A>& a) {
  return F<op::digamma>(a.self());
}
template <Operand A>
auto sigmoid(const AnyOperand<A>& a) {
  return F<op::sigmoid>(a.self());
}
template <Operand A>
auto relu(const AnyOperand<A>& a) {
  return F<op::relu>(a.self());
}
template <Operand A>
auto softplus(const AnyOperand<A>& a) {
  return F<op::softrelu>(a.self());
}
template <Operand A>
auto gelu(const AnyOperand<A>& a) {
  return F<op::gelu>(a.self());
}
template <Operand A>
auto sign(const AnyOperand<A>& a) {
  return F<op::sign>(a.self());
}
template <Operand A>
auto abs(const AnyOperand<A>& a) {
  return F<op::abs>(a.self());
}
template <Operand A>
auto fabs(const AnyOperand<A>& a) {
  return F<op::abs>(a.self());
}

/// Defines the overloads of a function of two operands, since a template takes no function's name.
/// For two computed numbers of different types there is none: they convert to plain numbers, and
/// the function is the standard library's.
#define TESSERA_DEFINE_FUNCTION_OF_TWO(function, Op)                                       \
  template <typename A, typename B>                                                        \
  requires ElementwiseOperands<A, B>                                                       \
  auto function(const AnyOperand<A>& a, const AnyOperand<B>& b) {                          \
    return F<Op>(a.self(), b.self());                                                      \
  }                                                                                        \
  template <Operand A, NumberFor<typename A::value_type> S>                                \
  auto function(const AnyOperand<A>& a, S b) {                                             \
    return F<Op>(a.self(), b);                                                             \
  }                                                                                        \
  template <Scalar S, Operand B>                                                           \
  requires NumberFor<S, typename B::value_type>                                            \
  auto function(S a, const AnyOperand<B>& b) { return F<Op>(a, b.self()); }                \
  template <typename A, typename B>                                                        \
  requires(MismatchedExpressions<A, B> && (A::kRank > 0 || B::kRank > 0)) MismatchOf<A, B> \
  function(const AnyOperand<A>& a, const AnyOperand<B>& b)                                 \
  = delete;                                                                                \
  template <Operand A, LosesFraction<typename A::value_type> S>                            \
  MismatchOf<A, S> function(const AnyOperand<A>& a, S b) = delete;                         \
  template <Scalar S, Operand B>                                                           \
  requires LosesFraction<S, typename B::value_type> MismatchOf<S, B> function(             \
      S a, const AnyOperand<B>& b)                                                         \
  = delete

/// max returns the larger of two elements, or NaN if either is NaN.
TESSERA_DEFINE_FUNCTION_OF_TWO(max, op::maximum);
/// min returns the smaller of two elements, or NaN if either is NaN.
TESSERA_DEFINE_FUNCTION_OF_TWO(min, op::minimum);
/// pow returns a to the power b, element by element.
TESSERA_DEFINE_FUNCTION_OF_TWO(pow, op::power);
/// mod returns a modulo b, with the sign of b: mod(-1, 3) is 2. Integers modulo 0 are 0.
TESSERA_DEFINE_FUNCTION_OF_TWO(mod, op::mod);
/// hypot returns sqrt(a * a + b * b) without overflow on the way.
TESSERA_DEFINE_FUNCTION_OF_TWO(hypot, op::hypot);
/// atan2 returns the angle of the point (b, a) in [-pi, pi].
TESSERA_DEFINE_FUNCTION_OF_TWO(atan2, op::atan2);

#undef TESSERA_DEFINE_FUNCTION_OF_TWO

/// True if A, B and C may be the operands of a function of three. A is an expression. Each of B and
/// C is a number or an expression. B and C must match A and each other.
template <typename A, typename B, typename C>
concept ElementwiseTriple =
    ElementwiseOperands<A, B> && ElementwiseOperands<A, C> && !MismatchedExpressions<B, C>;

/// Limits each element of a to the range from low to high. Each bound is an expression or a number,
/// and a may be a number beside an expression.
template <Operand A, typename B, typename C>
requires ElementwiseTriple<A, B, C>
auto clamp(const AnyOperand<A>& a, const B& low, const C& high) {
  return F<op::clamp>(a.self(), low, high);
}
template <Scalar S, Operand B, typename C>
requires ElementwiseTriple<B, S, C>
auto clamp(S a, const AnyOperand<B>& low, const C& high) {
  return F<op::clamp>(NumberBeside<op::clamp, B>(a), low.self(), high);
}
template <Scalar S, Scalar Low, Operand C>
requires ElementwiseTriple<C, S, Low>
auto clamp(S a, Low low, const AnyOperand<C>& high) {
  return F<op::clamp>(NumberBeside<op::clamp, C>(a), low, high.self());
}

/// Selects a if condition is not 0, else b, element by element. Each of a and b is an expression or
/// a number. Both are computed for every element.
template <Operand A, typename B, typename C>
requires ElementwiseTriple<A, B, C>
auto blend(const AnyOperand<A>& condition, const B& a, const C& b) {
  return F<op::blend>(condition.self(), a, b);
}

/// Compares element by element: 1 if the comparison holds, else 0. Only != holds if an operand is
/// NaN.
template <typename A, typename B>
requires ElementwiseOperands<A, B>
auto operator==(const A& a, const B& b) { return F<op::eq>(a, b); }
template <typename A, typename B>
requires ElementwiseOperands<A, B>
auto operator!=(const A& a, const B& b) { return F<op::ne>(a, b); }
template <typename A, typename B>
requires ElementwiseOperands<A, B>
auto operator<(const A& a, const B& b) { return F<op::lt>(a, b); }
template <typename A, typename B>
requires ElementwiseOperands<A, B>
auto operator>(const A& a, const B& b) { return F<op::gt>(a, b); }
template <typename A, typename B>
requires ElementwiseOperands<A, B>
auto operator<=(const A& a, const B& b) { return F<op::le>(a, b); }
template <typename A, typename B>
requires ElementwiseOperands<A, B>
auto operator>=(const A& a, const B& b) { return F<op::ge>(a, b); }

// The overloads for operands that do not match are deleted. A compiler then prints one message that
// names the reason.
template <typename A, typename B>
requires MismatchedExpressions<A, B> MismatchOf<A, B>
operator==(const A& a, const B& b) = delete;
template <typename A, typename B>
requires MismatchedExpressions<A, B> MismatchOf<A, B>
operator!=(const A& a, const B& b) = delete;
template <typename A, typename B>
requires MismatchedExpressions<A, B> MismatchOf<A, B>
operator<(const A& a, const B& b) = delete;
template <typename A, typename B>
requires MismatchedExpressions<A, B> MismatchOf<A, B>
operator>(const A& a, const B& b) = delete;
template <typename A, typename B>
requires MismatchedExpressions<A, B> MismatchOf<A, B>
operator<=(const A& a, const B& b) = delete;
template <typename A, typename B>
requires MismatchedExpressions<A, B> MismatchOf<A, B>
operator>=(const A& a, const B& b) = delete;
template <Operand A, typename B, typename C>
requires MismatchedTriple<A, B, C> MismatchOfThree<A, B, C> clamp(const AnyOperand<A>& a,
                                                                  const B& low, const C& high)
= delete;
template <Scalar S, Operand B, typename C>
requires MismatchedTriple<B, S, C> MismatchOfThree<B, S, C> clamp(S a, const AnyOperand<B>& low,
                                                                  const C& high)
= delete;
template <Scalar S, Scalar Low, Operand C>
requires MismatchedTriple<C, S, Low> MismatchOfThree<C, S, Low> clamp(S a, Low low,
                                                                      const AnyOperand<C>& high)
= delete;
template <Operand A, typename B, typename C>
requires MismatchedTriple<A, B, C> MismatchOfThree<A, B, C> blend(const AnyOperand<A>& condition,
                                                                  const B& a, const C& b)
= delete;

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace expr

using expr::abs;
using expr::acos;
using expr::acosh;
using expr::asin;
using expr::asinh;
using expr::atan;
using expr::atan2;
using expr::atanh;
using expr::blend;
using expr::cbrt;
using expr::ceil;
using expr::clamp;
using expr::cos;
using expr::cosh;
using expr::digamma;
using expr::erf;
using expr::erfc;
using expr::exp;
using expr::exp2;
using expr::expm1;
using expr::fabs;
using expr::floor;
using expr::gamma;
using expr::gelu;
using expr::hypot;
using expr::lgamma;
using expr::log;
using expr::log10;
using expr::log1p;
using expr::log2;
using expr::max;
using expr::min;
using expr::mod;
using expr::pow;
using expr::rcp;
using expr::relu;
using expr::round;
using expr::sigmoid;
using expr::sign;
using expr::sin;
using expr::sinh;
using expr::softplus;
using expr::sqr;
using expr::sqrt;
using expr::square;
using expr::tan;
using expr::tanh;
using expr::trunc;

}  // namespace tessera

#endif  // TESSERA_TENSOR_EXPR_ELEMENTWISE_H_
