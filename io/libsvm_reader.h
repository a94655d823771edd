#ifndef TESSERA_IO_LIBSVM_READER_H_
#define TESSERA_IO_LIBSVM_READER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/error.h"

namespace tessera {

namespace io_internal {
class TextSource;
}  // namespace io_internal

/// A row of a LibSVM file.
struct LibSvmRow {
  float label = 0;               ///< the number before the elements
  std::vector<int64_t> columns;  ///< the positions of the elements, which rise
  std::vector<float> values;     ///< the elements at these positions; the others are 0
};

/// Reads the rows of a LibSVM file, in memory for one row.
///
/// The format: a row is a line with a label and then fields `index:value`, separated by spaces or
/// tabs. Indices count from 0, in any order; elements without a field are 0, and the last of
/// several fields with one index counts. Lines end, and numbers are written, as CsvReader
/// describes. Empty lines are ignored, and so is what follows a `#`.
///
/// Every error is Error(kDataLoss) unless noted, and names the file, the line, the text found and
/// the form expected. After one, the reader's position is not specified.
/// Threads: one thread at a time uses a reader.
class LibSvmReader {
 public:
  /// Opens part `part_index` of `num_parts` of a file: the lines that begin in one of the intervals
  /// of equal length into which the file is divided. A whole file may be compressed by gzip. Errors
  /// count the lines of the part. Throws Error: kNotFound if the file does not exist,
  /// kFailedPrecondition if it cannot be opened, kInvalidArgument if it is not a file or there is
  /// no such part, kUnimplemented for parts of a compressed file.
  explicit LibSvmReader(const std::string& path, int num_parts = 1, int part_index = 0);
  /// Reads contents in memory, which the caller keeps alive. Errors call them `name`.
  LibSvmReader(std::span<const uint8_t> contents, std::string name);
  ~LibSvmReader();
  LibSvmReader(LibSvmReader&&) noexcept;
  LibSvmReader& operator=(LibSvmReader&&) noexcept;

  /// Reads the next row, whose indices are below `size`. Returns false at the end of the part.
  /// Throws Error if a number is none or an index is not below `size`; `row` is then not specified.
  bool ReadRow(int64_t size, LibSvmRow* row);

  /// Returns the number of the line at which the reader is, from 1.
  int64_t line() const;

 private:
  [[noreturn]] void ThrowText(const char* expected);

  std::unique_ptr<io_internal::TextSource> text_;
  std::string name_;
  int64_t end_ = 0;  // rows that begin behind it are those of the next part
};

}  // namespace tessera

#endif  // TESSERA_IO_LIBSVM_READER_H_
