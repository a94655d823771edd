// Compiled with -mavx2; see internal/math_kernel.h.
#define TESSERA_MATH_NAMESPACE math_avx2
#include "tessera/tensor/packet/math_kernel.h"
