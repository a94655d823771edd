#ifndef TESSERA_IO_IDX_FILE_H_
#define TESSERA_IO_IDX_FILE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/tshape.h"

namespace tessera {

/// What an IDX file holds, the format of the MNIST data sets.
///
/// The format, all numbers big-endian: two zero bytes; a byte for the element type (08 uint8,
/// 09 int8, 0b int16, 0c int32, 0d float32, 0e float64); a byte for the rank; the extents, four
/// bytes each; the elements in row-major order; nothing more.
struct IdxArray {
  DType dtype = DType::kUint8;  ///< one of the six types above
  TShape shape;                 ///< of rank 1 to 8
  std::vector<uint8_t> bytes;   ///< the elements in the host's byte order

  /// The elements. Throws Error(kInvalidArgument) if T is not their type.
  template <typename T>
  std::span<const T> values() const {
    if (dtype != kDTypeOf<T>) {
      throw InvalidArgument("IdxArray::values: asked for ", kDTypeOf<T>, ", the elements are ",
                            dtype);
    }
    return {reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)};
  }
};

/// Reads an IDX file, plain or compressed by gzip (told by its first bytes, not by its name).
///
/// Throws Error that names the file, what was found and what was expected: kNotFound if it is not
/// there; kFailedPrecondition if it cannot be opened; kInvalidArgument if it is no file; kDataLoss
/// for a wrong magic number, for elements that are missing or too many, and for damaged
/// compression. Memory is taken as the elements come, and never for more than the
/// header announces, whatever a compressed file would unpack to.
IdxArray ReadIdxFile(const std::string& path);

/// The same for a file's contents in memory; errors call them `name`.
IdxArray ParseIdx(std::span<const uint8_t> contents, std::string_view name);

/// The path of `folder/name`, or of `folder/name.gz` where only that is there.
/// Throws Error that names both: kNotFound if neither is there, kFailedPrecondition if the folder
/// cannot be looked into.
std::string FindIdxFile(const std::string& folder, const std::string& name);

}  // namespace tessera

#endif  // TESSERA_IO_IDX_FILE_H_
