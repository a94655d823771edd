#ifndef MSHADOW_COMPLEX_H_
#define MSHADOW_COMPLEX_H_

// Complex numbers, as in mshadow's extension/complex.h from 2016 on. Real and imaginary parts
// alternate along the last dimension, so that n numbers take 2 n elements.

#include <tuple>

#include "mshadow/base.h"
#include "mshadow/expression.h"
#include "tessera/tensor/tensor.h"

namespace mshadow {

/// Functors of ComplexF. RealMap and ImagMap compute the parts of a result from the parts of
/// operands.
namespace op::complex {

/// Tells which of two operands are complex (C) and which real (R), or the kinds of a function's
/// operand and result.
enum BinaryCalculationType { kBinaryCC, kBinaryCR, kBinaryRC };
enum UnitaryCalculationType { kUnitaryC2R, kUnitaryC2C, kUnitaryR2C };

/// Multiplies: a * b.
struct mul {
  /// Return the parts of the result.
  template <typename DType>
  MSHADOW_XINLINE static DType RealMap(DType a_real, DType a_imag, DType b_real, DType b_imag) {
    return a_real * b_real - a_imag * b_imag;
  }
  template <typename DType>
  MSHADOW_XINLINE static DType ImagMap(DType a_real, DType a_imag, DType b_real, DType b_imag) {
    return a_real * b_imag + a_imag * b_real;
  }
};
/// Divides: a / b, by the textbook's formula. Requires: |b|^2 neither overflows nor vanishes.
struct div {
  /// Return the parts of the result.
  template <typename DType>
  MSHADOW_XINLINE static DType RealMap(DType a_real, DType a_imag, DType b_real, DType b_imag) {
    return (a_real * b_real + a_imag * b_imag) / (b_real * b_real + b_imag * b_imag);
  }
  template <typename DType>
  MSHADOW_XINLINE static DType ImagMap(DType a_real, DType a_imag, DType b_real, DType b_imag) {
    return (a_imag * b_real - a_real * b_imag) / (b_real * b_real + b_imag * b_imag);
  }
};
/// Negates the imaginary part.
struct conjugate {
  /// Return the parts of the result.
  template <typename DType>
  MSHADOW_XINLINE static DType RealMap(DType real, DType) {
    return real;
  }
  template <typename DType>
  MSHADOW_XINLINE static DType ImagMap(DType, DType imag) {
    return -imag;
  }
};
/// Exchanges the parts.
struct exchange {
  /// Return the parts of the result.
  template <typename DType>
  MSHADOW_XINLINE static DType RealMap(DType, DType imag) {
    return imag;
  }
  template <typename DType>
  MSHADOW_XINLINE static DType ImagMap(DType real, DType) {
    return real;
  }
};
/// Converts a real number to a complex one.
struct pad_imag {
  /// Return the parts of the result.
  template <typename DType>
  MSHADOW_XINLINE static DType RealMap(DType real, DType) {
    return real;
  }
  template <typename DType>
  MSHADOW_XINLINE static DType ImagMap(DType, DType) {
    return DType(0);
  }
};
/// Takes the real part.
struct toreal {
  /// Returns the result.
  template <typename DType>
  MSHADOW_XINLINE static DType RealMap(DType real, DType) {
    return real;
  }
};
/// Computes the square of the absolute value.
struct abs_square {
  /// Returns the result.
  template <typename DType>
  MSHADOW_XINLINE static DType RealMap(DType real, DType imag) {
    return real * real + imag * imag;
  }
};
/// Adds both parts.
struct sum_real_imag {
  /// Returns the result.
  template <typename DType>
  MSHADOW_XINLINE static DType RealMap(DType real, DType imag) {
    return real + imag;
  }
};

}  // namespace op::complex

namespace expr {

namespace complex_internal {

/// Returns the shape of as many complex numbers as there are elements.
template <int dim>
tessera::Shape<dim> OfComplex(tessera::Shape<dim> shape) {
  shape[dim - 1] *= 2;
  return shape;
}
/// Throws Error(kInvalidArgument) if the last extent is odd.
template <int dim>
void RequirePairs(const tessera::Shape<dim>& shape) {
  if (shape[dim - 1] % 2 != 0) {
    throw tessera::InvalidArgument("complex numbers: the last extent of shape ", shape,
                                   " is odd; it must hold a real and an imaginary part in turn");
  }
}

/// The node of ComplexF of two operands. kParts is a BinaryCalculationType.
template <int kParts, typename OP, typename A, typename B>
struct BinaryExp : Exp<BinaryExp<kParts, OP, A, B>, typename A::value_type> {
  using value_type = typename A::value_type;
  using device_type = tessera::expr::CommonDevice<A, B>;
  static constexpr int kRank = A::kRank;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;
  static constexpr bool kRealA = kParts == op::complex::kBinaryRC;
  static constexpr bool kRealB = kParts == op::complex::kBinaryCR;
  static_assert(A::kRank == B::kRank, "complex numbers: the operands have different ranks");
  static_assert(tessera::expr::SameDevice<A, B>,
                "complex numbers: the operands lie on different devices");

