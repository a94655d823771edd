#include "tessera/io/internal/byte_source.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "tessera/base/error.h"

namespace tessera::io_internal {
namespace {

class MemorySource final : public ByteSource {
 public:
  explicit MemorySource(std::span<const uint8_t> bytes) : bytes_(bytes), left_(bytes) {}

  int64_t Read(std::span<uint8_t> out) override {
    const size_t count = std::min(out.size(), left_.size());
    std::copy_n(left_.begin(), count, out.begin());
    left_ = left_.subspan(count);
    return static_cast<int64_t>(count);
  }
  std::optional<int64_t> BytesLeft() const override { return static_cast<int64_t>(left_.size()); }
  void Seek(int64_t offset) override {
    left_ = bytes_.subspan(std::min(static_cast<size_t>(offset), bytes_.size()));
  }

 private:
  const std::span<const uint8_t> bytes_;
  std::span<const uint8_t> left_;
};

class FileSource final : public ByteSource {
 public:
  explicit FileSource(const std::string& path) : path_(path) {
    // Opening a pipe without a writer blocks unless O_NONBLOCK is set. The flag has no effect on
    // files.
    file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file_ < 0) {
      const int reason = errno;
      if (reason == ENOENT || reason == ENOTDIR) throw NotFound(path, ": there is no such file");
      throw FailedPrecondition(path, ": the file cannot be opened: ", std::strerror(reason));
    }
    struct stat status;
    if (fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
      close(file_);
      throw InvalidArgument(path, ": is a folder or a device, expected a file");
    }
    size_ = status.st_size;
  }
  ~FileSource() override { close(file_); }

  int64_t Read(std::span<uint8_t> out) override {
    int64_t done = 0;
    while (done < static_cast<int64_t>(out.size())) {
      const ssize_t count = pread(file_, out.data() + done, out.size() - done, offset_);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        throw DataLoss(path_, ": reading at offset ", offset_, " failed: ", std::strerror(errno));
      }
      if (count == 0) break;
      done += count;
      offset_ += count;
    }
    return done;
  }
  std::optional<int64_t> BytesLeft() const override {
    return std::max<int64_t>(size_ - offset_, 0);
  }

  void Seek(int64_t offset) override { offset_ = offset; }

 private:
  const std::string path_;
  int file_ = -1;
  int64_t size_ = 0;
  int64_t offset_ = 0;
};

/// Decompresses the members of a gzip file (RFC 1952), one after the other.
class GunzipSource final : public ByteSource {
 public:
  GunzipSource(std::unique_ptr<ByteSource> packed, std::string name)
      : packed_(std::move(packed)), name_(std::move(name)) {
    constexpr int kGzipOnly = 16;  // zlib's flag in windowBits
    if (inflateInit2(&stream_, kGzipOnly + MAX_WBITS) != Z_OK) {
      throw ResourceExhausted(name_, ": no memory to unpack it");
    }
  }
  ~GunzipSource() override { inflateEnd(&stream_); }

  int64_t Read(std::span<uint8_t> out) override {
    constexpr size_t kMost = std::numeric_limits<uInt>::max();
    size_t done = 0;
    while (done < out.size() && (between_members_ ? NextMember() : true)) {
      Refill();
      const uInt room = static_cast<uInt>(std::min(out.size() - done, kMost));
      stream_.next_out = out.data() + done;
      stream_.avail_out = room;
      const int result = inflate(&stream_, Z_NO_FLUSH);
      done += room - stream_.avail_out;
      if (result == Z_STREAM_END) {
        between_members_ = true;
      } else if (result == Z_BUF_ERROR && stream_.avail_in == 0) {
        throw DataLoss(name_,
                       ": the compressed file is truncated; expected the end of its gzip data");
      } else if (result == Z_MEM_ERROR) {
        throw ResourceExhausted(name_, ": no memory to unpack it");
      } else if (result != Z_OK) {
        throw DataLoss(name_, ": the compressed file is damaged: ",
                       stream_.msg != nullptr ? stream_.msg : "expected gzip data");
      }
    }
    return static_cast<int64_t>(done);
  }

  std::optional<int64_t> BytesLeft() const override { return std::nullopt; }
  void Seek(int64_t /*offset*/) override {
    throw Unimplemented(name_, ": is compressed by gzip, and is read from front to back only");
  }

 private:
  void Refill() {
    if (stream_.avail_in > 0) return;
    stream_.next_in = buffer_.data();
    stream_.avail_in = static_cast<uInt>(packed_->Read(buffer_));
  }

  /// Advances to the next member. Returns false at the end of the file. Zeros may follow a member:
  /// tapes and block devices pad files, and gzip ignores the padding too.
  bool NextMember() {
    do {
      Refill();
      const uint8_t* const end = stream_.next_in + stream_.avail_in;
      const uint8_t* const next = std::find_if(static_cast<const uint8_t*>(stream_.next_in), end,
                                               [](uint8_t byte) { return byte != 0; });
      if (next == end && stream_.avail_in == 0) return false;
      stream_.avail_in = static_cast<uInt>(end - next);
      stream_.next_in = const_cast<uint8_t*>(next);
    } while (stream_.avail_in == 0);
    inflateReset(&stream_);
    between_members_ = false;
    return true;
  }

  std::unique_ptr<ByteSource> packed_;
  const std::string name_;
  z_stream stream_ = {};
  bool between_members_ = false;
  std::array<uint8_t, 1 << 15> buffer_;
};

bool IsGzip(std::span<const uint8_t> first) {
  return first.size() >= 2 && first[0] == 0x1f && first[1] == 0x8b;
}

}  // namespace

std::unique_ptr<ByteSource> OpenFile(const std::string& path) {
  auto file = std::make_unique<FileSource>(path);
  std::array<uint8_t, 2> first;
  const int64_t count = file->Read(first);
  file->Seek(0);
  if (!IsGzip(std::span(first).first(static_cast<size_t>(count)))) return file;
  return std::make_unique<GunzipSource>(std::move(file), path);
}

std::unique_ptr<ByteSource> OpenMemory(std::span<const uint8_t> bytes, std::string name) {
  auto memory = std::make_unique<MemorySource>(bytes);
  if (!IsGzip(bytes)) return memory;
  return std::make_unique<GunzipSource>(std::move(memory), std::move(name));
}

}  // namespace tessera::io_internal
