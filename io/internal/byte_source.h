#ifndef TESSERA_IO_INTERNAL_BYTE_SOURCE_H_
#define TESSERA_IO_INTERNAL_BYTE_SOURCE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace tessera::io_internal {

/// Bytes that come one after the other: a file, a piece of memory, or either unpacked.
class ByteSource {
 public:
  virtual ~ByteSource() = default;

  /// Fills `out` as far as there are bytes and returns how many there were: fewer than asked for
  /// only at the end. Throws Error that names the source: kDataLoss if what it holds is damaged.
  virtual int64_t Read(std::span<uint8_t> out) = 0;

  /// How many bytes follow, if that can be told without reading them.
  virtual std::optional<int64_t> BytesLeft() const = 0;
};

/// A file, unpacked on the way if it begins like a gzip file.
/// Throws Error that names it: kNotFound if it is not there, kFailedPrecondition if it cannot be
/// opened, kInvalidArgument if it is a folder or anything else that has no size.
std::unique_ptr<ByteSource> OpenFile(const std::string& path);

/// The same for bytes that the caller keeps alive; errors name them `name`.
std::unique_ptr<ByteSource> OpenMemory(std::span<const uint8_t> bytes, std::string name);

}  // namespace tessera::io_internal

#endif  // TESSERA_IO_INTERNAL_BYTE_SOURCE_H_
