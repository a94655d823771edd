#include "tessera/ndarray/imperative.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/parameter.h"

namespace tessera {
namespace {

using NumberText = ops_internal::ParameterText<Number>;

/// The operators of a function of two arrays: for equal shapes, for others, and with a number in
/// the place of the second array or the first.
struct BinaryOperators {
  const char* same_shape;
  const char* broadcast;
  const char* scalar;
  const char* reverse_scalar = nullptr;  // of comparisons none
};

constexpr BinaryOperators kAdd = {"elemwise_add", "broadcast_add", "_plus_scalar", "_plus_scalar"};
constexpr BinaryOperators kSubtract = {"elemwise_sub", "broadcast_sub", "_minus_scalar",
                                       "_rminus_scalar"};
constexpr BinaryOperators kMultiply = {"elemwise_mul", "broadcast_mul", "_mul_scalar",
                                       "_mul_scalar"};
constexpr BinaryOperators kDivide = {"elemwise_div", "broadcast_div", "_div_scalar",
                                     "_rdiv_scalar"};
constexpr BinaryOperators kEqual = {"broadcast_equal", "broadcast_equal", "_equal_scalar"};
constexpr BinaryOperators kNotEqual = {"broadcast_not_equal", "broadcast_not_equal",
                                       "_not_equal_scalar"};
constexpr BinaryOperators kLess = {"broadcast_lesser", "broadcast_lesser", "_lesser_scalar"};
constexpr BinaryOperators kLessEqual = {"broadcast_lesser_equal", "broadcast_lesser_equal",
                                        "_lesser_equal_scalar"};
constexpr BinaryOperators kGreater = {"broadcast_greater", "broadcast_greater", "_greater_scalar"};
constexpr BinaryOperators kGreaterEqual = {"broadcast_greater_equal", "broadcast_greater_equal",
                                           "_greater_equal_scalar"};

const char* Choose(const BinaryOperators& op, const NDArray& a, const NDArray& b) {
  return a.shape() == b.shape() ? op.same_shape : op.broadcast;
}

NDArray Binary(const BinaryOperators& op, const NDArray& a, const NDArray& b) {
  const NDArray inputs[] = {a, b};
  return Invoke(Choose(op, a, b), inputs)[0];
}

NDArray Scalar(const char* op, const NDArray& a, const Number& b) {
  return Invoke(op, {&a, 1}, {{"scalar", NumberText::Print(b)}})[0];
}

NDArray& BinaryInPlace(const BinaryOperators& op, NDArray& a, const NDArray& b) {
  const NDArray inputs[] = {a, b};
  Invoke(Choose(op, a, b), inputs, {&a, 1});
  return a;
}

NDArray& ScalarInPlace(const char* op, NDArray& a, const Number& b) {
  const NDArray input = a;
  Invoke(op, {&input, 1}, {&a, 1}, {{"scalar", NumberText::Print(b)}});
  return a;
}

}  // namespace

NDArray& NDArray::operator+=(const NDArray& other) { return BinaryInPlace(kAdd, *this, other); }
NDArray& NDArray::operator-=(const NDArray& other) {
  return BinaryInPlace(kSubtract, *this, other);
}
NDArray& NDArray::operator*=(const NDArray& other) {
  return BinaryInPlace(kMultiply, *this, other);
}
NDArray& NDArray::operator/=(const NDArray& other) { return BinaryInPlace(kDivide, *this, other); }
NDArray& NDArray::operator+=(const Number& value) {
  return ScalarInPlace(kAdd.scalar, *this, value);
}
NDArray& NDArray::operator-=(const Number& value) {
  return ScalarInPlace(kSubtract.scalar, *this, value);
}
NDArray& NDArray::operator*=(const Number& value) {
  return ScalarInPlace(kMultiply.scalar, *this, value);
}
NDArray& NDArray::operator/=(const Number& value) {
  return ScalarInPlace(kDivide.scalar, *this, value);
}

NDArray operator+(const NDArray& a, const NDArray& b) { return Binary(kAdd, a, b); }
NDArray operator+(const NDArray& a, const Number& b) { return Scalar(kAdd.scalar, a, b); }
NDArray operator+(const Number& a, const NDArray& b) { return Scalar(kAdd.reverse_scalar, b, a); }
NDArray operator-(const NDArray& a, const NDArray& b) { return Binary(kSubtract, a, b); }
NDArray operator-(const NDArray& a, const Number& b) { return Scalar(kSubtract.scalar, a, b); }
NDArray operator-(const Number& a, const NDArray& b) {
  return Scalar(kSubtract.reverse_scalar, b, a);
}
NDArray operator*(const NDArray& a, const NDArray& b) { return Binary(kMultiply, a, b); }
NDArray operator*(const NDArray& a, const Number& b) { return Scalar(kMultiply.scalar, a, b); }
NDArray operator*(const Number& a, const NDArray& b) {
  return Scalar(kMultiply.reverse_scalar, b, a);
}
NDArray operator/(const NDArray& a, const NDArray& b) { return Binary(kDivide, a, b); }
NDArray operator/(const NDArray& a, const Number& b) { return Scalar(kDivide.scalar, a, b); }
NDArray operator/(const Number& a, const NDArray& b) {
  return Scalar(kDivide.reverse_scalar, b, a);
}
NDArray operator==(const NDArray& a, const NDArray& b) { return Binary(kEqual, a, b); }
NDArray operator==(const NDArray& a, const Number& b) { return Scalar(kEqual.scalar, a, b); }
NDArray operator!=(const NDArray& a, const NDArray& b) { return Binary(kNotEqual, a, b); }
NDArray operator!=(const NDArray& a, const Number& b) { return Scalar(kNotEqual.scalar, a, b); }
NDArray operator<(const NDArray& a, const NDArray& b) { return Binary(kLess, a, b); }
NDArray operator<(const NDArray& a, const Number& b) { return Scalar(kLess.scalar, a, b); }
NDArray operator<=(const NDArray& a, const NDArray& b) { return Binary(kLessEqual, a, b); }
NDArray operator<=(const NDArray& a, const Number& b) { return Scalar(kLessEqual.scalar, a, b); }
NDArray operator>(const NDArray& a, const NDArray& b) { return Binary(kGreater, a, b); }
NDArray operator>(const NDArray& a, const Number& b) { return Scalar(kGreater.scalar, a, b); }
NDArray operator>=(const NDArray& a, const NDArray& b) { return Binary(kGreaterEqual, a, b); }
NDArray operator>=(const NDArray& a, const Number& b) { return Scalar(kGreaterEqual.scalar, a, b); }
NDArray operator-(const NDArray& a) { return Invoke("negative", {&a, 1})[0]; }

}  // namespace tessera
