#ifndef TESSERA_IO_INTERNAL_TEXT_SOURCE_H_
#define TESSERA_IO_INTERNAL_TEXT_SOURCE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tessera/io/internal/byte_source.h"

namespace tessera::io_internal {

/// The numbers and separators of a text, from front to back in constant memory. A line ends by
/// "\n", "\r\n" or "\r"; the last one may lack it.
class TextSource {
 public:
  explicit TextSource(std::unique_ptr<ByteSource> source);

  /// Returns the next byte, or -1 at the end.
  int Peek() {
    if (at_ == end_ && !Require(1)) return -1;
    return static_cast<unsigned char>(buffer_[at_]);
  }
  /// Skips the byte that Peek has returned.
  void Skip() { ++at_; }
  /// Skips spaces and tabs.
  void SkipBlanks() {
    for (int next = Peek(); next == ' ' || next == '\t'; next = Peek()) ++at_;
  }
  bool AtLineEnd() {
    const int next = Peek();
    return next == '\n' || next == '\r' || next < 0;
  }
  /// Skips the end of a line, if one is next.
  void SkipLineEnd();
  /// Skips the rest of the line, and its end.
  void SkipLine();
  /// Skips a byte order mark, if one is next.
  void SkipByteOrderMark();
  /// Skips lines without anything but blanks, and the next line's first blanks. Returns false at
  /// the end of the text.
  bool SkipEmptyLines();

  /// Reads a number behind which a blank, a line's end or one of `separators` follows. T is float,
  /// int32_t or int64_t; the form is that which CsvReader describes. Returns false, and reads
  /// nothing, if there is none.
  template <typename T>
  bool ReadNumber(std::string_view separators, T* value);

  /// Returns the next bytes, up to the end of the line or one of `separators`, for an error.
  std::string_view FieldText(std::string_view separators);
  /// Returns up to 64 of the next bytes.
  std::string_view Next64Bytes();

  /// Returns the number of the line, from 1, and the offset of the next byte.
  int64_t line() const { return line_; }
  int64_t offset() const { return offset_ - static_cast<int64_t>(end_ - at_); }

 private:
  bool Require(size_t count);

  std::unique_ptr<ByteSource> source_;
  std::vector<char> buffer_;
  size_t at_ = 0;       // of the next byte in the buffer
  size_t end_ = 0;      // of the bytes in the buffer
  int64_t offset_ = 0;  // bytes that were read
  bool source_ended_ = false;
  int64_t line_ = 1;
};

}  // namespace tessera::io_internal

#endif  // TESSERA_IO_INTERNAL_TEXT_SOURCE_H_