  A a;
  B b;

  BinaryExp(const A& left, const B& right) : a(left), b(right) {
    const tessera::Shape<kRank> of_a = kRealA ? OfComplex(a.shape()) : a.shape();
    const tessera::Shape<kRank> of_b = kRealB ? OfComplex(b.shape()) : b.shape();
    RequirePairs(of_a);
    if (of_a != of_b) {
      throw tessera::InvalidArgument("complex numbers: operands of shapes ", a.shape(),
                                     kRealA ? " (real)" : "", " and ", b.shape(),
                                     kRealB ? " (real)" : "", " do not fit");
    }
  }
  tessera::Shape<kRank> shape() const { return kRealA ? b.shape() : a.shape(); }
  std::tuple<A, B> operands() const { return {a, b}; }
  template <typename NewA, typename NewB>
  auto WithOperands(const NewA& new_a, const NewB& new_b) const {
    return BinaryExp<kParts, OP, NewA, NewB>(new_a, new_b);
  }
  MSHADOW_XINLINE value_type Eval(index_t y, index_t x) const {
    const index_t number = x / 2, real = 2 * number;
    const value_type zero = value_type(0);
    const value_type a_real = a.Eval(y, kRealA ? number : real);
    const value_type a_imag = kRealA ? zero : a.Eval(y, real + 1);
    const value_type b_real = b.Eval(y, kRealB ? number : real);
    const value_type b_imag = kRealB ? zero : b.Eval(y, real + 1);
    return x == real ? OP::RealMap(a_real, a_imag, b_real, b_imag)
                     : OP::ImagMap(a_real, a_imag, b_real, b_imag);
  }
  bool IsFlat() const { return a.IsFlat() && b.IsFlat(); }
};

/// The node of ComplexF of one operand. kParts is a UnitaryCalculationType.
template <int kParts, typename OP, typename A>
struct UnaryExp : Exp<UnaryExp<kParts, OP, A>, typename A::value_type> {
  using value_type = typename A::value_type;
  using device_type = tessera::expr::DeviceOf<A>;
  static constexpr int kRank = A::kRank;
  static constexpr bool kHasPacket = false;
  static constexpr bool kMovesElements = true;

  A a;

