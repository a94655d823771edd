#ifndef TESSERA_IO_INTERNAL_IDX_BYTES_H_
#define TESSERA_IO_INTERNAL_IDX_BYTES_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

namespace tessera::io_internal {

using Bytes = std::vector<uint8_t>;

/// For tests: an IDX file with that element type code and shape, and these elements as they are.
Bytes IdxBytes(uint8_t type_code, std::initializer_list<uint32_t> shape, const Bytes& elements);

/// For tests: the bytes as one gzip member.
Bytes Gzip(const Bytes& bytes);

/// For tests: writes a file of that name in the test's folder; returns its path.
std::string WriteTestFile(const std::string& name, const Bytes& bytes);

}  // namespace tessera::io_internal

#endif  // TESSERA_IO_INTERNAL_IDX_BYTES_H_
