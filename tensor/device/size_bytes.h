#ifndef TESSERA_TENSOR_DEVICE_SIZE_BYTES_H_
#define TESSERA_TENSOR_DEVICE_SIZE_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <limits>

#include "tessera/base/checked_size.h"
#include "tessera/base/host_device.h"
#include "tessera/base/shape.h"

namespace tessera::tensor_internal {
inline namespace TESSERA_ISA_NAMESPACE {

/// Returns the product of the extents in [begin, end), which is invalid on overflow, while the
/// product of Shape itself may wrap around. It is invalid even for an empty shape if the other
/// extents overflow, since strides are products of some of them.
template <int N>
CheckedSize CheckedProduct(const Shape<N>& shape, int begin, int end) {
  CheckedSize product = 1;
  bool empty = false;
  for (int i = begin; i < end; ++i) {
    if (shape[i] == 0) {
      empty = true;
    } else {
      product = product * shape[i];
    }
  }
  return empty ? product * 0 : product;
}

/// Throws the error of CountableShape.
template <int N>
[[noreturn, gnu::cold, gnu::noinline]] void ThrowUncountable(const char* operation,
                                                             Shape<N> shape) {
  throw InvalidArgument(operation, ": shape ", shape,
                        " has a negative extent or extents whose product is not below 2^63");
}

/// Returns `shape`, which is that of an expression made by `operation`. Throws
/// Error(kInvalidArgument), with a message that begins with `operation`, if an extent is negative
/// or the number of elements is not below 2^63.
template <int N>
const Shape<N>& CountableShape(const Shape<N>& shape, const char* operation) {
  if (!CheckedProduct(shape, 0, N).valid()) ThrowUncountable(operation, shape);
  return shape;
}

/// Throws the error of a shape that no memory could hold.
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

/// Returns the size in bytes of a tensor of elements T whose rows lie `stride` elements apart.
/// Throws Error(kInvalidArgument), with a message that begins with `operation` and gives the shape,
/// if an extent is negative or the size overflows.
template <typename T, int N>
int64_t SizeBytes(const Shape<N>& shape, index_t stride, const char* operation) {
  const CheckedSize rows = CheckedProduct(shape, 0, N - 1);
  // The padded stride of a row with a negative extent may be 0, so the size alone does not tell.
  const auto size = (CheckedSize(stride) * static_cast<int64_t>(sizeof(T)) * rows).value();
  if (!size || shape[N - 1] < 0) ThrowImpossibleSize(operation, shape, sizeof(T));
  return *size;
}

}  // namespace TESSERA_ISA_NAMESPACE
}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_DEVICE_SIZE_BYTES_H_
