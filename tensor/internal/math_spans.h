#ifndef TESSERA_TENSOR_INTERNAL_MATH_SPANS_H_
#define TESSERA_TENSOR_INTERNAL_MATH_SPANS_H_

#include <cstdint>

#include "tessera/base/dialect.h"
#include "tessera/tensor/internal/scale_or_offset.h"

namespace tessera::tensor_internal {

/// The functions of packet_math.h over `count` numbers: out[i] = f(input.scale * in[i] +
/// input.offset), with the packets of the best instruction set that this machine has, and its fused
/// multiply-add. A result depends on in[i] alone, whatever its place and the count; machines
/// without multiply-add differ in the last bit. in and out are the same or do not overlap.
#define TESSERA_DECLARE_MATH_SPAN(function)                                              \
  void function(const float* in, float* out, int64_t count, ScaleOrOffset<float> input); \
  void function(const double* in, double* out, int64_t count, ScaleOrOffset<double> input);
TESSERA_DECLARE_MATH_SPAN(ErfSpan)
TESSERA_DECLARE_MATH_SPAN(ExpSpan)
TESSERA_DECLARE_MATH_SPAN(Expm1Span)
TESSERA_DECLARE_MATH_SPAN(LogSpan)
TESSERA_DECLARE_MATH_SPAN(Log1pSpan)
TESSERA_DECLARE_MATH_SPAN(TanhSpan)
TESSERA_DECLARE_MATH_SPAN(SigmoidSpan)
TESSERA_DECLARE_MATH_SPAN(SoftplusSpan)
TESSERA_DECLARE_MATH_SPAN(Exp2Span)
TESSERA_DECLARE_MATH_SPAN(Log2Span)
TESSERA_DECLARE_MATH_SPAN(Log10Span)
TESSERA_DECLARE_MATH_SPAN(SinSpan)
TESSERA_DECLARE_MATH_SPAN(CosSpan)
TESSERA_DECLARE_MATH_SPAN(TanSpan)
TESSERA_DECLARE_MATH_SPAN(SinhSpan)
TESSERA_DECLARE_MATH_SPAN(CoshSpan)
TESSERA_DECLARE_MATH_SPAN(AsinhSpan)
TESSERA_DECLARE_MATH_SPAN(AcoshSpan)
TESSERA_DECLARE_MATH_SPAN(AtanhSpan)
TESSERA_DECLARE_MATH_SPAN(AtanSpan)
TESSERA_DECLARE_MATH_SPAN(AsinSpan)
TESSERA_DECLARE_MATH_SPAN(AcosSpan)
TESSERA_DECLARE_MATH_SPAN(CbrtSpan)
TESSERA_DECLARE_MATH_SPAN(ErfcSpan)
#undef TESSERA_DECLARE_MATH_SPAN

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_INTERNAL_MATH_SPANS_H_
