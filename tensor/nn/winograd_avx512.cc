// This file is compiled with -mavx512f and its companions; see tensor/nn/winograd_kernel.h.
#define TESSERA_WINOGRAD_NAMESPACE winograd_avx512
#include "tessera/tensor/nn/winograd_kernel.h"
