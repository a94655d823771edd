#include "tessera/io/records/record_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <random>
#include <span>
#include <string_view>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/io/records/record_format.h"

namespace tessera::io_internal {
namespace {

constexpr int64_t kAlignment = kRecordAlignment;
constexpr size_t kHeaderBytes = 8;

uint32_t LittleEndian32(const uint8_t* bytes) {
  return uint32_t{bytes[3]} << 24 | uint32_t{bytes[2]} << 16 | uint32_t{bytes[1]} << 8 | bytes[0];
}

}  // namespace

RecordFile::RecordFile(const std::string& path, int num_parts, int part_index)
    : path_(path), bytes_(OpenFile(path)), reader_(path) {
  if (num_parts < 1 || part_index < 0 || part_index >= num_parts) {
    throw InvalidArgument(path, ": there is no part ", part_index, " of ", num_parts,
                          ", expected 0 or more, and below their number");
  }
  const std::optional<int64_t> size = bytes_->BytesLeft();
  if (!size) {
    throw Unimplemented(path, ": is compressed by gzip, and parts of it cannot be found");
  }
  size_bytes_ = *size;
  const int64_t part = (*size + num_parts - 1) / num_parts;
  const int64_t step = (part + kAlignment - 1) / kAlignment * kAlignment;
  begin_ = part_index == 0 ? 0 : FindRecord(std::min(step * part_index, *size));
  end_ = std::min(step * (int64_t{part_index} + 1), *size);
  Rewind();
}

void RecordFile::Rewind() {
  is_shuffled_ = false;
  next_ = begin_;
}

void RecordFile::Shuffle(uint64_t order) {
  ListOffsets();
  std::sort(offsets_.begin(), offsets_.end());
  std::mt19937_64 random(order);
  // Not std::shuffle, which differs between standard libraries.
  for (size_t i = offsets_.size(); i > 1; --i) std::swap(offsets_[i - 1], offsets_[random() % i]);
  is_shuffled_ = true;
  position_ = 0;
}

void RecordFile::SetPosition(int64_t position) {
  const int64_t first = is_shuffled_ ? 0 : begin_;
  // Behind damage the search goes on at the next multiple, which may be behind the file's end.
  const int64_t end = (size_bytes_ + kAlignment - 1) / kAlignment * kAlignment;
  const int64_t last = is_shuffled_ ? static_cast<int64_t>(offsets_.size()) : end;
  if (position < first || position > last) {
    throw DataLoss(path_, ": there is no position ", position, ", expected ", first, " to ", last);
  }
  if (is_shuffled_) {
    position_ = static_cast<size_t>(position);
  } else {
    next_ = position;
  }
}

bool RecordFile::Read(Record* record) {
  if (is_shuffled_) {
    if (position_ == offsets_.size()) return false;
    record->offset = offsets_[position_++];
  } else {
    if (next_ >= end_) return false;
    record->offset = next_;
  }
  reader_.Seek(record->offset);
  try {
    const std::optional<std::string_view> bytes = reader_.ReadRecord();
    next_ = reader_.Tell();
    if (!bytes) return false;
    record->bytes.assign(*bytes);
    return true;
  } catch (const Error&) {
    next_ = end_;  // also if the file cannot be read
    next_ = FindRecord(record->offset + kAlignment);
    throw;
  }
}

/// Returns the offset at or behind `from` at which a record begins, or the file's size. The magic
/// number stands nowhere else at such offsets, unless the file is damaged.
int64_t RecordFile::FindRecord(int64_t from) const {
  std::array<uint8_t, 1 << 15> block;
  int64_t at = (from + kAlignment - 1) / kAlignment * kAlignment;
  while (true) {
    bytes_->Seek(at);
    const int64_t count = bytes_->Read(block);
    int64_t i = 0;
    for (; i + 8 <= count; i += kAlignment) {
      const uint8_t* const word = block.data() + i;
      if (LittleEndian32(word) != kRecordMagic) continue;
      const auto part = static_cast<RecordPart>(LittleEndian32(word + 4) >> kRecordLengthBits);
      if (part == RecordPart::kWhole || part == RecordPart::kFirst) return at + i;
    }
    if (count < static_cast<int64_t>(block.size())) return at + count;
    at += i;
  }
}

void RecordFile::ListOffsets() {
  if (std::exchange(is_listed_, true)) return;
  ReadBeginnings(0, [this](const Beginning& beginning) { offsets_.push_back(beginning.offset); });
}

void RecordFile::ReadBeginnings(size_t count,
                                const std::function<void(const Beginning&)>& visit) const {
  std::vector<uint8_t> block(kHeaderBytes + count);
  for (int64_t at = begin_; at < end_;) {
    const int64_t offset = at;
    // The lengths of the parts lead to the next record.
    for (bool is_first = true, is_last = false; !is_last; is_first = false) {
      bytes_->Seek(at);
      const auto found = static_cast<size_t>(
          bytes_->Read(std::span(block).first(is_first ? block.size() : kHeaderBytes)));
      const bool has_header = found >= kHeaderBytes && LittleEndian32(block.data()) == kRecordMagic;
      const uint32_t length = has_header ? LittleEndian32(block.data() + 4) : 0;
      const int64_t size_bytes = int64_t{length & kMaxRecordPartBytes};
      if (is_first) {
        const size_t given = has_header ? found - kHeaderBytes : 0;
        visit({offset, {block.data() + kHeaderBytes, given}, size_bytes});
      }
      if (!has_header) {
        // Damaged. Reading the record says so.
        at = FindRecord(std::max(at, offset + kAlignment));
        break;
      }
      const auto part = static_cast<RecordPart>(length >> kRecordLengthBits);
      at += static_cast<int64_t>(kHeaderBytes) +
            (size_bytes + kAlignment - 1) / kAlignment * kAlignment;
      is_last = part == RecordPart::kWhole || part == RecordPart::kLast;
    }
  }
}

}  // namespace tessera::io_internal
