#ifndef TESSERA_NDARRAY_PARAMS_FORMAT_H_
#define TESSERA_NDARRAY_PARAMS_FORMAT_H_

#include <cstdint>
#include <map>
#include <string>

#include "tessera/ndarray/ndarray.h"

namespace tessera::ndarray_internal {

/// Bytes of a known number, read from front to back.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// What errors call the source.
  virtual const std::string& name() const = 0;
  virtual int64_t size_bytes() const = 0;
  /// Reads the next bytes, of which there are as many. Throws Error if they cannot be had after
  /// all.
  virtual void Read(void* data, int64_t size_bytes) = 0;
};

/// Reads the format that LoadNDArrays reads; its errors, with the source's name. The source must be
/// at its front.
std::map<std::string, NDArray> ReadParams(ByteSource& source);

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_PARAMS_FORMAT_H_
