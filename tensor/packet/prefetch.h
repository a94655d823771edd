#ifndef TESSERA_TENSOR_PACKET_PREFETCH_H_
#define TESSERA_TENSOR_PACKET_PREFETCH_H_

#include <cstdint>

namespace tessera::tensor_internal {

/// Places in memory that are read or written after an array, each as many bytes long as the array.
/// The array's kernel prefetches them while it computes. The struct has no functions, since code of
/// several instruction sets shares it.
struct PrefetchList {
  const char* const* places = nullptr;
  int64_t count = 0;
};

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_PACKET_PREFETCH_H_
