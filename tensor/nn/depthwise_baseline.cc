// This file is compiled for the baseline of the build; see tensor/nn/depthwise_rows.h.
#define TESSERA_DEPTHWISE_NAMESPACE depthwise_baseline
#include "tessera/tensor/nn/depthwise_kernel.h"
#include "tessera/tensor/nn/group_kernel.h"
