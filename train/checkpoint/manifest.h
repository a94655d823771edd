#ifndef TESSERA_TRAIN_CHECKPOINT_MANIFEST_H_
#define TESSERA_TRAIN_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::train_internal {

/// A file of a checkpoint.
struct ManifestFile {
  std::string name;
  int64_t size_bytes = 0;
  uint32_t checksum = 0;  // CRC-32C
};

/// The list of a checkpoint's files:
///
///     tessera-checkpoint 1
///     step 1200
///     file state.params 5321 0a1b2c3d
///     end 4e5f6071
///
/// with the checksum of all lines before the last.
struct Manifest {
  int64_t step = 0;
  std::vector<ManifestFile> files;
};

/// Returns the size and checksum of a file. Throws Error(kDataLoss) that names it if it cannot be
/// read.
ManifestFile Measure(const std::string& folder, const std::string& name);

/// Returns the manifest's text.
std::string WriteManifest(const Manifest& manifest);

/// Reads the text. `path` begins errors: kDataLoss, with what was found and expected, for anything
/// that WriteManifest does not write for these names of files, and kUnimplemented for another
/// version.
Manifest ReadManifest(const std::string& path, std::string_view text,
                      const std::vector<std::string>& names);

}  // namespace tessera::train_internal

#endif  // TESSERA_TRAIN_CHECKPOINT_MANIFEST_H_
