// This file is compiled with -mavx2 -mfma; see tensor/nn/winograd_kernel.h.
#define TESSERA_WINOGRAD_NAMESPACE winograd_avx2
#include "tessera/tensor/nn/winograd_kernel.h"
