#include "tessera/io/record_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "tessera/io/records/record_format.h"

namespace tessera {
namespace {

using io_internal::kRecordAlignment;
using io_internal::kRecordMagicBytes;
using io_internal::RecordPart;

constexpr size_t kBufferBytes = size_t{1} << 16;

/// Returns the offset of the first magic number at an aligned offset from `begin`, or npos.
size_t FindMagic(std::string_view record, size_t begin) {
  for (size_t at = begin;; ++at) {
    at = record.find(kRecordMagicBytes, at);
    if (at == std::string_view::npos || at % kRecordAlignment == 0) return at;
  }
}

}  // namespace

RecordWriter::RecordWriter(const std::string& path) : path_(path) {
  file_ = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file_ < 0) Fail("the file cannot be created");
}

RecordWriter::~RecordWriter() {
  try {
    Close();
  } catch (const Error&) {
    // Close reports it, and a destructor must not throw.
  }
}

void RecordWriter::WriteRecord(std::string_view record) {
  if (file_ < 0) throw FailedPrecondition(path_, ": is closed, expected an open file");
  if (record.size() > io_internal::kMaxRecordPartBytes) {
    throw InvalidArgument(path_, ": a record of ", record.size(), " bytes, expected at most ",
                          io_internal::kMaxRecordPartBytes);
  }
  // A reader that looks for the next record after damage must not find one inside of another. So a
  // record is divided at each magic number, which the parts' headers stand for.
  size_t begin = 0;
  size_t magic = FindMagic(record, 0);
  if (magic == std::string_view::npos) {
    WritePart(static_cast<uint32_t>(RecordPart::kWhole), record);
    return;
  }
  RecordPart part = RecordPart::kFirst;
  while (magic != std::string_view::npos) {
    WritePart(static_cast<uint32_t>(part), record.substr(begin, magic - begin));
    part = RecordPart::kMiddle;
    begin = magic + kRecordMagicBytes.size();
    magic = FindMagic(record, begin);
  }
  WritePart(static_cast<uint32_t>(RecordPart::kLast), record.substr(begin));
}

void RecordWriter::Close() {
  if (file_ < 0) return;
  try {
    Flush();
  } catch (const Error&) {
    close(std::exchange(file_, -1));
    throw;
  }
  if (close(std::exchange(file_, -1)) != 0 && errno != EINTR) Fail("closing failed");
}

void RecordWriter::WritePart(uint32_t part, std::string_view bytes) {
  const auto size = static_cast<uint32_t>(bytes.size());
  const uint32_t length = part << io_internal::kRecordLengthBits | size;
  Append(kRecordMagicBytes);
  const char little_endian[] = {static_cast<char>(length), static_cast<char>(length >> 8),
                                static_cast<char>(length >> 16), static_cast<char>(length >> 24)};
  Append({little_endian, sizeof(little_endian)});
  Append(bytes);
  const char zeros[kRecordAlignment] = {};
  Append({zeros, (kRecordAlignment - size % kRecordAlignment) % kRecordAlignment});
}

void RecordWriter::Append(std::string_view bytes) {
  buffer_ += bytes;
  offset_ += static_cast<int64_t>(bytes.size());
  if (buffer_.size() >= kBufferBytes) Flush();
}

void RecordWriter::Flush() {
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t count = write(file_, buffer_.data() + done, buffer_.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) Fail("writing failed");
    done += static_cast<size_t>(count);
  }
  buffer_.clear();
}

void RecordWriter::Fail(const char* what) const {
  const int reason = errno;
  const char* const text = std::strerror(reason);
  switch (reason) {
    case ENOENT:
    case ENOTDIR:
      throw NotFound(path_, ": ", what, ": ", text);
    case ENOSPC:
    case EDQUOT:
      throw ResourceExhausted(path_, ": ", what, ": ", text);
    default:
      throw FailedPrecondition(path_, ": ", what, ": ", text);
  }
}

}  // namespace tessera
