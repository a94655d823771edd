#ifndef TESSERA_TENSOR_SIZE_BYTES_H_
#define TESSERA_TENSOR_SIZE_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "tessera/base/checked_size.h"
#include "tessera/base/host_device.h"
#include "tessera/base/shape.h"

namespace tessera::tensor_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// The error of a shape that no memory could hold.
template <int N>
[[noreturn, gnu::cold, gnu::noinline]] void ThrowImpossibleSize(const char* operation,
                                                                Shape<N> shape,
                                                                size_t element_bytes) {
  for (int i = 0; i < N; ++i) {
    if (shape[i] >= 0) continue;
    throw InvalidArgument(operation, ": dimension ", i, " of shape ", shape, " is negative");
  }
  throw InvalidArgument(operation, ": shape ", shape, " of elements of ", element_bytes,
                        " bytes: the size in bytes is above ", std::numeric_limits<int64_t>::max());
}

/// The bytes of a tensor of elements T whose rows lie `stride` elements apart.
/// Throws Error(kInvalidArgument) that begins with `operation` and gives the shape if an extent is
/// negative or the size overflows.
template <typename T, int N>
int64_t SizeBytes(const Shape<N>& shape, index_t stride, const char* operation) {
  CheckedSize bytes = CheckedSize(stride) * static_cast<int64_t>(sizeof(T));
  for (int i = 0; i < N - 1; ++i) bytes = bytes * shape[i];
  // Of a negative row the padded stride may be 0.
  const auto size = bytes.value();
  if (!size || shape[N - 1] < 0) ThrowImpossibleSize(operation, shape, sizeof(T));
  return *size;
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_SIZE_BYTES_H_
