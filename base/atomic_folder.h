#ifndef TESSERA_BASE_ATOMIC_FOLDER_H_
#define TESSERA_BASE_ATOMIC_FOLDER_H_

#include <string>

#include "tessera/base/dialect.h"

namespace tessera {

/// Makes a folder of files so that under its name there is always either the old folder or all of
/// the new one: a temporary folder in the same place, which Commit brings to disk and renames.
///
///     AtomicFolder folder("out/0000000001", "SaveTraining");
///     SaveNDArrays(folder.PathOf("weights.params"), arrays);  // an AtomicFile
///     folder.Commit();
///
/// The program brings each file to disk itself, as AtomicFile does; folders in the folder are not
/// supported. The temporary folder has a hidden name and stays locked (flock) as long as it is in
/// use. A process that is killed leaves an unlocked one behind, which the next AtomicFolder in the
/// same place removes.
///
/// Every member throws Error that names the operation and the folder: kNotFound if the place is not
/// there, kResourceExhausted if the disk is full, kFailedPrecondition for anything else that the
/// system refuses. One thread at a time uses an object. The process keeps its working folder
/// meanwhile if the path is relative.
class AtomicFolder {
 public:
  /// Makes the temporary folder. `operation` begins every error.
  AtomicFolder(std::string path, std::string operation);
  /// Without Commit, removes the temporary folder and leaves the old one as it was.
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  /// Returns the path of a file in the temporary folder.
  std::string PathOf(const std::string& name) const;

  /// Makes the folder permanent; nothing may be written afterwards. A folder that was there before
  /// is exchanged in one step where the system can do that (Linux, on its usual file systems), and
  /// else in two, between which there is none; it is then removed.
  void Commit();

 private:
  void Replace();
  void Close();
  [[noreturn]] void Fail(const char* what) const;

  const std::string path_;
  const std::string operation_;
  std::string name_;       // of the folder that is replaced, in its place
  std::string temporary_;  // of the temporary folder, in the same place
  int place_ = -1;
  int descriptor_ = -1;
};

/// Removes a folder of files so that under its name there is always all of it or none. Throws what
/// AtomicFolder throws, and Error(kNotFound) if there is no such folder.
void RemoveFolder(const std::string& path, const std::string& operation);

}  // namespace tessera

#endif  // TESSERA_BASE_ATOMIC_FOLDER_H_
