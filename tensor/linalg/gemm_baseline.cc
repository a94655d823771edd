// This file is compiled for the baseline of the build; see tensor/linalg/gemm_kernel.h.
#define TESSERA_GEMM_NAMESPACE gemm_baseline
#include "tessera/tensor/linalg/gemm_kernel.h"
