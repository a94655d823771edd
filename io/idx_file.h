#ifndef TESSERA_IO_IDX_FILE_H_
#define TESSERA_IO_IDX_FILE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tessera/io/host_array.h"

namespace tessera {

/// Reads an IDX file, the format of the MNIST data sets, plain or compressed by gzip, which its
/// first bytes tell. The result has rank 1 to 8.
///
/// The format, all numbers big-endian: two zero bytes; a byte for the element type (08 uint8, 09
/// int8, 0b int16, 0c int32, 0d float32, 0e float64); a byte for the rank; the extents, four bytes
/// each; the elements in row-major order; nothing more.
///
/// Throws Error that names the file, the value found and the value expected: kNotFound if it does
/// not exist; kFailedPrecondition if it cannot be opened; kInvalidArgument if it is not a file;
/// kDataLoss for a wrong magic number, for missing or extra elements, and for damaged compression.
/// Memory is allocated as the elements are read, and never for more than the header announces,
/// whatever the size of the decompressed file.
HostArray ReadIdxFile(const std::string& path);

/// Reads an IDX file's contents in memory. Errors call them `name`.
HostArray ParseIdx(std::span<const uint8_t> contents, std::string_view name);

/// Returns the path of `folder/name`, or of `folder/name.gz` if only that exists. Throws Error that
/// names both: kNotFound if neither exists, kFailedPrecondition if the folder cannot be read.
std::string FindIdxFile(const std::string& folder, const std::string& name);

}  // namespace tessera

#endif  // TESSERA_IO_IDX_FILE_H_
