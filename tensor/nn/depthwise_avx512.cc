// This file is compiled with -mavx512f and its companions; see tensor/nn/depthwise_rows.h.
#define TESSERA_DEPTHWISE_NAMESPACE depthwise_avx512
#include "tessera/tensor/nn/depthwise_kernel.h"
#include "tessera/tensor/nn/group_kernel.h"