  explicit UnaryExp(const A& operand) : a(operand) {
    if (kParts != op::complex::kUnitaryR2C) RequirePairs(a.shape());
  }
  tessera::Shape<kRank> shape() const {
    tessera::Shape<kRank> shape = a.shape();
    if (kParts == op::complex::kUnitaryR2C) return OfComplex(shape);
    if (kParts == op::complex::kUnitaryC2R) shape[kRank - 1] /= 2;
    return shape;
  }
  std::tuple<A> operands() const { return {a}; }
  template <typename NewA>
  auto WithOperands(const NewA& new_a) const {
    return UnaryExp<kParts, OP, NewA>(new_a);
  }
  MSHADOW_XINLINE value_type Eval(index_t y, index_t x) const {
    if constexpr (kParts == op::complex::kUnitaryC2R) {
      return OP::RealMap(a.Eval(y, 2 * x), a.Eval(y, 2 * x + 1));
    } else {
      constexpr bool kReal = kParts == op::complex::kUnitaryR2C;
      const index_t number = x / 2, real = 2 * number;
      const value_type a_real = a.Eval(y, kReal ? number : real);
      const value_type a_imag = kReal ? value_type(0) : a.Eval(y, real + 1);
      return x == real ? OP::RealMap(a_real, a_imag) : OP::ImagMap(a_real, a_imag);
    }
  }
  bool IsFlat() const { return a.IsFlat(); }
};

}  // namespace complex_internal

/// Returns OP applied to complex numbers in expressions, such as `ComplexF<op::complex::kBinaryCC,
/// op::complex::mul>(a, b)`. calctype tells which operands are complex; see op::complex. A
/// program's own OP takes the parts; mshadow passed the Plan of a single operand instead. Throws
/// Error(kInvalidArgument) if the shapes do not fit or an extent is odd.
template <int calctype, typename OP, typename TA, typename TB, typename DType, int ta, int tb>
auto ComplexF(const Exp<TA, DType, ta>& lhs, const Exp<TB, DType, tb>& rhs) {
  using A = tessera::expr::OperandNode<Exp<TA, DType, ta>>;
  using B = tessera::expr::OperandNode<Exp<TB, DType, tb>>;
  return complex_internal::BinaryExp<calctype, OP, A, B>(tessera::expr::AsNode(lhs),
                                                         tessera::expr::AsNode(rhs));
}
template <int calctype, typename OP, typename TA, typename DType, int ta>
auto ComplexF(const Exp<TA, DType, ta>& src) {
  using A = tessera::expr::OperandNode<Exp<TA, DType, ta>>;
  return complex_internal::UnaryExp<calctype, OP, A>(tessera::expr::AsNode(src));
}

/// Return products and quotients of two complex operands (cc), a complex and a real one (cr), or a
/// real and a complex one (rc). Shapes: complex operands and the result (…, 2 n), real operands (…,
/// n).
template <typename TA, typename TB, typename DType, int ta, int tb>
auto complex_mul_cc(const Exp<TA, DType, ta>& lhs, const Exp<TB, DType, tb>& rhs) {
  return ComplexF<op::complex::kBinaryCC, op::complex::mul>(lhs, rhs);
}
template <typename TA, typename TB, typename DType, int ta, int tb>
auto complex_mul_cr(const Exp<TA, DType, ta>& lhs, const Exp<TB, DType, tb>& rhs) {
  return ComplexF<op::complex::kBinaryCR, op::complex::mul>(lhs, rhs);
}
template <typename TA, typename TB, typename DType, int ta, int tb>
auto complex_mul_rc(const Exp<TA, DType, ta>& lhs, const Exp<TB, DType, tb>& rhs) {
  return ComplexF<op::complex::kBinaryRC, op::complex::mul>(lhs, rhs);
}
template <typename TA, typename TB, typename DType, int ta, int tb>
auto complex_div_cc(const Exp<TA, DType, ta>& lhs, const Exp<TB, DType, tb>& rhs) {
  return ComplexF<op::complex::kBinaryCC, op::complex::div>(lhs, rhs);
}
template <typename TA, typename TB, typename DType, int ta, int tb>
auto complex_div_cr(const Exp<TA, DType, ta>& lhs, const Exp<TB, DType, tb>& rhs) {
  return ComplexF<op::complex::kBinaryCR, op::complex::div>(lhs, rhs);
}
template <typename TA, typename TB, typename DType, int ta, int tb>
auto complex_div_rc(const Exp<TA, DType, ta>& lhs, const Exp<TB, DType, tb>& rhs) {
  return ComplexF<op::complex::kBinaryRC, op::complex::div>(lhs, rhs);
}

/// Return complex numbers of the operand's shape (…, 2 n): the conjugates, or the numbers with
/// exchanged parts.
template <typename TA, typename DType, int ta>
auto conj(const Exp<TA, DType, ta>& src) {
  return ComplexF<op::complex::kUnitaryC2C, op::complex::conjugate>(src);
}
template <typename TA, typename DType, int ta>
auto complex_exchange(const Exp<TA, DType, ta>& src) {
  return ComplexF<op::complex::kUnitaryC2C, op::complex::exchange>(src);
}
/// Returns real numbers (…, n) as complex numbers (…, 2 n).
template <typename TA, typename DType, int ta>
auto complex_pad_imag(const Exp<TA, DType, ta>& src) {
  return ComplexF<op::complex::kUnitaryR2C, op::complex::pad_imag>(src);
}
/// Return real numbers (…, n) for complex ones (…, 2 n): the real parts, the squares of the
/// absolute values, or the sums of both parts.
template <typename TA, typename DType, int ta>
auto complex_toreal(const Exp<TA, DType, ta>& src) {
  return ComplexF<op::complex::kUnitaryC2R, op::complex::toreal>(src);
}
template <typename TA, typename DType, int ta>
auto complex_abs_square(const Exp<TA, DType, ta>& src) {
  return ComplexF<op::complex::kUnitaryC2R, op::complex::abs_square>(src);
}
template <typename TA, typename DType, int ta>
auto complex_sum_real_imag(const Exp<TA, DType, ta>& src) {
  return ComplexF<op::complex::kUnitaryC2R, op::complex::sum_real_imag>(src);
}

}  // namespace expr
}  // namespace mshadow

#endif  // MSHADOW_COMPLEX_H_
