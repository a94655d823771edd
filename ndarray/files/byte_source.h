#ifndef TESSERA_NDARRAY_FILES_BYTE_SOURCE_H_
#define TESSERA_NDARRAY_FILES_BYTE_SOURCE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tessera/ndarray/files/input_file.h"

namespace tessera::ndarray_internal {

/// A sequence of bytes of known length, read from front to back.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;

  /// Returns the source's name, with which errors begin.
  const std::string& name() const { return name_; }
  int64_t size_bytes() const { return size_bytes_; }
  /// Return the number of bytes that have been read, and that are left.
  int64_t offset() const { return offset_; }
  int64_t left() const { return size_bytes_ - offset_; }

  /// Reads the next bytes. Requires: as many are left. Throws Error if they cannot be read.
  void Read(void* data, int64_t size_bytes) {
    ReadNext(static_cast<char*>(data), size_bytes);
    offset_ += size_bytes;
  }

 protected:
  ByteSource(std::string name, int64_t size_bytes)
      : name_(std::move(name)), size_bytes_(size_bytes) {}

 private:
  virtual void ReadNext(char* data, int64_t size_bytes) = 0;

  const std::string name_;
  const int64_t size_bytes_;
  int64_t offset_ = 0;
};

/// Returns what DescribeForeignFile says of a source of which `first` has been read. Reads on.
std::string_view DescribeForeign(ByteSource& source, std::string_view first);

/// Bytes in memory, which must outlive the source.
class MemorySource final : public ByteSource {
 public:
  MemorySource(std::string name, std::string_view bytes)
      : ByteSource(std::move(name), static_cast<int64_t>(bytes.size())), next_(bytes.data()) {}

 private:
  void ReadNext(char* data, int64_t size_bytes) override;

  const char* next_;
};

/// A file. Small reads are buffered.
class FileSource final : public ByteSource {
 public:
  /// Throws what InputFile's constructor throws.
  FileSource(const std::string& operation, const std::string& path)
      : FileSource(InputFile(operation, path)) {}

 private:
  explicit FileSource(InputFile file)
      : ByteSource(file.name(), file.size_bytes()), file_(std::move(file)) {}

  void ReadNext(char* data, int64_t size_bytes) override;

  InputFile file_;
  std::vector<char> buffer_;  // bytes [next_, size) are still to be read
  size_t next_ = 0;
};

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_FILES_BYTE_SOURCE_H_
