#ifndef TESSERA_TENSOR_FUNCTORS_H_
#define TESSERA_TENSOR_FUNCTORS_H_

// Functors for programs that write their own loops over elements. Packets come along only in builds
// where expensive functors compute single elements in packets.

#include "tessera/tensor/functors/functors.h"  // IWYU pragma: export
#include "tessera/tensor/packet/math_array_kernels.h"
#if !TESSERA_USES_ARRAY_KERNELS
#include "tessera/tensor/functors/functor_packets.h"  // IWYU pragma: export
#endif

#endif  // TESSERA_TENSOR_FUNCTORS_H_
