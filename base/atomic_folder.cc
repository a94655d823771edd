#include "tessera/base/atomic_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/internal/folder_entry.h"

namespace tessera {
namespace {

using base_internal::OpenIn;
using base_internal::ThrowFileError;

constexpr const char* kPrefix = ".tmp.folder.";

/// Returns the path without slashes at its end.
std::string WithoutSlashes(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

/// Removes a folder and its files as far as that is possible.
void RemoveEntries(int place, const char* name) {
  const int listed = OpenIn(place, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
  if (listed >= 0) {
    DIR* const entries = fdopendir(listed);
    if (entries == nullptr) {
      close(listed);
    } else {
      while (const dirent* const entry = readdir(entries)) unlinkat(listed, entry->d_name, 0);
      closedir(entries);
    }
  }
  unlinkat(place, name, AT_REMOVEDIR);
}

/// Makes a folder with a temporary name, and returns its descriptor, or -1 with errno.
int MakeTemporary(int place, std::string* name) {
  return base_internal::MakeLockedEntry(
      place, kPrefix,
      [place](const char* made) {
        if (mkdirat(place, made, 0777) != 0) return -1;
        const int descriptor = OpenIn(place, made, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        // Another writer's sweep may have removed it.
        if (descriptor < 0 && errno == ENOENT) errno = EEXIST;
        return descriptor;
      },
      name);
}

}  // namespace

AtomicFolder::AtomicFolder(std::string path, std::string operation)
    : path_(WithoutSlashes(std::move(path))), operation_(std::move(operation)) {
  name_ = base_internal::NameOf(path_);
  try {
    place_ = base_internal::OpenFolderOf(path_);
    if (place_ < 0) Fail("cannot open its place");
    struct stat old;
    const bool replaces = fstatat(place_, name_.c_str(), &old, AT_SYMLINK_NOFOLLOW) == 0;
    // A name that is too long fails here, and not when all is written.
    if (!replaces && errno != ENOENT) Fail("cannot be replaced");
    if (name_.empty() || name_ == "." || name_ == ".." || (replaces && !S_ISDIR(old.st_mode))) {
      throw FailedPrecondition(operation_, ": ", path_, " is there and is not a folder");
    }
    base_internal::SweepUnlocked(place_, kPrefix,
                                 [this](const char* name) { RemoveEntries(place_, name); });
    descriptor_ = MakeTemporary(place_, &temporary_);
    if (descriptor_ < 0) Fail("cannot make a folder beside it");
  } catch (...) {
    Close();
    throw;
  }
}

AtomicFolder::~AtomicFolder() {
  if (descriptor_ >= 0) RemoveEntries(place_, temporary_.c_str());
  Close();
}

std::string AtomicFolder::PathOf(const std::string& name) const {
  return path_.substr(0, path_.size() - name_.size()) + temporary_ + "/" + name;
}

void AtomicFolder::Commit() {
  // The files' names must be on disk before the folder's is.
  if (fsync(descriptor_) != 0) Fail("cannot bring to disk");
  const bool is_new = renameat(place_, temporary_.c_str(), place_, name_.c_str()) == 0;
  if (!is_new && errno != EEXIST && errno != ENOTEMPTY) Fail("cannot make");
  if (!is_new) Replace();
  // So that the new name lasts too. Not every file system can do this to a folder, and then there
  // is nothing to be done.
  fsync(place_);
  if (!is_new) RemoveEntries(place_, temporary_.c_str());
  Close();
}

/// Gives the old folder the temporary name, and the new one its own.
void AtomicFolder::Replace() {
  if (renameat2(place_, temporary_.c_str(), place_, name_.c_str(), RENAME_EXCHANGE) == 0) return;
  std::string old;
  const int made = MakeTemporary(place_, &old);
  if (made < 0) Fail("cannot make a folder beside it");
  // The empty folder that `old` names is replaced.
  const bool done = renameat(place_, name_.c_str(), place_, old.c_str()) == 0 &&
                    renameat(place_, temporary_.c_str(), place_, name_.c_str()) == 0;
  if (!done) {
    const int error = errno;
    // Nothing happens if the old folder has its name still.
    if (renameat(place_, old.c_str(), place_, name_.c_str()) != 0) {
      unlinkat(place_, old.c_str(), AT_REMOVEDIR);
    }
    close(made);
    errno = error;
    Fail("cannot replace");
  }
  close(made);
  temporary_ = old;
}

void AtomicFolder::Close() {
  if (descriptor_ >= 0) close(std::exchange(descriptor_, -1));
  if (place_ >= 0) close(std::exchange(place_, -1));
}

void AtomicFolder::Fail(const char* what) const { ThrowFileError(operation_, path_, what); }

void RemoveFolder(const std::string& path, const std::string& operation) {
  const std::string plain = WithoutSlashes(path);
  const int place = base_internal::OpenFolderOf(plain);
  if (place < 0) ThrowFileError(operation, plain, "cannot open its place");
  std::string temporary;
  const int made = MakeTemporary(place, &temporary);
  const bool done = made >= 0 && renameat(place, base_internal::NameOf(plain).c_str(), place,
                                          temporary.c_str()) == 0;
  const int error = errno;
  if (done) fsync(place);
  // The empty folder, if the other one could not take its name.
  if (made >= 0) RemoveEntries(place, temporary.c_str());
  if (made >= 0) close(made);
  close(place);
  errno = error;
  if (!done) ThrowFileError(operation, plain, "cannot remove");
}

}  // namespace tessera
