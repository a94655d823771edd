#ifndef TESSERA_IO_CSV_READER_H_
#define TESSERA_IO_CSV_READER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "tessera/base/error.h"

namespace tessera {

namespace io_internal {
class TextSource;
}  // namespace io_internal

/// Reads the numbers of a CSV file row by row, in constant memory.
///
/// The format: a row is a line, whose fields are separated by commas; spaces and tabs may surround
/// a field, and a comma may follow the last. A line ends by "\n", "\r\n" or "\r"; the last one may
/// lack it. Lines without fields and a byte order mark at the beginning are ignored. A field is a
/// decimal number with a point, whatever the locale: "-1.5e3", "inf" or "nan" as float, a sign and
/// digits as integer, which zeros may follow ("7.0"). There are no quotes and no header.
///
/// Floating-point values are rounded correctly; those beyond float32's range become infinite or 0.
///
/// Every error is Error(kDataLoss) unless noted, and names the file, the line, the field, the text
/// found and the form expected. After one, the reader's position is not specified.
/// Threads: one thread at a time uses a reader.
class CsvReader {
 public:
  /// Opens a file, plain or compressed by gzip. Throws Error: kNotFound if it does not exist,
  /// kFailedPrecondition if it cannot be opened, kInvalidArgument if it is not a file.
  explicit CsvReader(const std::string& path);
  /// Reads contents in memory, which the caller keeps alive. Errors call them `name`.
  CsvReader(std::span<const uint8_t> contents, std::string name);
  ~CsvReader();
  CsvReader(CsvReader&&) noexcept;
  CsvReader& operator=(CsvReader&&) noexcept;

  /// Reads the next row, which must have as many numbers as `row`. Returns false at the end of the
  /// file. T is float, int32_t or int64_t. Throws Error if a field is no such number or the row has
  /// another length.
  template <typename T>
  bool ReadRow(std::span<T> row);

  /// Returns the number of the line at which the reader is, from 1.
  int64_t line() const;

 private:
  [[noreturn]] void ThrowField(size_t field, const char* expected);
  [[noreturn]] void ThrowWidth(size_t found, const char* or_more, size_t expected) const;

  std::unique_ptr<io_internal::TextSource> text_;
  std::string name_;
};

}  // namespace tessera

#endif  // TESSERA_IO_CSV_READER_H_
