#include "tessera/tensor/packet/math_array_kernels.h"

#include "tessera/tensor/device/instruction_set.h"

namespace tessera::tensor_internal {

#define TESSERA_DEFINE_MATH_ARRAY_KERNEL_OF(name, Type, type)                                 \
  namespace math_baseline {                                                                   \
  void name##Type(const type*, type*, int64_t, ScaleOrOffset<type>, PrefetchList);            \
  }                                                                                           \
  namespace math_avx2 {                                                                       \
  void name##Type(const type*, type*, int64_t, ScaleOrOffset<type>, PrefetchList);            \
  }                                                                                           \
  namespace math_avx512 {                                                                     \
  void name##Type(const type*, type*, int64_t, ScaleOrOffset<type>, PrefetchList);            \
  }                                                                                           \
  void name##ArrayKernel(const type* in, type* out, int64_t count, ScaleOrOffset<type> input, \
                         PrefetchList ahead) {                                                \
    static const auto kernel =                                                                \
        Choose(math_baseline::name##Type, math_avx2::name##Type, math_avx512::name##Type);    \
    kernel(in, out, count, input, ahead);                                                     \
  }
#define TESSERA_DEFINE_FLOAT_MATH_ARRAY_KERNEL(name) \
  TESSERA_DEFINE_MATH_ARRAY_KERNEL_OF(name, Float, float)
#define TESSERA_DEFINE_MATH_ARRAY_KERNEL(name) \
  TESSERA_DEFINE_FLOAT_MATH_ARRAY_KERNEL(name) \
  TESSERA_DEFINE_MATH_ARRAY_KERNEL_OF(name, Double, double)

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

TESSERA_FOR_EACH_MATH_ARRAY_KERNEL(TESSERA_DEFINE_MATH_ARRAY_KERNEL)
TESSERA_FOR_EACH_FLOAT_MATH_ARRAY_KERNEL(TESSERA_DEFINE_FLOAT_MATH_ARRAY_KERNEL)
#undef TESSERA_DEFINE_MATH_ARRAY_KERNEL_OF
#undef TESSERA_DEFINE_FLOAT_MATH_ARRAY_KERNEL
#undef TESSERA_DEFINE_MATH_ARRAY_KERNEL

#define TESSERA_DECLARE_POWER(isa)                                              \
  namespace math_##isa {                                                        \
    void PowerFloat(ArrayOperand<float>, ArrayOperand<float>, float*, int64_t); \
  }
TESSERA_DECLARE_POWER(baseline)
TESSERA_DECLARE_POWER(avx2)
TESSERA_DECLARE_POWER(avx512)
#undef TESSERA_DECLARE_POWER

void PowerArrayKernel(ArrayOperand<float> a, ArrayOperand<float> b, float* out, int64_t count) {
  static const auto kernel =
      Choose(math_baseline::PowerFloat, math_avx2::PowerFloat, math_avx512::PowerFloat);
  kernel(a, b, out, count);
}

}  // namespace tessera::tensor_internal
