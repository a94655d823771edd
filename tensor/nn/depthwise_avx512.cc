// This file is compiled with -mavx512f and its companions; see tensor/nn/depthwise_kernel.h.
#define TESSERA_DEPTHWISE_NAMESPACE depthwise_avx512
#include "tessera/tensor/nn/depthwise_kernel.h"
