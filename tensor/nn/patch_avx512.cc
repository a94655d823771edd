// The patch kernel, compiled with -mavx512f; see patch_kernel.h.
#define TESSERA_PATCH_NAMESPACE patch_avx512
#include "tessera/tensor/nn/patch_kernel.h"
