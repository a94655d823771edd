#include "tessera/io/record_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <memory>
#include <utility>

#include "tessera/base/foreign_file.h"
#include "tessera/base/quote.h"
#include "tessera/io/internal/byte_source.h"
#include "tessera/io/records/record_format.h"

namespace tessera {
namespace {

using io_internal::RecordPart;

uint32_t LittleEndian32(const uint8_t* bytes) {
  return uint32_t{bytes[3]} << 24 | uint32_t{bytes[2]} << 16 | uint32_t{bytes[1]} << 8 | bytes[0];
}

std::string Hex(uint32_t value) {
  constexpr int kDigits = 8;
  char digits[kDigits];
  const std::string hex(digits, std::to_chars(digits, digits + kDigits, value, 16).ptr);
  return "0x" + std::string(kDigits - hex.size(), '0') + hex;
}

/// Reads the whole text of a file.
std::string ReadText(const std::string& path) {
  const std::unique_ptr<io_internal::ByteSource> source = io_internal::OpenFile(path);
  std::string text;
  std::array<uint8_t, 1 << 14> block;
  int64_t count;
  do {
    count = source->Read(block);
    text.append(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(count));
  } while (count == static_cast<int64_t>(block.size()));
  return text;
}

/// Reads an integer at the beginning of `text`, and removes it. Returns false if there is none.
bool TakeInteger(std::string_view* text, int64_t* value) {
  const auto [stop, failure] = std::from_chars(text->data(), text->data() + text->size(), *value);
  if (failure != std::errc()) return false;
  text->remove_prefix(static_cast<size_t>(stop - text->data()));
  return true;
}

}  // namespace

/// The header of a part of a record.
struct RecordReader::Header {
  int64_t offset = 0;  ///< of the header in the file
  RecordPart part = RecordPart::kWhole;
  uint32_t size_bytes = 0;  ///< without padding
};

RecordReader::RecordReader(const std::string& path)
    : source_(io_internal::OpenFile(path)), name_(path) {}

RecordReader::RecordReader(std::span<const uint8_t> contents, std::string name)
    : source_(io_internal::OpenMemory(contents, name)), name_(std::move(name)) {}

RecordReader::~RecordReader() = default;
RecordReader::RecordReader(RecordReader&&) noexcept = default;
RecordReader& RecordReader::operator=(RecordReader&&) noexcept = default;

std::optional<std::string_view> RecordReader::ReadRecord() {
  const int64_t begin = offset_;
  bool is_first = true;
  while (true) {
    const std::optional<Header> header = ReadHeader();
    if (!header) {
      if (is_first) return std::nullopt;
      throw DataLoss(name_, ": truncated at byte ", offset_,
                     ": expected another part of the record at byte ", begin);
    }
    const bool begins = header->part == RecordPart::kWhole || header->part == RecordPart::kFirst;
    if (begins != is_first) {
      throw DataLoss(name_, ": at byte ", header->offset, ": found part ",
                     static_cast<uint32_t>(header->part), " of a record, expected ",
                     is_first ? "0 or 1, a record's beginning" : "2 or 3, its continuation");
    }
    const std::string_view part = ReadPart(*header);
    if (header->part == RecordPart::kWhole) return part;
    // A record that contains the magic number was divided there.
    if (is_first) {
      record_.clear();
    } else {
      record_ += io_internal::kRecordMagicBytes;
    }
    record_ += part;
    if (header->part == RecordPart::kLast) return record_;
    is_first = false;
  }
}

void RecordReader::Seek(int64_t offset_bytes) {
  if (offset_bytes < 0) {
    throw InvalidArgument(name_, ": there is no offset ", offset_bytes, ", expected at least 0");
  }
  // A compressed source cannot seek, also not to what is in the buffer.
  const bool can_seek = source_->BytesLeft().has_value();
  const int64_t begin = offset_ - static_cast<int64_t>(at_);
  const int64_t end = begin + static_cast<int64_t>(end_);
  if (can_seek && offset_bytes >= begin && offset_bytes <= end) {
    at_ = static_cast<size_t>(offset_bytes - begin);
  } else {
    source_->Seek(offset_bytes);
    at_ = end_ = 0;
    block_bytes_ = 0;
  }
  offset_ = offset_bytes;
}

/// Returns nothing at the end of the file.
std::optional<RecordReader::Header> RecordReader::ReadHeader() {
  constexpr size_t kHeaderBytes = 8;
  const bool is_whole = Require(kHeaderBytes);
  const size_t count = end_ - at_;
  if (count == 0) return std::nullopt;
  const uint8_t* const bytes = buffer_.get() + at_;
  if (count >= 4 && LittleEndian32(bytes) != io_internal::kRecordMagic) {
    const uint32_t found = LittleEndian32(bytes);
    constexpr size_t kDescribed = 64;
    Require(kDescribed);
    const std::string_view beginning(reinterpret_cast<const char*>(buffer_.get()) + at_,
                                     std::min(end_ - at_, kDescribed));
    const std::string_view foreign =
        offset_ == 0 ? DescribeForeignFile(beginning) : std::string_view();
    if (!foreign.empty()) throw DataLoss(name_, ": not a RecordIO file, but ", foreign);
    throw DataLoss(name_, ": at byte ", offset_, ": found ", Hex(found),
                   ", expected the magic number ", Hex(io_internal::kRecordMagic), " of a record");
  }
  if (!is_whole) {
    throw DataLoss(name_, ": truncated: found ", count, " bytes of a record's header at byte ",
                   offset_, ", expected ", kHeaderBytes);
  }
  const uint32_t length = LittleEndian32(bytes + 4);
  const auto part = static_cast<RecordPart>(length >> io_internal::kRecordLengthBits);
  if (part > RecordPart::kLast) {
    throw DataLoss(name_, ": at byte ", offset_ + 4, ": found part ", static_cast<uint32_t>(part),
                   " of a record, expected 0 to 3");
  }
  const Header header{offset_, part, length & io_internal::kMaxRecordPartBytes};
  Skip(kHeaderBytes);
  return header;
}

/// Returns a part without its padding, which it skips. The bytes are valid until the next call.
std::string_view RecordReader::ReadPart(const Header& header) {
  constexpr size_t kAlignment = io_internal::kRecordAlignment;
  const size_t padded = (header.size_bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (!Require(padded)) {
    throw DataLoss(name_, ": truncated: found ", end_ - at_, " bytes of the record at byte ",
                   header.offset, ", expected ", padded);
  }
  const auto* const begin = reinterpret_cast<const char*>(buffer_.get()) + at_;
  Skip(padded);
  return {begin, header.size_bytes};
}

/// Reads until the buffer has `count` bytes. Returns false if the file ends before.
bool RecordReader::Require(size_t count) {
  while (end_ - at_ < count) {
    const size_t unread = end_ - at_;
    // What is read at once doubles, so that a record somewhere in the file costs little more than
    // its bytes. Beyond that the buffer grows only when it is full, so that a damaged length costs
    // little more than the file has.
    constexpr size_t kLeast = size_t{1} << 16, kMost = size_t{1} << 20;
    block_bytes_ = std::clamp(2 * block_bytes_, kLeast, kMost);
    if (capacity_ < block_bytes_ || unread == capacity_) {
      const size_t capacity = std::max(block_bytes_, 2 * capacity_);
      auto larger = std::make_unique_for_overwrite<uint8_t[]>(capacity);
      std::copy_n(buffer_.get() + at_, unread, larger.get());
      buffer_ = std::move(larger);
      capacity_ = capacity;
    } else {
      // To lower addresses.
      std::copy_n(buffer_.get() + at_, unread, buffer_.get());
    }
    at_ = 0;
    end_ = unread;
    const size_t wanted = std::min(capacity_ - unread, std::max(block_bytes_, count - unread));
    const auto found = static_cast<size_t>(source_->Read({buffer_.get() + unread, wanted}));
    end_ += found;
    if (found == 0) return false;
  }
  return true;
}

void RecordReader::Skip(size_t count) {
  at_ += count;
  offset_ += static_cast<int64_t>(count);
}

IndexedRecordReader::IndexedRecordReader(const std::string& index_path, const std::string& path)
    : index_path_(index_path), reader_(path) {
  const std::string text = ReadText(index_path);
  int line_number = 0;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = std::string_view(text).substr(begin, end - begin);
    begin = end + 1;
    ++line_number;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    std::string_view rest = line;
    int64_t key = 0, offset = 0;
    bool fits = TakeInteger(&rest, &key) && !rest.empty() && rest.front() == '\t';
    if (fits) rest.remove_prefix(1);
    fits = fits && TakeInteger(&rest, &offset) && rest.empty() && offset >= 0;
    if (!fits) {
      throw DataLoss(index_path, ": line ", line_number, ": found \"", Excerpt(line),
                     "\", expected a key, a tab and an offset, all integers");
    }
    keys_.push_back(key);
    offsets_[key] = offset;
  }
}

std::string_view IndexedRecordReader::ReadRecord(int64_t key) {
  const auto found = offsets_.find(key);
  if (found == offsets_.end()) {
    throw NotFound(index_path_, ": has no key ", key, ", expected one of its ", keys_.size(),
                   " keys");
  }
  reader_.Seek(found->second);
  const std::optional<std::string_view> record = reader_.ReadRecord();
  if (!record) {
    throw DataLoss(index_path_, ": key ", key, " has offset ", found->second,
                   ", expected one inside the file of records");
  }
  return *record;
}

}  // namespace tessera
