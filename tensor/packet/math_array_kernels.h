#ifndef TESSERA_TENSOR_PACKET_MATH_ARRAY_KERNELS_H_
#define TESSERA_TENSOR_PACKET_MATH_ARRAY_KERNELS_H_

#include <cstdint>

#include "tessera/base/host_device.h"
#include "tessera/tensor/packet/array_operand.h"
#include "tessera/tensor/packet/internal/math_array_kernel_names.h"
#include "tessera/tensor/packet/prefetch.h"
#include "tessera/tensor/packet/scale_or_offset.h"

/// Defined as 1 if this build leaves expensive functions to array kernels that are chosen at run
/// time. Other builds compute them in packets of their own.
#if defined(__x86_64__) && !defined(__FMA__) && !defined(__CUDACC__)
#define TESSERA_USES_ARRAY_KERNELS 1
#else
#define TESSERA_USES_ARRAY_KERNELS 0
#endif

namespace tessera::tensor_internal {

inline namespace TESSERA_ISA_NAMESPACE {
/// True if this build leaves expensive functions to array kernels.
inline constexpr bool kUsesArrayKernels = TESSERA_USES_ARRAY_KERNELS;
}  // namespace TESSERA_ISA_NAMESPACE

/// Array kernels: the functions of packet_math.h over `count` numbers, out[i] = f(input.scale *
/// in[i] + input.offset). They use the packets of UsedInstructionSet(), and its fused multiply-add.
/// A result depends on in[i] alone, not on its position or the count. Machines without multiply-add
/// differ in the last bit. `in` and `out` are the same or do not overlap. The kernel prefetches the
/// places in `ahead` meanwhile.
#define TESSERA_DECLARE_FLOAT_MATH_ARRAY_KERNEL(name)                                            \
  void name##ArrayKernel(const float* in, float* out, int64_t count, ScaleOrOffset<float> input, \
                         PrefetchList ahead);
#define TESSERA_DECLARE_MATH_ARRAY_KERNEL(name)                        \
  TESSERA_DECLARE_FLOAT_MATH_ARRAY_KERNEL(name)                        \
  void name##ArrayKernel(const double* in, double* out, int64_t count, \
                         ScaleOrOffset<double> input, PrefetchList ahead);
TESSERA_FOR_EACH_MATH_ARRAY_KERNEL(TESSERA_DECLARE_MATH_ARRAY_KERNEL)
TESSERA_FOR_EACH_FLOAT_MATH_ARRAY_KERNEL(TESSERA_DECLARE_FLOAT_MATH_ARRAY_KERNEL)
#undef TESSERA_DECLARE_MATH_ARRAY_KERNEL
#undef TESSERA_DECLARE_FLOAT_MATH_ARRAY_KERNEL

/// Computes out[i] = a[i] to the power b[i] with the packets of UsedInstructionSet(). The operands
/// are neither scaled nor shifted.
void PowerArrayKernel(ArrayOperand<float> a, ArrayOperand<float> b, float* out, int64_t count);

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_PACKET_MATH_ARRAY_KERNELS_H_
