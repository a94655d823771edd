// This file is compiled with -mavx512f and its companions; see tensor/nn/recurrent_kernel.h.
#define TESSERA_RECURRENT_NAMESPACE recurrent_avx512
#include "tessera/tensor/nn/recurrent_kernel.h"
