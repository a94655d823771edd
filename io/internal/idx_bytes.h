#ifndef TESSERA_IO_INTERNAL_IDX_BYTES_H_
#define TESSERA_IO_INTERNAL_IDX_BYTES_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace tessera::io_internal {

using Bytes = std::vector<uint8_t>;

/// Returns an IDX file with that element type code and shape, and these elements unchanged. For
/// tests.
Bytes IdxBytes(uint8_t type_code, std::initializer_list<uint32_t> shape, const Bytes& elements);

/// Returns the bytes as one gzip member. For tests.
Bytes Gzip(const Bytes& bytes);

/// Writes a file of that name in the test's folder, and returns its path. For tests.
std::string WriteTestFile(const std::string& name, const Bytes& bytes);

}  // namespace tessera::io_internal

#endif  // TESSERA_IO_INTERNAL_IDX_BYTES_H_
