// The patch kernel, compiled with -mavx2; see patch_kernel.h.
#define TESSERA_PATCH_NAMESPACE patch_avx2
#include "tessera/tensor/nn/patch_kernel.h"
