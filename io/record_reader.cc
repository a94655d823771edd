#include "tessera/io/record_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <limits>
#include <utility>

#include "tessera/base/foreign_file.h"
#include "tessera/base/quote.h"
#include "tessera/io/internal/byte_source.h"
#include "tessera/io/internal/record_format.h"

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
  record_.clear();
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
    // A record that contains the magic number was divided there.
    if (!is_first) record_ += io_internal::kRecordMagicBytes;
    ReadPart(*header);
    if (header->part == RecordPart::kWhole || header->part == RecordPart::kLast) return record_;
    is_first = false;
  }
}

void RecordReader::Seek(int64_t offset_bytes) {
  if (offset_bytes < 0) {
    throw InvalidArgument(name_, ": there is no offset ", offset_bytes, ", expected at least 0");
  }
  source_->Seek(offset_bytes);
  offset_ = offset_bytes;
}

/// Returns nothing at the end of the file.
std::optional<RecordReader::Header> RecordReader::ReadHeader() {
  std::array<uint8_t, 8> bytes;
  const int64_t count = source_->Read(bytes);
  if (count == 0) return std::nullopt;
  if (count >= 4 && LittleEndian32(bytes.data()) != io_internal::kRecordMagic) {
    std::string beginning(bytes.begin(), bytes.begin() + count);
    std::array<uint8_t, 56> more;
    const auto more_count = static_cast<std::ptrdiff_t>(source_->Read(more));
    beginning.append(more.begin(), more.begin() + more_count);
    const std::string_view foreign =
        offset_ == 0 ? DescribeForeignFile(beginning) : std::string_view();
    if (!foreign.empty()) throw DataLoss(name_, ": not a RecordIO file, but ", foreign);
    throw DataLoss(name_, ": at byte ", offset_, ": found ", Hex(LittleEndian32(bytes.data())),
                   ", expected the magic number ", Hex(io_internal::kRecordMagic), " of a record");
  }
  if (count < static_cast<int64_t>(bytes.size())) {
    throw DataLoss(name_, ": truncated: found ", count, " bytes of a record's header at byte ",
                   offset_, ", expected ", bytes.size());
  }
  const uint32_t length = LittleEndian32(bytes.data() + 4);
  const auto part = static_cast<RecordPart>(length >> io_internal::kRecordLengthBits);
  if (part > RecordPart::kLast) {
    throw DataLoss(name_, ": at byte ", offset_ + 4, ": found part ", static_cast<uint32_t>(part),
                   " of a record, expected 0 to 3");
  }
  const Header header{offset_, part, length & io_internal::kMaxRecordPartBytes};
  offset_ += static_cast<int64_t>(bytes.size());
  return header;
}

/// Appends a part to the record, and skips its padding.
void RecordReader::ReadPart(const Header& header) {
  constexpr size_t kFirstBytes = size_t{1} << 16;
  constexpr size_t kAlignment = io_internal::kRecordAlignment;
  const size_t padded = (header.size_bytes + kAlignment - 1) / kAlignment * kAlignment;
  const size_t begin = record_.size();
  size_t found = 0;
  while (found < padded) {
    const size_t wanted = std::min(padded, std::max(kFirstBytes, 2 * found));
    record_.resize(begin + wanted);
    found += static_cast<size_t>(source_->Read(
        {reinterpret_cast<uint8_t*>(record_.data()) + begin + found, wanted - found}));
    if (found < wanted) {
      throw DataLoss(name_, ": truncated: found ", found, " bytes of the record at byte ",
                     header.offset, ", expected ", padded);
    }
  }
  offset_ += static_cast<int64_t>(padded);
  record_.resize(begin + header.size_bytes);
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
