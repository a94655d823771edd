#ifndef TESSERA_TENSOR_PACKET_FAST_MATH_KERNEL_H_
#define TESSERA_TENSOR_PACKET_FAST_MATH_KERNEL_H_

#include <cstdint>

#include "tessera/tensor/packet/array_operand.h"
#include "tessera/tensor/packet/prefetch.h"
#include "tessera/tensor/packet/scale_or_offset.h"

/// Calls define(Name, name) for each function of packet_math.h that the C library has as well.
#define TESSERA_FOR_C_FUNCTIONS(define)                                                            \
  define(Exp, exp) define(Exp2, exp2) define(Expm1, expm1) define(Log, log) define(Log2, log2)     \
      define(Log10, log10) define(Log1p, log1p) define(Sin, sin) define(Cos, cos) define(Tan, tan) \
          define(Asin, asin) define(Acos, acos) define(Atan, atan) define(Sinh, sinh)              \
              define(Cosh, cosh) define(Tanh, tanh) define(Asinh, asinh) define(Acosh, acosh)      \
                  define(Atanh, atanh) define(Cbrt, cbrt) define(Erf, erf) define(Erfc, erfc)

/// Calls define(Name, reference) for each other function whose array kernel for float is tested,
/// with the name of its reference.
#define TESSERA_FOR_FLOAT_FUNCTIONS(define)                                                   \
  define(Gelu, GeluReference) define(Digamma, DigammaReference) define(LogGamma, std::lgamma) \
      define(Gamma, std::tgamma)

namespace tessera::tensor_internal {

/// The array kernel of a function, as in tensor/packet/math_kernel.h.
template <typename T>
using MathKernel = void (*)(const T* in, T* out, int64_t count, ScaleOrOffset<T> input,
                            PrefetchList ahead);

/// The array kernel of powers.
using PowerKernel = void (*)(ArrayOperand<float> a, ArrayOperand<float> b, float* out,
                             int64_t count);

/// The array kernels of one function of TESSERA_FOR_C_FUNCTIONS.
struct FastMathKernel {
  MathKernel<float> of_floats;
  MathKernel<double> of_doubles;
};

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_PACKET_FAST_MATH_KERNEL_H_
