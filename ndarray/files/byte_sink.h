#ifndef TESSERA_NDARRAY_FILES_BYTE_SINK_H_
#define TESSERA_NDARRAY_FILES_BYTE_SINK_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/atomic_file.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera::ndarray_internal {

/// Receives bytes from front to back.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  /// Appends bytes. Throws Error if they cannot be written.
  virtual void Write(const void* data, int64_t size_bytes) = 0;

  void WriteText(std::string_view text) { Write(text.data(), static_cast<int64_t>(text.size())); }
  template <typename T>
  void WriteNumber(T value) {
    Write(&value, sizeof(value));
  }
};

/// Appends the elements of an array in row-major order. Waits for them, and throws their errors.
void WriteElements(const NDArray& array, ByteSink& sink);

/// A file, which gets its name in Commit.
class FileSink final : public ByteSink {
 public:
  /// Throws what AtomicFile throws, as all members do.
  FileSink(const std::string& operation, const std::string& path) : file_(path, operation) {}
  void Write(const void* data, int64_t size_bytes) override { file_.Write(data, size_bytes); }
  void Commit() { file_.Commit(); }

 private:
  AtomicFile file_;
};

/// A string.
class StringSink final : public ByteSink {
 public:
  void Write(const void* data, int64_t size_bytes) override {
    bytes_.append(static_cast<const char*>(data), static_cast<size_t>(size_bytes));
  }
  std::string& bytes() { return bytes_; }

 private:
  std::string bytes_;
};

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_FILES_BYTE_SINK_H_
