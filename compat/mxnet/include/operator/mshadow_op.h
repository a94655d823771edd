#ifndef MXNET_OPERATOR_MSHADOW_OP_H_
#define MXNET_OPERATOR_MSHADOW_OP_H_

// MXNet's functions of elements for expressions: F<mshadow_op::tanh>(x). Most functions are
// Tessera's, which loops compute in packets. The derivatives follow MXNet in what they take: the
// function's input or, where a comment says so, its output.

#include <cmath>

#include "mshadow/base.h"
#include "mxnet/base.h"
#include "tessera/tensor/tensor.h"

namespace mxnet::op::mshadow_op {

using tessera::op::abs;
using tessera::op::ceil;
using tessera::op::cos;
using tessera::op::cosh;
using tessera::op::div;
using tessera::op::eq;
using tessera::op::erf;
using tessera::op::exp;
using tessera::op::expm1;
using tessera::op::floor;
using tessera::op::ge;
using tessera::op::gt;
using tessera::op::hypot;
using tessera::op::identity;
using tessera::op::le;
using tessera::op::log;
using tessera::op::log10;
using tessera::op::log1p;
using tessera::op::log2;
using tessera::op::lt;
using tessera::op::maximum;
using tessera::op::minimum;
using tessera::op::minus;
using tessera::op::mul;
using tessera::op::ne;
using tessera::op::negation;
using tessera::op::plus;
using tessera::op::power;
using tessera::op::relu;
using tessera::op::right;
using tessera::op::round;
using tessera::op::sigmoid;
using tessera::op::sign;
using tessera::op::sin;
using tessera::op::sinh;
using tessera::op::softrelu;
using tessera::op::softsign;
using tessera::op::square;
using tessera::op::square_root;
using tessera::op::tan;
using tessera::op::tanh;
using tessera::op::trunc;

// Define functors of one and of two elements by their values.
#define TESSERA_MSHADOW_OP(name, ...)           \
  struct name {                                 \
    template <typename DType>                   \
    MSHADOW_XINLINE static DType Map(DType a) { \
      return static_cast<DType>(__VA_ARGS__);   \
    }                                           \
  }
#define TESSERA_MSHADOW_OP_OF_TWO(name, ...)             \
  struct name {                                          \
    template <typename DType>                            \
    MSHADOW_XINLINE static DType Map(DType a, DType b) { \
      return static_cast<DType>(__VA_ARGS__);            \
    }                                                    \
  }

/// The inverse functions, roots and angles.
TESSERA_MSHADOW_OP(reciprocal, DType(1) / a);
TESSERA_MSHADOW_OP(reciprocal_square_root, DType(1) / square_root::Map(a));
TESSERA_MSHADOW_OP(arcsin, tessera::op::asin::Map(a));
TESSERA_MSHADOW_OP(arccos, tessera::op::acos::Map(a));
TESSERA_MSHADOW_OP(arctan, tessera::op::atan::Map(a));
TESSERA_MSHADOW_OP(cube_root, tessera::op::cbrt::Map(a));
TESSERA_MSHADOW_OP(gamma, tessera::op::gamma::Map(a));
TESSERA_MSHADOW_OP(gammaln, tessera::op::lgamma::Map(a));

/// Return a where it is positive, and b times a, or b (exp(a) - 1), where it is not.
TESSERA_MSHADOW_OP_OF_TWO(xelu, a > DType(0) ? a : DType(a * b));
TESSERA_MSHADOW_OP_OF_TWO(elu, a > DType(0) ? a : DType(b * expm1::Map(a)));
/// Returns 1 where a is below b, else 0.
TESSERA_MSHADOW_OP_OF_TWO(threshold, a < b ? DType(1) : DType(0));
/// Returns 1 where a is above b, else -1.
TESSERA_MSHADOW_OP_OF_TWO(minus_sign, a - b > DType(0) ? DType(1) : DType(-1));
/// Return the functions of two elements with the elements exchanged.
TESSERA_MSHADOW_OP_OF_TWO(left, (static_cast<void>(b), a));
TESSERA_MSHADOW_OP_OF_TWO(rminus, b - a);
TESSERA_MSHADOW_OP_OF_TWO(rdiv, b / a);
TESSERA_MSHADOW_OP_OF_TWO(rpower, power::Map(b, a));
/// Returns a, or the nearer one of -b and b if a is outside of them.
TESSERA_MSHADOW_OP_OF_TWO(clip, a > b ? b : a < DType(-b) ? DType(-b) : a);

/// The derivatives as functions of the input.
TESSERA_MSHADOW_OP(identity_grad, (static_cast<void>(a), 1));
TESSERA_MSHADOW_OP(sign_grad, (static_cast<void>(a), 0));
TESSERA_MSHADOW_OP(square_grad, DType(2) * a);
TESSERA_MSHADOW_OP(log_grad, DType(1) / a);
TESSERA_MSHADOW_OP(log1p_grad, DType(1) / (DType(1) + a));
TESSERA_MSHADOW_OP(sin_grad, cos::Map(a));
TESSERA_MSHADOW_OP(cos_grad, -sin::Map(a));
TESSERA_MSHADOW_OP(sinh_grad, cosh::Map(a));
TESSERA_MSHADOW_OP(cosh_grad, sinh::Map(a));
TESSERA_MSHADOW_OP(reciprocal_grad, DType(-1) / (a * a));
TESSERA_MSHADOW_OP(reciprocal_square_root_grad, DType(-0.5f) / (a * square_root::Map(a)));
TESSERA_MSHADOW_OP(arcsin_grad, DType(1) / square_root::Map(DType(DType(1) - a * a)));
TESSERA_MSHADOW_OP(arccos_grad, DType(-1) / square_root::Map(DType(DType(1) - a * a)));
TESSERA_MSHADOW_OP(arctan_grad, DType(1) / (DType(1) + a * a));
TESSERA_MSHADOW_OP(softsign_grad, DType(1) / square::Map(DType(DType(1) + abs::Map(a))));
TESSERA_MSHADOW_OP(relu_grad, a > DType(0) ? 1 : 0);
TESSERA_MSHADOW_OP_OF_TWO(xelu_grad, a > DType(0) ? DType(1) : b);
TESSERA_MSHADOW_OP_OF_TWO(maximum_grad, a > b ? 1 : 0);
TESSERA_MSHADOW_OP_OF_TWO(minimum_grad, a < b ? 1 : 0);
TESSERA_MSHADOW_OP_OF_TWO(div_grad, (static_cast<void>(a), DType(1) / b));
TESSERA_MSHADOW_OP_OF_TWO(div_rgrad, -a / (b * b));
TESSERA_MSHADOW_OP_OF_TWO(rdiv_grad, -b / (a * a));
TESSERA_MSHADOW_OP_OF_TWO(power_grad, power::Map(a, DType(b - DType(1))) * b);
TESSERA_MSHADOW_OP_OF_TWO(power_rgrad, power::Map(a, b) * log::Map(a));
/// The derivatives as functions of the output.
TESSERA_MSHADOW_OP(sigmoid_grad, a*(DType(1) - a));
TESSERA_MSHADOW_OP(tanh_grad, DType(1) - a * a);
TESSERA_MSHADOW_OP(tan_grad, DType(1) + a * a);
TESSERA_MSHADOW_OP(softrelu_grad, -expm1::Map(DType(-a)));
TESSERA_MSHADOW_OP(square_root_grad, DType(0.5f) / a);
TESSERA_MSHADOW_OP_OF_TWO(elu_grad, a > DType(0) ? DType(1) : DType(b + a));
TESSERA_MSHADOW_OP_OF_TWO(rpower_grad, a* log::Map(b));

#undef TESSERA_MSHADOW_OP
#undef TESSERA_MSHADOW_OP_OF_TWO

}  // namespace mxnet::op::mshadow_op

#endif  // MXNET_OPERATOR_MSHADOW_OP_H_
