#ifndef TESSERA_NDARRAY_FILES_INPUT_FILE_H_
#define TESSERA_NDARRAY_FILES_INPUT_FILE_H_

#include <cstdint>
#include <string>
#include <utility>

namespace tessera::ndarray_internal {

/// An ordinary file that is open for reading.
class InputFile {
 public:
  /// `operation` begins every error. Throws Error(kNotFound), or Error(kFailedPrecondition) if the
  /// file may not be read or is not an ordinary file.
  InputFile(const std::string& operation, const std::string& path);
  ~InputFile();
  InputFile(InputFile&& other) noexcept
      : name_(std::move(other.name_)),
        descriptor_(std::exchange(other.descriptor_, -1)),
        size_bytes_(other.size_bytes_) {}
  InputFile& operator=(InputFile&&) = delete;

  /// Returns the operation and the path, with which errors begin.
  const std::string& name() const { return name_; }
  /// Returns the size that the file had when it was opened.
  int64_t size_bytes() const { return size_bytes_; }

  /// Reads the next bytes, at least one, and returns their number. Requires: size_bytes > 0. Throws
  /// Error(kDataLoss) if the file has ended or cannot be read.
  int64_t ReadSome(void* data, int64_t size_bytes);

  /// Returns the descriptor, which the caller closes.
  int Release() { return std::exchange(descriptor_, -1); }

 private:
  std::string name_;
  int descriptor_ = -1;
  int64_t size_bytes_ = 0;
};

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_FILES_INPUT_FILE_H_
