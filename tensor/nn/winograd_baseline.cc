// This file is compiled for the baseline of the build; see tensor/nn/winograd_kernel.h.
#define TESSERA_WINOGRAD_NAMESPACE winograd_baseline
#include "tessera/tensor/nn/winograd_kernel.h"
