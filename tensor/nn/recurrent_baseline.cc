// This file is compiled for the baseline of the build; see tensor/nn/recurrent_kernel.h.
#define TESSERA_RECURRENT_NAMESPACE recurrent_baseline
#include "tessera/tensor/nn/recurrent_kernel.h"
