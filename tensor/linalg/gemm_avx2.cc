// This file is compiled with -mavx2 -mfma; see tensor/linalg/gemm_kernel.h.
#define TESSERA_GEMM_NAMESPACE gemm_avx2
#include "tessera/tensor/linalg/gemm_kernel.h"
