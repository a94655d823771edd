// This file is compiled with -mavx512f and its companions; see tensor/packet/math_kernel.h.
#define TESSERA_MATH_NAMESPACE math_avx512
#include "tessera/tensor/packet/math_kernel.h"
