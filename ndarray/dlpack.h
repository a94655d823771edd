#ifndef TESSERA_NDARRAY_DLPACK_H_
#define TESSERA_NDARRAY_DLPACK_H_

#include "tessera/ndarray/ndarray.h"

// The C structures of DLPack 1.x. <dlpack/dlpack.h> defines them, or, without DLPack's own header,
// "tessera/ndarray/dlpack_abi.h".
struct DLManagedTensor;
struct DLManagedTensorVersioned;

namespace tessera {

/// Return an array for another library, without a copy: in DLPack 1.x, and in the form before 1.0.
/// The memory stays until the structure's deleter is called, which may happen on any thread and
/// after the last handle is gone.
///
/// Wait for the array's pending writes, and throw their errors; an array whose memory was delayed
/// gets it. Operations that are pushed later are not ordered with the other library's: before
/// Tessera writes the array the other library must be done, and before the other library writes it,
/// the reads must be done (WaitToWrite).
///
/// Strides are row-major, byte_offset is 0, and device_id is 0 for the host. Throw
/// Error(kFailedPrecondition) if the array is_none().
DLManagedTensorVersioned* ToDLPack(const NDArray& array);
DLManagedTensor* ToLegacyDLPack(const NDArray& array);

/// How FromDLPack takes an array.
struct FromDLPackOptions {
  /// Accepts memory that the producer has marked as read-only. The caller promises that no
  /// operation writes the array, which Tessera does not check.
  bool accept_read_only = false;
};

/// Return an array over another library's memory, without a copy. `tensor` then belongs to the
/// array: its deleter is called once, when the last handle is destroyed and the last operation is
/// done, on any thread. The producer's work on the memory must be done, on a GPU too.
///
/// Throw Error(kUnimplemented) for a version other than 1.x, for devices other than the host,
/// CUDA's pinned memory and, in builds with --config=cuda, CUDA, for element types without a DType,
/// for a rank above TShape::kMaxRank, and for elements that are not compact in row-major order.
/// Throw Error(kFailedPrecondition) for read-only memory unless options accept it, and
/// Error(kInvalidArgument) for a null pointer, a negative extent, sizes that do not fit in 63 bits,
/// and misaligned elements. `tensor` still belongs to the caller after an error.
NDArray FromDLPack(DLManagedTensorVersioned* tensor, const FromDLPackOptions& options = {});
NDArray FromDLPack(DLManagedTensor* tensor);

}  // namespace tessera

#endif  // TESSERA_NDARRAY_DLPACK_H_
