#include "tessera/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// Small writes (headers, names) meet here; large ones go past it.
constexpr int64_t kBufferBytes = 1 << 16;

std::string Folder(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// Where the path leads if it is a link to something that exists; else the path itself.
std::string FollowLink(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return path;
  const std::unique_ptr<char, decltype(&std::free)> target(realpath(path.c_str(), nullptr),
                                                           &std::free);
  return target == nullptr ? path : target.get();
}

int OpenNew(const std::string& path) {
  int descriptor;
  do {
    descriptor = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

}  // namespace

AtomicFile::AtomicFile(std::string path, std::string operation)
    : path_(std::move(path)), operation_(std::move(operation)), target_(FollowLink(path_)) {
  struct stat old;
  const bool replaces = stat(target_.c_str(), &old) == 0;
  if (replaces && !S_ISREG(old.st_mode)) {
    throw FailedPrecondition(operation_, ": ", path_, " is there and is not an ordinary file");
  }
  buffer_.reserve(kBufferBytes);
  // The process and a count keep writers apart; a file that a crash left behind is passed over.
  static std::atomic<unsigned> count{0};
  do {
    temporary_ = target_ + ".tmp." + std::to_string(getpid()) + "." + std::to_string(count++);
    descriptor_ = OpenNew(temporary_);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) Fail("cannot make a file beside it");
  // Where a file system knows no permissions, there are none to keep.
  if (replaces) fchmod(descriptor_, old.st_mode & 07777);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  unlink(temporary_.c_str());
}

void AtomicFile::Write(const void* data, int64_t size_bytes) {
  const char* const bytes = static_cast<const char*>(data);
  if (size_bytes > kBufferBytes - static_cast<int64_t>(buffer_.size())) Flush();
  if (size_bytes >= kBufferBytes) {
    WriteThrough(bytes, size_bytes);
  } else {
    buffer_.insert(buffer_.end(), bytes, bytes + size_bytes);
  }
}

void AtomicFile::Flush() {
  WriteThrough(buffer_.data(), static_cast<int64_t>(buffer_.size()));
  buffer_.clear();
}

void AtomicFile::WriteThrough(const char* data, int64_t size_bytes) {
  while (size_bytes > 0) {
    const ssize_t written = write(descriptor_, data, static_cast<size_t>(size_bytes));
    if (written < 0) {
      if (errno == EINTR) continue;
      Fail("cannot write");
    }
    data += written;
    size_bytes -= written;
  }
}

void AtomicFile::Commit() {
  Flush();
  // The contents must be on disk before the name is: a crash between the two would otherwise leave
  // the name with an empty file.
  if (fsync(descriptor_) != 0) Fail("cannot bring to disk");
  if (std::rename(temporary_.c_str(), target_.c_str()) != 0) Fail("cannot replace");
  close(descriptor_);
  descriptor_ = -1;
  // So that the new name lasts too. Not every file system can do this to a folder, and then there
  // is nothing to be done.
  const int folder = open(Folder(target_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    fsync(folder);
    close(folder);
  }
}

void AtomicFile::Fail(const char* what) const {
  const int error = errno;
  absl::StatusCode code = Error::kFailedPrecondition;
  if (error == ENOENT || error == ENOTDIR) code = Error::kNotFound;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    code = Error::kResourceExhausted;
  }
  throw Error(code, operation_ + ": " + path_ + ": " + what + ": " + std::strerror(error));
}

}  // namespace tessera
