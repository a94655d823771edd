#ifndef TESSERA_IO_RECORD_WRITER_H_
#define TESSERA_IO_RECORD_WRITER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "tessera/base/error.h"

namespace tessera {

/// Writes a RecordIO file, the format of MXNet's record files; docs/file-formats.md describes it.
///
///     RecordWriter writer("train.rec");
///     for (const std::string& record : records) writer.WriteRecord(record);
///     writer.Close();
///
/// The file grows under its own name, since it may be too large to exist twice. A crash leaves the
/// records written so far, the last one perhaps truncated.
/// Threads: one thread at a time uses a writer.
class RecordWriter {
 public:
  /// Creates the file, or empties it. Throws Error: kNotFound if its folder does not exist,
  /// kFailedPrecondition if it cannot be opened.
  explicit RecordWriter(const std::string& path);
  /// Closes the file. Call Close before to see its errors.
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  /// Appends a record of any bytes. Throws Error(kInvalidArgument) for 2^29 bytes or more, and what
  /// Close throws.
  void WriteRecord(std::string_view record);

  /// Returns the offset of the next record, for RecordReader::Seek.
  int64_t Tell() const { return offset_; }

  /// Writes what is buffered and closes the file; afterwards nothing may be written. Throws Error
  /// that names the file: kResourceExhausted if the disk is full, kFailedPrecondition for anything
  /// else that the system refuses.
  void Close();

 private:
  void WritePart(uint32_t part, std::string_view bytes);
  void Append(std::string_view bytes);
  void Flush();
  [[noreturn]] void Fail(const char* what) const;

  const std::string path_;
  int file_ = -1;
  int64_t offset_ = 0;
  std::string buffer_;
};

}  // namespace tessera

#endif  // TESSERA_IO_RECORD_WRITER_H_
