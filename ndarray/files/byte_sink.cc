#include "tessera/ndarray/files/byte_sink.h"

#include <cstddef>
#include <memory>

#include "tessera/base/dtype.h"

namespace tessera::ndarray_internal {

void WriteElements(const NDArray& array, ByteSink& sink) {
  const index_t size = array.shape().Size();
  const int64_t size_bytes = size * DTypeSizeBytes(array.dtype());
  // The memory is not zeroed, because all of it is overwritten.
  const std::unique_ptr<char[]> bytes(new char[static_cast<size_t>(size_bytes)]);
  array.SyncCopyToCPU(bytes.get(), size);
  sink.Write(bytes.get(), size_bytes);
}

}  // namespace tessera::ndarray_internal
