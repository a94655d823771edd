// This file is compiled with -mavx512f and its companions; see tensor/linalg/gemm_kernel.h.
#define TESSERA_GEMM_NAMESPACE gemm_avx512
#include "tessera/tensor/linalg/gemm_kernel.h"
