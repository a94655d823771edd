// Compiled with -mavx512f and its companions; see internal/gemm_kernel.h.
#define TESSERA_GEMM_NAMESPACE gemm_avx512
#include "tessera/tensor/linalg/gemm_kernel.h"
