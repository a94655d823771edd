#ifndef TESSERA_BASE_ATOMIC_FILE_H_
#define TESSERA_BASE_ATOMIC_FILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tessera/base/dialect.h"

namespace tessera {

/// Writes a file so that under its name there is always either the old contents or all of the new:
/// into a temporary file in the same folder, which Commit brings to disk and renames. A link is
/// followed, so that its target is replaced; the new file has the permissions of the old one.
///
///     AtomicFile file("model-0001.params", "SaveNDArrays");
///     file.Write(bytes.data(), bytes.size());
///     file.Commit();
///
/// The temporary file has a short hidden name and stays locked (flock) as long as it is in use. A
/// process that is killed leaves an unlocked one behind, which the next AtomicFile for the same
/// path removes.
///
/// Every member throws Error that names the operation and the file: kNotFound if the folder is not
/// there, kResourceExhausted if the disk is full, kFailedPrecondition for anything else that the
/// system refuses. One thread at a time uses an object; several objects may write the same path,
/// whose contents are then those of the last Commit. The process may change its working folder
/// meanwhile.
class AtomicFile {
 public:
  /// Makes the temporary file. `operation` begins every error.
  AtomicFile(std::string path, std::string operation);
  /// Without Commit, removes the temporary file and leaves the old one as it was.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /// Appends bytes; they reach the disk at the latest with Commit.
  void Write(const void* data, int64_t size_bytes);

  /// Makes the contents permanent; nothing may be written afterwards.
  void Commit();

 private:
  void MakeTemporary();
  void Flush();
  void WriteThrough(const char* data, int64_t size_bytes);
  void Close();
  [[noreturn]] void Fail(const char* what) const;

  const std::string path_;
  const std::string operation_;
  std::string name_;       // of the file that is replaced, in its folder
  std::string temporary_;  // of the temporary file, in the same folder
  int folder_ = -1;
  int descriptor_ = -1;
  std::vector<char> buffer_;
};

}  // namespace tessera

#endif  // TESSERA_BASE_ATOMIC_FILE_H_
