#ifndef TESSERA_NDARRAY_PARAMS_FORMAT_H_
#define TESSERA_NDARRAY_PARAMS_FORMAT_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "tessera/ndarray/ndarray.h"

namespace tessera {
struct LeftOutArray;
}

namespace tessera::ndarray_internal {

/// A sequence of bytes of known length, read from front to back.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Returns the source's name in errors.
  virtual const std::string& name() const = 0;
  virtual int64_t size_bytes() const = 0;
  /// Reads the next bytes. Requires: as many are left. Throws Error if they cannot be read.
  virtual void Read(void* data, int64_t size_bytes) = 0;
};

/// Reads the format of LoadNDArrays, which explains `left_out` and `digest`. Throws its errors with
/// the source's name. Requires: the source is at its front.
std::map<std::string, NDArray> ReadParams(ByteSource& source,
                                          std::vector<LeftOutArray>* left_out = nullptr,
                                          std::optional<uint64_t>* digest = nullptr);

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_PARAMS_FORMAT_H_
