#ifndef TESSERA_NDARRAY_SHARED_ARRAY_H_
#define TESSERA_NDARRAY_SHARED_ARRAY_H_

#include <memory>

#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/storage/shared_file.h"

namespace tessera {

// Arrays that processes share. Each array of Device::CpuShared() lies in an anonymous file of its
// own, which another process opens by the file's descriptor:
//
//     // One process:
//     const NDArray shared = array.AsInContext(Device::CpuShared());
//     shared.WaitToRead();
//     SendDescriptor(socket, SharedFileOf(shared)->descriptor());
//     // Another one:
//     const NDArray same = OpenSharedArray(ReceiveDescriptor(socket), shape, dtype);
//
// The memory exists as long as an array of any process has it. The engines of two processes do not
// order their operations with each other: before one process writes, the other must be done.

/// Returns the file that holds an array's elements, first element first. Returns null for an array
/// of another device, and for a part of an array that does not begin at the array's first element.
/// Does not wait. Throws Error(kFailedPrecondition) if the array is_none(). Thread-safe.
std::shared_ptr<SharedFile> SharedFileOf(const NDArray& array);

/// Returns an array over the file of a descriptor, which the array owns from then on. Throws
/// Error(kInvalidArgument) unless shape and type are fully known, and what SharedFile::Open throws;
/// the descriptor then still belongs to the caller. Thread-safe.
NDArray OpenSharedArray(int descriptor, const TShape& shape, DType dtype = DType::kFloat32);

}  // namespace tessera

#endif  // TESSERA_NDARRAY_SHARED_ARRAY_H_
