// This file is compiled with -mavx2 -mfma; see tensor/nn/recurrent_kernel.h.
#define TESSERA_RECURRENT_NAMESPACE recurrent_avx2
#include "tessera/tensor/nn/recurrent_kernel.h"
