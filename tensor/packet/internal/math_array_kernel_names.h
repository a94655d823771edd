#ifndef TESSERA_TENSOR_PACKET_INTERNAL_MATH_ARRAY_KERNEL_NAMES_H_
#define TESSERA_TENSOR_PACKET_INTERNAL_MATH_ARRAY_KERNEL_NAMES_H_

/// Calls `define` with the name of each function of packet_math.h that has array kernels for float
/// and double.
#define TESSERA_FOR_EACH_MATH_ARRAY_KERNEL(define)                                                 \
  define(Erf) define(Exp) define(Expm1) define(Log) define(Log1p) define(Tanh) define(Sigmoid)     \
      define(Softplus) define(Exp2) define(Log2) define(Log10) define(Sin) define(Cos) define(Tan) \
          define(Sinh) define(Cosh) define(Asinh) define(Acosh) define(Atanh) define(Atan)         \
              define(Asin) define(Acos) define(Cbrt) define(Erfc) define(Gelu) define(GeluSlope)

/// Calls `define` with the name of each function of packet_math.h that has array kernels for float
/// alone. They are computed in double; kernels for double would need twice its digits.
#define TESSERA_FOR_EACH_FLOAT_MATH_ARRAY_KERNEL(define) \
  define(Digamma) define(LogGamma) define(Gamma)

#endif  // TESSERA_TENSOR_PACKET_INTERNAL_MATH_ARRAY_KERNEL_NAMES_H_
