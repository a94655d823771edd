#include "tessera/base/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/internal/folder_entry.h"

namespace tessera {
namespace {

using base_internal::OpenIn;

// Small writes (headers, names) meet here; large ones go past it.
constexpr int64_t kBufferBytes = 1 << 16;

/// Where the path leads if it is a link to something that exists; else the path itself.
std::string FollowLink(const std::string& path) {
  struct stat status;
  if (lstat(path.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return path;
  const std::unique_ptr<char, decltype(&std::free)> target(realpath(path.c_str(), nullptr),
                                                           &std::free);
  return target == nullptr ? path : target.get();
}

/// Returns the beginning of the names of all temporary files for `name`. A hash stands for it,
/// since a name of 255 bytes has no room for more. (FNV-1a of 64 bits, by Fowler, Noll and Vo.)
std::string TemporaryPrefix(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  std::string text = ".tmp.";
  for (int shift = 60; shift >= 0; shift -= 4) text += "0123456789abcdef"[(hash >> shift) & 15];
  return text + ".";
}

}  // namespace

AtomicFile::AtomicFile(std::string path, std::string operation)
    : path_(std::move(path)), operation_(std::move(operation)) {
  const std::string target = FollowLink(path_);
  name_ = base_internal::NameOf(target);
  buffer_.reserve(kBufferBytes);
  try {
    // Files are named relative to the open folder, which stays the same whatever becomes of its
    // name.
    folder_ = base_internal::OpenFolderOf(target);
    if (folder_ < 0) Fail("cannot open its folder");
    struct stat old;
    const bool replaces = fstatat(folder_, name_.c_str(), &old, 0) == 0;
    // A name that is too long fails here, and not when all is written.
    if (!replaces && errno != ENOENT) Fail("cannot be replaced");
    if (name_.empty() || (replaces && !S_ISREG(old.st_mode))) {
      throw FailedPrecondition(operation_, ": ", path_, " is there and is not an ordinary file");
    }
    MakeTemporary();
    // Where a file system knows no permissions, there are none to keep.
    if (replaces) fchmod(descriptor_, old.st_mode & 07777);
  } catch (...) {
    Close();
    throw;
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ >= 0) unlinkat(folder_, temporary_.c_str(), 0);
  Close();
}

void AtomicFile::MakeTemporary() {
  const std::string prefix = TemporaryPrefix(name_);
  base_internal::SweepUnlocked(folder_, prefix,
                               [this](const char* name) { unlinkat(folder_, name, 0); });
  descriptor_ = base_internal::MakeLockedEntry(
      folder_, prefix,
      [this](const char* name) { return OpenIn(folder_, name, O_WRONLY | O_CREAT | O_EXCL); },
      &temporary_);
  if (descriptor_ < 0) Fail("cannot make a file beside it");
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
  if (renameat(folder_, temporary_.c_str(), folder_, name_.c_str()) != 0) Fail("cannot replace");
  // So that the new name lasts too. Not every file system can do this to a folder, and then there
  // is nothing to be done.
  fsync(folder_);
  Close();
}

void AtomicFile::Close() {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
  if (folder_ >= 0) close(std::exchange(folder_, -1));
}

void AtomicFile::Fail(const char* what) const {
  base_internal::ThrowFileError(operation_, path_, what);
}

}  // namespace tessera
