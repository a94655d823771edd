#include "tessera/ndarray/files/byte_source.h"

#include <algorithm>
#include <cstring>

#include "tessera/base/foreign_file.h"

namespace tessera::ndarray_internal {
namespace {

constexpr int64_t kBufferBytes = 1 << 16;

}  // namespace

std::string_view DescribeForeign(ByteSource& source, std::string_view first) {
  std::string bytes(first);
  bytes.resize(static_cast<size_t>(std::min<int64_t>(source.size_bytes(), 64)));
  source.Read(bytes.data() + first.size(), static_cast<int64_t>(bytes.size() - first.size()));
  return DescribeForeignFile(bytes);
}

void MemorySource::ReadNext(char* data, int64_t size_bytes) {
  // Copying nothing from or to null is undefined.
  if (size_bytes == 0) return;
  std::memcpy(data, next_, static_cast<size_t>(size_bytes));
  next_ += size_bytes;
}

void FileSource::ReadNext(char* data, int64_t size_bytes) {
  while (size_bytes > 0) {
    const auto buffered = static_cast<int64_t>(buffer_.size() - next_);
    if (buffered == 0 && size_bytes >= kBufferBytes) {
      const int64_t read = file_.ReadSome(data, size_bytes);
      data += read;
      size_bytes -= read;
    } else if (buffered == 0) {
      next_ = 0;
      buffer_.resize(kBufferBytes);
      buffer_.resize(static_cast<size_t>(file_.ReadSome(buffer_.data(), kBufferBytes)));
    } else {
      const int64_t piece = std::min(size_bytes, buffered);
      std::memcpy(data, buffer_.data() + next_, static_cast<size_t>(piece));
      next_ += static_cast<size_t>(piece);
      data += piece;
      size_bytes -= piece;
    }
  }
}

}  // namespace tessera::ndarray_internal
