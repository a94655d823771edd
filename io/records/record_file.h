#ifndef TESSERA_IO_RECORDS_RECORD_FILE_H_
#define TESSERA_IO_RECORDS_RECORD_FILE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/io/internal/byte_source.h"
#include "tessera/io/record_reader.h"

namespace tessera::io_internal {

/// A part of a RecordIO file whose records are read in their order or a shuffled one, again and
/// again.
class RecordFile {
 public:
  /// A record, and its place in the file.
  struct Record {
    std::string bytes;
    int64_t offset = 0;
  };

  /// Opens part `part_index` of `num_parts`: the records that begin in one of the intervals of
  /// equal length into which the file is divided, as in MXNet. Throws what RecordReader's
  /// constructor throws, and Error(kUnimplemented) if the file is compressed.
  RecordFile(const std::string& path, int num_parts, int part_index);

  /// Returns to the beginning. With `order`, the records' order is drawn from it; else it is the
  /// file's. The first shuffled pass reads the headers of all records.
  void Rewind();
  void Shuffle(uint64_t order);

  /// Returns and sets the place of the next record: in a shuffled pass the number of records before
  /// it, else its offset in the file. Throws Error(kDataLoss) for a place outside of the pass.
  int64_t position() const { return is_shuffled_ ? static_cast<int64_t>(position_) : next_; }
  void SetPosition(int64_t position);

  /// Reads the next record. Returns false at the end. Throws what RecordReader::ReadRecord throws;
  /// the next call then goes on behind the damage.
  bool Read(Record* record);

  /// The beginning of a record of the part, in the file's order.
  struct Beginning {
    int64_t offset = 0;              ///< of the record in the file
    std::span<const uint8_t> bytes;  ///< those of the record, and perhaps others behind it
    int64_t part_bytes = 0;          ///< the length that the record's first part claims
  };

  /// Calls `visit` for each record with up to `count` bytes; a damaged record has none.
  void ReadBeginnings(size_t count, const std::function<void(const Beginning&)>& visit) const;

  const std::string& path() const { return path_; }

 private:
  int64_t FindRecord(int64_t from) const;
  void ListOffsets();

  const std::string path_;
  const std::unique_ptr<ByteSource> bytes_;
  RecordReader reader_;
  int64_t size_bytes_ = 0;       // of the file
  int64_t begin_ = 0, end_ = 0;  // of the part
  int64_t next_ = 0;             // where the next record begins, or damage
  bool is_shuffled_ = false;
  bool is_listed_ = false;
  std::vector<int64_t> offsets_;  // of all records, in the pass's order
  size_t position_ = 0;           // in offsets_
};

}  // namespace tessera::io_internal

#endif  // TESSERA_IO_RECORDS_RECORD_FILE_H_
