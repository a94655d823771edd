#ifndef TESSERA_TENSOR_PACKET_SPAN_AHEAD_H_
#define TESSERA_TENSOR_PACKET_SPAN_AHEAD_H_

#include <cstdint>

namespace tessera::tensor_internal {

/// Places in memory that are read or written after a span, as many bytes from each on as the span
/// has: its kernel asks the caches for them while it computes. It has no functions, for code of
/// several instruction sets shares it.
struct SpanAhead {
  const char* const* places = nullptr;
  int64_t count = 0;
};

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_PACKET_SPAN_AHEAD_H_
