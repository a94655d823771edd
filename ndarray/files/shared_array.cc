#include "tessera/ndarray/shared_array.h"

#include <utility>

#include "tessera/base/checked_size.h"
#include "tessera/base/error.h"
#include "tessera/ndarray/array_memory.h"

namespace tessera {

using ndarray_internal::ArrayAccess;

std::shared_ptr<SharedFile> SharedFileOf(const NDArray& array) { return ArrayAccess::File(array); }

NDArray OpenSharedArray(int descriptor, const TShape& shape, DType dtype) {
  if (!shape.known()) {
    throw InvalidArgument("OpenSharedArray: shape ", shape, " is not fully known");
  }
  const CheckedSize size_bytes = CheckedSize(DTypeSizeBytes(dtype)) * shape.Size();
  if (!size_bytes.valid()) {
    throw InvalidArgument("OpenSharedArray: shape ", shape, " of ", dtype,
                          " takes more bytes than fit in 63 bits");
  }
  return ArrayAccess::OverFile(SharedFile::Open(descriptor, *size_bytes.value()), shape, dtype);
}

}  // namespace tessera
