#include "tessera/base/atomic_file.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "tessera/base/error.h"

namespace tessera {
namespace {

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

int OpenIn(int folder, const char* name, int flags) {
  int descriptor;
  do {
    descriptor = openat(folder, name, flags | O_CLOEXEC, 0666);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
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

/// Returns whether `name` in the folder is the open file.
bool IsFile(int folder, const char* name, int descriptor) {
  struct stat named, opened;
  return fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         fstat(descriptor, &opened) == 0 && S_ISREG(opened.st_mode) &&
         named.st_dev == opened.st_dev && named.st_ino == opened.st_ino;
}

/// Removes the temporary files that processes have left behind: those that nobody has locked. The
/// owner alone renames a locked file, so that under the lock a name stays what it is. A file system
/// without locks keeps all of them.
void Sweep(int folder, const std::string& prefix) {
  const int listed = OpenIn(folder, ".", O_RDONLY | O_DIRECTORY);
  if (listed < 0) return;  // a folder that may be written and not listed
  DIR* const entries = fdopendir(listed);
  if (entries == nullptr) {
    close(listed);
    return;
  }
  while (const dirent* const entry = readdir(entries)) {
    if (!std::string_view(entry->d_name).starts_with(prefix)) continue;
    // NFS locks what may be written; a file that replaces a read-only one may only be read.
    int left = OpenIn(folder, entry->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
    if (left < 0) left = OpenIn(folder, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (left < 0) continue;
    if (flock(left, LOCK_EX | LOCK_NB) == 0 && IsFile(folder, entry->d_name, left)) {
      unlinkat(folder, entry->d_name, 0);
    }
    close(left);
  }
  closedir(entries);
}

}  // namespace

AtomicFile::AtomicFile(std::string path, std::string operation)
    : path_(std::move(path)), operation_(std::move(operation)) {
  const std::string target = FollowLink(path_);
  const size_t slash = target.rfind('/');
  name_ = slash == std::string::npos ? target : target.substr(slash + 1);
  buffer_.reserve(kBufferBytes);
  try {
    OpenFolder(slash == std::string::npos ? "." : target.substr(0, slash + 1));
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

// Files are named relative to the open folder, which stays the same whatever becomes of its name.
void AtomicFile::OpenFolder(const std::string& folder) {
  folder_ = OpenIn(AT_FDCWD, folder.c_str(), O_RDONLY | O_DIRECTORY);
  // A folder that may be written and not listed.
  if (folder_ < 0 && errno == EACCES) {
    folder_ = OpenIn(AT_FDCWD, folder.c_str(), O_PATH | O_DIRECTORY);
  }
  if (folder_ < 0) Fail("cannot open its folder");
}

void AtomicFile::MakeTemporary() {
  const std::string prefix = TemporaryPrefix(name_);
  Sweep(folder_, prefix);
  // The process and a count keep writers apart.
  static std::atomic<unsigned> count{0};
  for (;;) {
    temporary_ = prefix + std::to_string(getpid()) + "." + std::to_string(count++);
    descriptor_ = OpenIn(folder_, temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL);
    if (descriptor_ < 0 && errno == EEXIST) continue;
    if (descriptor_ < 0) Fail("cannot make a file beside it");
    // Another writer's sweep may have met the file before it was locked. That writer then holds the
    // lock, or has removed the file.
    const bool locked = flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if (locked && IsFile(folder_, temporary_.c_str(), descriptor_)) return;
    close(std::exchange(descriptor_, -1));
  }
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
  const int error = errno;
  absl::StatusCode code = Error::kFailedPrecondition;
  if (error == ENOENT || error == ENOTDIR) code = Error::kNotFound;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    code = Error::kResourceExhausted;
  }
  throw Error(code, operation_ + ": " + path_ + ": " + what + ": " + std::strerror(error));
}

}  // namespace tessera
