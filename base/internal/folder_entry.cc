#include "tessera/base/internal/folder_entry.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "tessera/base/error.h"

namespace tessera::base_internal {

int OpenIn(int folder, const char* name, int flags) {
  int descriptor;
  do {
    descriptor = openat(folder, name, flags | O_CLOEXEC, 0666);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

int OpenFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int descriptor = OpenIn(AT_FDCWD, folder.c_str(), O_RDONLY | O_DIRECTORY);
  if (descriptor >= 0 || errno != EACCES) return descriptor;
  // A folder that may be written and not listed.
  return OpenIn(AT_FDCWD, folder.c_str(), O_PATH | O_DIRECTORY);
}

std::string NameOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

bool IsEntry(int folder, const char* name, int descriptor) {
  struct stat named, opened;
  return fstatat(folder, name, &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         fstat(descriptor, &opened) == 0 && named.st_dev == opened.st_dev &&
         named.st_ino == opened.st_ino;
}

int MakeLockedEntry(int folder, const std::string& prefix,
                    const std::function<int(const char* name)>& make, std::string* name) {
  // The process and a count keep writers apart.
  static std::atomic<unsigned> count{0};
  for (;;) {
    *name = prefix + std::to_string(getpid()) + "." + std::to_string(count++);
    const int descriptor = make(name->c_str());
    if (descriptor < 0 && errno == EEXIST) continue;
    if (descriptor < 0) return -1;
    // The sweep may have met the entry before it was locked. The other writer then holds the lock,
    // or has removed the entry.
    const bool locked = flock(descriptor, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
    if (locked && IsEntry(folder, name->c_str(), descriptor)) return descriptor;
    close(descriptor);
  }
}

void SweepUnlocked(int folder, std::string_view prefix,
                   const std::function<void(const char* name)>& remove) {
  const int listed = OpenIn(folder, ".", O_RDONLY | O_DIRECTORY);
  if (listed < 0) return;
  DIR* const entries = fdopendir(listed);
  if (entries == nullptr) {
    close(listed);
    return;
  }
  while (const dirent* const entry = readdir(entries)) {
    if (!std::string_view(entry->d_name).starts_with(prefix)) continue;
    // NFS locks what may be written; a folder, or a file that replaces a read-only one, may only be
    // read.
    int left = OpenIn(folder, entry->d_name, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
    if (left < 0) left = OpenIn(folder, entry->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (left < 0) continue;
    // The owner alone renames a locked entry, so that under the lock a name stays what it is.
    if (flock(left, LOCK_EX | LOCK_NB) == 0 && IsEntry(folder, entry->d_name, left)) {
      remove(entry->d_name);
    }
    close(left);
  }
  closedir(entries);
}

void ThrowFileError(const std::string& operation, const std::string& path, const char* what) {
  const int error = errno;
  absl::StatusCode code = Error::kFailedPrecondition;
  if (error == ENOENT || error == ENOTDIR) code = Error::kNotFound;
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) code = Error::kResourceExhausted;
  throw Error(code, operation + ": " + path + ": " + what + ": " + std::strerror(error));
}

}  // namespace tessera::base_internal
