// This file is compiled for the baseline of the build; see tensor/packet/math_kernel.h.
#define TESSERA_MATH_NAMESPACE math_baseline
#include "tessera/tensor/packet/math_kernel.h"
