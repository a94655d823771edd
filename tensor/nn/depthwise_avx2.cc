// This file is compiled with -mavx2 -mfma; see tensor/nn/depthwise_rows.h.
#define TESSERA_DEPTHWISE_NAMESPACE depthwise_avx2
#include "tessera/tensor/nn/depthwise_kernel.h"
#include "tessera/tensor/nn/group_kernel.h"
