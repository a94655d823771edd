#ifndef TESSERA_BASE_INTERNAL_FOLDER_ENTRY_H_
#define TESSERA_BASE_INTERNAL_FOLDER_ENTRY_H_

#include <functional>
#include <string>
#include <string_view>

// Temporary entries beside their final names, locked while they are in use: files and folders that
// appear at once share them.
namespace tessera::base_internal {

/// Opens an entry of an open folder, whatever signals interrupt. Returns -1 with errno if it fails.
int OpenIn(int folder, const char* name, int flags);

/// Opens the folder of a path, in which OpenIn finds entries. Returns -1 with errno if it fails.
int OpenFolderOf(const std::string& path);

/// Returns the last part of a path.
std::string NameOf(const std::string& path);

/// Returns whether `name` in the folder is the open file or folder.
bool IsEntry(int folder, const char* name, int descriptor);

/// Makes an entry whose name begins with `prefix`, and locks it (flock). `make` makes it under a
/// name and returns its descriptor, or -1 with errno; EEXIST asks for another name. Returns the
/// descriptor and sets `name`, or returns -1 with errno.
int MakeLockedEntry(int folder, const std::string& prefix,
                    const std::function<int(const char* name)>& make, std::string* name);

/// Calls `remove` with the name of each entry that begins with `prefix` and that no process has
/// locked, under the lock. A folder that may not be listed and a file system without locks keep
/// all of them.
void SweepUnlocked(int folder, std::string_view prefix,
                   const std::function<void(const char* name)>& remove);

/// Throws the Error for errno: "operation: path: what: ". kNotFound for a folder that is not there,
/// kResourceExhausted for a full disk, kFailedPrecondition for anything else.
[[noreturn]] void ThrowFileError(const std::string& operation, const std::string& path,
                                 const char* what);

}  // namespace tessera::base_internal

#endif  // TESSERA_BASE_INTERNAL_FOLDER_ENTRY_H_
