// The array kernels of tensor/packet/math_kernel.h, compiled once for each instruction set and each
// set of flags that let the compiler change the arithmetic, such as -ffast-math.
#include "tessera/tensor/packet/fast_math_kernel.h"

#include "tessera/tensor/packet/math_kernel.h"

namespace tessera::tensor_internal::TESSERA_MATH_NAMESPACE {

// The tables are constant, so that no code runs before the test has looked at the machine.
extern const FastMathKernel kFastMathKernels[];
#define TESSERA_KERNEL(Name, name) {Name##Float, Name##Double},
const FastMathKernel kFastMathKernels[] = {TESSERA_FOR_C_FUNCTIONS(TESSERA_KERNEL)};
#undef TESSERA_KERNEL

extern const MathKernel<float> kFastMathFloatKernels[];
#define TESSERA_KERNEL(Name, reference) Name##Float,
const MathKernel<float> kFastMathFloatKernels[] = {TESSERA_FOR_FLOAT_FUNCTIONS(TESSERA_KERNEL)};
#undef TESSERA_KERNEL

extern const PowerKernel kFastMathPower;
const PowerKernel kFastMathPower = PowerFloat;

}  // namespace tessera::tensor_internal::TESSERA_MATH_NAMESPACE
