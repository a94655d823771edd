#ifndef TESSERA_IO_INTERNAL_BYTE_SOURCE_H_
#define TESSERA_IO_INTERNAL_BYTE_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace tessera::io_internal {

/// A sequence of bytes: a file, memory, or either decompressed.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// Fills `out` with the next bytes and returns their number, which is less than requested only at
  /// the end. Throws Error that names the source: kDataLoss if its contents are damaged.
  virtual int64_t Read(std::span<uint8_t> out) = 0;

  /// Returns the number of bytes left, if it is known without reading them.
  virtual std::optional<int64_t> BytesLeft() const = 0;

  /// Goes to an offset from the beginning, at which the next Read begins; beyond the end, Read
  /// returns 0. Throws Error(kUnimplemented) if the source is compressed.
  virtual void Seek(int64_t offset) = 0;
};

/// Opens a file, which is decompressed if it begins like a gzip file. Throws Error that names it:
/// kNotFound if it does not exist, kFailedPrecondition if it cannot be opened, kInvalidArgument if
/// it is a folder or has no size.
std::unique_ptr<ByteSource> OpenFile(const std::string& path);

/// Returns a source of bytes that the caller keeps alive, decompressed if they begin like a gzip
/// file. Errors call them `name`.
std::unique_ptr<ByteSource> OpenMemory(std::span<const uint8_t> bytes, std::string name);

}  // namespace tessera::io_internal

#endif  // TESSERA_IO_INTERNAL_BYTE_SOURCE_H_
