// This file is compiled with -mavx2; see tensor/packet/math_kernel.h.
#define TESSERA_MATH_NAMESPACE math_avx2
#include "tessera/tensor/packet/math_kernel.h"
