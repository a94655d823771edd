#ifndef TESSERA_TENSOR_STREAM_H_
#define TESSERA_TENSOR_STREAM_H_

// Streams: the order in which a device runs work.

#include "tessera/tensor/device/stream.h"  // IWYU pragma: export

#endif  // TESSERA_TENSOR_STREAM_H_
