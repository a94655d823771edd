#ifndef TESSERA_TENSOR_RANDOM_H_
#define TESSERA_TENSOR_RANDOM_H_

// Random numbers for tensors on either device.

#include "tessera/tensor/random/random.h"       // IWYU pragma: export
#include "tessera/tensor/random/random_cuda.h"  // IWYU pragma: export

#endif  // TESSERA_TENSOR_RANDOM_H_
