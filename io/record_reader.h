#ifndef TESSERA_IO_RECORD_READER_H_
#define TESSERA_IO_RECORD_READER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {

namespace io_internal {
class ByteSource;
}  // namespace io_internal

/// Reads a RecordIO file, the format of MXNet's record files; docs/file-formats.md describes it.
///
///     RecordReader reader("train.rec");
///     while (const auto record = reader.ReadRecord()) Use(*record);
///
/// Memory is allocated as bytes are read, so a damaged length costs no more than the file has.
/// Threads: one thread at a time uses a reader.
class RecordReader {
 public:
  /// Opens a file. One that is compressed by gzip can be read from front to back only. Throws
  /// Error: kNotFound if it does not exist, kFailedPrecondition if it cannot be opened,
  /// kInvalidArgument if it is not a file.
  explicit RecordReader(const std::string& path);
  /// Reads contents in memory, which the caller keeps alive. Errors call them `name`.
  RecordReader(std::span<const uint8_t> contents, std::string name);
  ~RecordReader();
  RecordReader(RecordReader&&) noexcept;
  RecordReader& operator=(RecordReader&&) noexcept;

  /// Reads the next record; none at the end of the file. The bytes are valid until the next call.
  /// Throws Error(kDataLoss) that names the file, the offset, the value found and the value
  /// expected: for a wrong magic number, a missing part of a record, and a truncated file. Seek
  /// then goes to another record.
  std::optional<std::string_view> ReadRecord();

  /// Goes to an offset that RecordWriter::Tell or Tell has returned between two records. An offset
  /// beyond the end is the end. Throws Error(kInvalidArgument) if it is negative, and
  /// Error(kUnimplemented) if the file is compressed.
  void Seek(int64_t offset_bytes);
  /// Returns the offset of the next record from the file's beginning.
  int64_t Tell() const { return offset_; }

 private:
  struct Header;

  std::optional<Header> ReadHeader();
  std::string_view ReadPart(const Header& header);
  bool Require(size_t count);
  void Skip(size_t count);

  std::unique_ptr<io_internal::ByteSource> source_;
  std::string name_;
  int64_t offset_ = 0;  // of the next byte
  std::unique_ptr<uint8_t[]> buffer_;
  size_t capacity_ = 0;     // of the buffer
  size_t at_ = 0;           // of the next byte in the buffer
  size_t end_ = 0;          // of the bytes in the buffer
  size_t block_bytes_ = 0;  // what was read last
  std::string record_;      // one that has several parts
};

/// Reads the records of a RecordIO file by their keys, which stand with the offsets in a text file:
/// MXNet's MXIndexedRecordIO with integers as keys. Each line of that file is a key, a tab and an
/// offset.
///
/// Threads: one thread at a time uses a reader.
class IndexedRecordReader {
 public:
  /// Opens both files. Throws what RecordReader's constructor throws, and Error(kDataLoss) that
  /// names the index's line and the text found if it is not a key and an offset.
  IndexedRecordReader(const std::string& index_path, const std::string& path);

  /// Returns the keys in the order of the index.
  const std::vector<int64_t>& keys() const { return keys_; }

  /// Reads the record of a key, of which the index's last line counts. The bytes are valid until
  /// the next call. Throws Error(kNotFound) if there is no such key, Error(kDataLoss) if its offset
  /// is the end of the file, and what RecordReader::ReadRecord throws.
  std::string_view ReadRecord(int64_t key);

 private:
  const std::string index_path_;
  RecordReader reader_;
  std::vector<int64_t> keys_;
  std::map<int64_t, int64_t> offsets_;
};

}  // namespace tessera

#endif  // TESSERA_IO_RECORD_READER_H_
