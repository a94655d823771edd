#ifndef TESSERA_TRAIN_EVENT_FILE_H_
#define TESSERA_TRAIN_EVENT_FILE_H_

#include <cstdint>
#include <fstream>
#include <string>
#include <string_view>

#include "tessera/base/dialect.h"

namespace tessera {

/// A file of numbers over time that TensorBoard shows: records in the framing of TFRecord, each
/// with one message Event. A file that a killed process leaves has at most its last record
/// incomplete, which TensorBoard ignores. Threads: one thread at a time calls an object.
class EventFile {
 public:
  /// Makes the folder unless it is there, and a new file in it. Throws Error(kFailedPrecondition)
  /// that names the file.
  explicit EventFile(const std::string& folder);

  /// Returns the file's path.
  const std::string& path() const { return path_; }
  /// Appends a number, which TensorBoard shows under `tag` at `step`. Throws
  /// Error(kResourceExhausted) that names the file if it cannot be written.
  void AddScalar(std::string_view tag, double value, int64_t step);

 private:
  void Write(const std::string& event);

  std::string path_;
  std::ofstream file_;
};

namespace train_internal {

/// Returns the message Event of a new file, and of a number, in Protocol Buffers' encoding. The
/// time is in seconds since 1970.
std::string FirstEvent(double time);
std::string ScalarEvent(double time, int64_t step, std::string_view tag, float value);

/// Returns a record of TFRecord: the length in 8 bytes, its checksum, the data and their checksum.
/// The checksums are CRC-32C, rotated and moved.
std::string RecordOf(std::string_view data);

}  // namespace train_internal
}  // namespace tessera

#endif  // TESSERA_TRAIN_EVENT_FILE_H_
