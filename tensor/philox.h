#ifndef TESSERA_TENSOR_PHILOX_H_
#define TESSERA_TENSOR_PHILOX_H_

// The counter-based random number generator behind Random.

#include "tessera/tensor/random/philox.h"  // IWYU pragma: export

#endif  // TESSERA_TENSOR_PHILOX_H_
