#include "tessera/tensor/internal/math_spans.h"

#include "tessera/tensor/instruction_set.h"

namespace tessera::tensor_internal {

#define TESSERA_DEFINE_MATH_SPAN(name)                                                           \
  namespace math_baseline {                                                                      \
  void name##Float(const float*, float*, int64_t, ScaleOrOffset<float>);                         \
  void name##Double(const double*, double*, int64_t, ScaleOrOffset<double>);                     \
  }                                                                                              \
  namespace math_avx2 {                                                                          \
  void name##Float(const float*, float*, int64_t, ScaleOrOffset<float>);                         \
  void name##Double(const double*, double*, int64_t, ScaleOrOffset<double>);                     \
  }                                                                                              \
  namespace math_avx512 {                                                                        \
  void name##Float(const float*, float*, int64_t, ScaleOrOffset<float>);                         \
  void name##Double(const double*, double*, int64_t, ScaleOrOffset<double>);                     \
  }                                                                                              \
  void name##Span(const float* in, float* out, int64_t count, ScaleOrOffset<float> input) {      \
    static const auto kernel =                                                                   \
        Choose(math_baseline::name##Float, math_avx2::name##Float, math_avx512::name##Float);    \
    kernel(in, out, count, input);                                                               \
  }                                                                                              \
  void name##Span(const double* in, double* out, int64_t count, ScaleOrOffset<double> input) {   \
    static const auto kernel =                                                                   \
        Choose(math_baseline::name##Double, math_avx2::name##Double, math_avx512::name##Double); \
    kernel(in, out, count, input);                                                               \
  }

namespace {

template <typename Kernel>
Kernel Choose(Kernel baseline, Kernel avx2, Kernel avx512) {
  switch (UsedInstructionSet()) {
    case InstructionSet::kAvx512:
      return avx512;
    case InstructionSet::kAvx2:
      return avx2;
    case InstructionSet::kBaseline:
      break;
  }
  return baseline;
}

}  // namespace

TESSERA_FOR_EACH_MATH_SPAN(TESSERA_DEFINE_MATH_SPAN)
#undef TESSERA_DEFINE_MATH_SPAN

}  // namespace tessera::tensor_internal
