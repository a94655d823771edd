// Operators of C++ on symbols. Automatic names are those of MXNet's Python: "_plus0",
// "_plusscalar0".
#include "tessera/symbol/apply.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

Symbol Binary(const char* op, const char* hint, const Symbol& a, const Symbol& b) {
  return symbol_internal::Apply(op, hint, {a, b}, {}, "");
}

Symbol Scalar(const char* op, const char* hint, const Symbol& a, const Number& b) {
  return symbol_internal::Apply(op, hint, {a},
                                {{"scalar", ops_internal::ParameterText<Number>::Print(b)}}, "");
}

}  // namespace

Symbol operator+(const Symbol& a, const Symbol& b) { return Binary("elemwise_add", "_plus", a, b); }
Symbol operator-(const Symbol& a, const Symbol& b) {
  return Binary("elemwise_sub", "_minus", a, b);
}
Symbol operator*(const Symbol& a, const Symbol& b) { return Binary("elemwise_mul", "_mul", a, b); }
Symbol operator/(const Symbol& a, const Symbol& b) { return Binary("elemwise_div", "_div", a, b); }
Symbol operator%(const Symbol& a, const Symbol& b) { return Binary("_mod", "_mod", a, b); }
Symbol operator==(const Symbol& a, const Symbol& b) { return Binary("_equal", "_equal", a, b); }
Symbol operator!=(const Symbol& a, const Symbol& b) {
  return Binary("_not_equal", "_not_equal", a, b);
}
Symbol operator<(const Symbol& a, const Symbol& b) { return Binary("_lesser", "_lesser", a, b); }
Symbol operator<=(const Symbol& a, const Symbol& b) {
  return Binary("_lesser_equal", "_lesser_equal", a, b);
}
Symbol operator>(const Symbol& a, const Symbol& b) { return Binary("_greater", "_greater", a, b); }
Symbol operator>=(const Symbol& a, const Symbol& b) {
  return Binary("_greater_equal", "_greater_equal", a, b);
}
Symbol Power(const Symbol& a, const Symbol& b) { return Binary("_power", "_power", a, b); }
Symbol Maximum(const Symbol& a, const Symbol& b) { return Binary("_maximum", "_maximum", a, b); }
Symbol Minimum(const Symbol& a, const Symbol& b) { return Binary("_minimum", "_minimum", a, b); }

Symbol operator-(const Symbol& a) { return a * -1.0; }
Symbol operator+(const Symbol& a, const Number& b) {
  return Scalar("_plus_scalar", "_plusscalar", a, b);
}
Symbol operator-(const Symbol& a, const Number& b) {
  return Scalar("_minus_scalar", "_minusscalar", a, b);
}
Symbol operator*(const Symbol& a, const Number& b) {
  return Scalar("_mul_scalar", "_mulscalar", a, b);
}
Symbol operator/(const Symbol& a, const Number& b) {
  return Scalar("_div_scalar", "_divscalar", a, b);
}
Symbol operator%(const Symbol& a, const Number& b) {
  return Scalar("_mod_scalar", "_modscalar", a, b);
}
Symbol operator==(const Symbol& a, const Number& b) {
  return Scalar("_equal_scalar", "_equal_scalar", a, b);
}
Symbol operator!=(const Symbol& a, const Number& b) {
  return Scalar("_not_equal_scalar", "_not_equal_scalar", a, b);
}
Symbol operator<(const Symbol& a, const Number& b) {
  return Scalar("_lesser_scalar", "_lesser_scalar", a, b);
}
Symbol operator<=(const Symbol& a, const Number& b) {
  return Scalar("_lesser_equal_scalar", "_lesser_equal_scalar", a, b);
}
Symbol operator>(const Symbol& a, const Number& b) {
  return Scalar("_greater_scalar", "_greater_scalar", a, b);
}
Symbol operator>=(const Symbol& a, const Number& b) {
  return Scalar("_greater_equal_scalar", "_greater_equal_scalar", a, b);
}
Symbol Power(const Symbol& a, const Number& b) {
  return Scalar("_power_scalar", "_powerscalar", a, b);
}
Symbol Maximum(const Symbol& a, const Number& b) {
  return Scalar("_maximum_scalar", "_maximumscalar", a, b);
}
Symbol Minimum(const Symbol& a, const Number& b) {
  return Scalar("_minimum_scalar", "_minimumscalar", a, b);
}

Symbol operator+(const Number& a, const Symbol& b) { return b + a; }
Symbol operator-(const Number& a, const Symbol& b) {
  return Scalar("_rminus_scalar", "_rminusscalar", b, a);
}
Symbol operator*(const Number& a, const Symbol& b) { return b * a; }
Symbol operator/(const Number& a, const Symbol& b) {
  return Scalar("_rdiv_scalar", "_rdivscalar", b, a);
}
Symbol operator%(const Number& a, const Symbol& b) {
  return Scalar("_rmod_scalar", "_rmodscalar", b, a);
}
Symbol operator==(const Number& a, const Symbol& b) { return b == a; }
Symbol operator!=(const Number& a, const Symbol& b) { return b != a; }
Symbol operator<(const Number& a, const Symbol& b) { return b > a; }
Symbol operator<=(const Number& a, const Symbol& b) { return b >= a; }
Symbol operator>(const Number& a, const Symbol& b) { return b < a; }
Symbol operator>=(const Number& a, const Symbol& b) { return b <= a; }
Symbol Power(const Number& a, const Symbol& b) {
  return Scalar("_rpower_scalar", "_rpower_scalar", b, a);
}
Symbol Maximum(const Number& a, const Symbol& b) { return Maximum(b, a); }
Symbol Minimum(const Number& a, const Symbol& b) { return Minimum(b, a); }

}  // namespace tessera
