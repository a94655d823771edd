#ifndef TESSERA_TENSOR_PACKET_MATH_SPANS_H_
#define TESSERA_TENSOR_PACKET_MATH_SPANS_H_

#include <cstdint>

#include "tessera/base/dialect.h"
#include "tessera/tensor/packet/internal/math_span_names.h"
#include "tessera/tensor/packet/prefetch.h"
#include "tessera/tensor/packet/scale_or_offset.h"
#include "tessera/tensor/packet/span_operand.h"

namespace tessera::tensor_internal {

/// Array kernels: the functions of packet_math.h over `count` numbers, out[i] = f(input.scale *
/// in[i] + input.offset). They use the packets of UsedInstructionSet(), and its fused multiply-add.
/// A result depends on in[i] alone, not on its position or the count. Machines without multiply-add
/// differ in the last bit. `in` and `out` are the same or do not overlap. The kernel prefetches the
/// places in `ahead` meanwhile.
#define TESSERA_DECLARE_FLOAT_MATH_SPAN(name)                                             \
  void name##Span(const float* in, float* out, int64_t count, ScaleOrOffset<float> input, \
                  PrefetchList ahead);
#define TESSERA_DECLARE_MATH_SPAN(name)                                                      \
  TESSERA_DECLARE_FLOAT_MATH_SPAN(name)                                                      \
  void name##Span(const double* in, double* out, int64_t count, ScaleOrOffset<double> input, \
                  PrefetchList ahead);
TESSERA_FOR_EACH_MATH_SPAN(TESSERA_DECLARE_MATH_SPAN)
TESSERA_FOR_EACH_FLOAT_MATH_SPAN(TESSERA_DECLARE_FLOAT_MATH_SPAN)
#undef TESSERA_DECLARE_MATH_SPAN
#undef TESSERA_DECLARE_FLOAT_MATH_SPAN

/// Computes out[i] = a[i] to the power b[i] with the packets of UsedInstructionSet(). The operands
/// are neither scaled nor shifted.
void PowerSpan(SpanOperand<float> a, SpanOperand<float> b, float* out, int64_t count);

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_PACKET_MATH_SPANS_H_
