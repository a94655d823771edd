#include "tessera/io/csv_reader.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>

#include "tessera/base/foreign_file.h"
#include "tessera/io/internal/byte_source.h"

namespace tessera {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 16;
/// No field that is a number has more characters, whatever program wrote it.
constexpr size_t kMaxNumberBytes = 128;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

bool IsBlank(int c) { return c == ' ' || c == '\t'; }

/// Returns whether a field ends before the character.
bool EndsField(char c) { return c == ',' || c == '\n' || c == '\r' || IsBlank(c); }

/// Parses the number at the beginning of [begin, end), and returns its end, or null if there is
/// none in the range of T.
const char* ParseNumber(const char* begin, const char* end, float* value) {
  const auto [stop, failure] = std::from_chars(begin, end, *value);
  if (failure == std::errc()) return stop;
  if (failure != std::errc::result_out_of_range) return nullptr;
  // Some libraries leave the value as it was, some set it to infinity.
  double exact = 0;
  if (std::from_chars(begin, end, exact).ec != std::errc()) return nullptr;
  *value = static_cast<float>(exact);
  return stop;
}

template <typename T>
const char* ParseNumber(const char* begin, const char* end, T* value) {
  const auto [stop, failure] = std::from_chars(begin, end, *value);
  if (failure != std::errc()) return nullptr;
  if (stop == end || *stop != '.') return stop;
  return std::find_if(stop + 1, end, [](char c) { return c != '0'; });
}

template <typename T>
constexpr const char* kExpected = "a number";
template <>
constexpr const char* kExpected<int32_t> = "an integer of 32 bits";
template <>
constexpr const char* kExpected<int64_t> = "an integer of 64 bits";

}  // namespace

CsvReader::CsvReader(const std::string& path)
    : source_(io_internal::OpenFile(path)), name_(path), buffer_(kBufferBytes) {}

CsvReader::CsvReader(std::span<const uint8_t> contents, std::string name)
    : source_(io_internal::OpenMemory(contents, name)),
      name_(std::move(name)),
      buffer_(kBufferBytes) {}

CsvReader::~CsvReader() = default;
CsvReader::CsvReader(CsvReader&&) noexcept = default;
CsvReader& CsvReader::operator=(CsvReader&&) noexcept = default;

template <typename T>
bool CsvReader::ReadRow(std::span<T> row) {
  if (!SkipEmptyLines()) return false;
  size_t found = 0;
  while (true) {
    SkipBlanks();
    if (AtLineEnd()) break;  // after a comma
    if (found == row.size()) ThrowWidth(found + 1, " or more", row.size());
    row[found] = ReadNumber<T>(found + 1);
    ++found;
    SkipBlanks();
    if (AtLineEnd()) break;
    if (Peek() != ',') ThrowField(found + 1, "a comma or the end of the line");
    ++at_;
  }
  if (found != row.size()) ThrowWidth(found, "", row.size());
  SkipLineEnd();
  return true;
}

template bool CsvReader::ReadRow(std::span<float> row);
template bool CsvReader::ReadRow(std::span<int32_t> row);
template bool CsvReader::ReadRow(std::span<int64_t> row);

/// Returns the next byte, or -1 at the end.
int CsvReader::Peek() {
  if (at_ == end_ && !Require(1)) return -1;
  return static_cast<unsigned char>(buffer_[at_]);
}

/// Reads until the buffer has `count` bytes, and returns false if the source ends before.
bool CsvReader::Require(size_t count) {
  if (end_ - at_ >= count) return true;
  if (source_ended_) return false;
  std::memmove(buffer_.data(), buffer_.data() + at_, end_ - at_);
  end_ -= at_;
  at_ = 0;
  const auto read = static_cast<size_t>(
      source_->Read({reinterpret_cast<uint8_t*>(buffer_.data()) + end_, buffer_.size() - end_}));
  source_ended_ = read < buffer_.size() - end_;
  end_ += read;
  return end_ >= count;
}

void CsvReader::SkipBlanks() {
  while (IsBlank(Peek())) ++at_;
}

bool CsvReader::AtLineEnd() {
  const int next = Peek();
  return next == '\n' || next == '\r' || next < 0;
}

void CsvReader::SkipLineEnd() {
  const int next = Peek();
  if (next < 0) return;
  ++at_;
  if (next == '\r' && Peek() == '\n') ++at_;
  ++line_;
}

/// Returns false at the end of the file.
bool CsvReader::SkipEmptyLines() {
  if (line_ == 1 && Require(kByteOrderMark.size()) &&
      std::string_view(buffer_.data() + at_, kByteOrderMark.size()) == kByteOrderMark) {
    at_ += kByteOrderMark.size();
  }
  while (true) {
    SkipBlanks();
    if (Peek() < 0) return false;
    if (!AtLineEnd()) return true;
    SkipLineEnd();
  }
}

template <typename T>
T CsvReader::ReadNumber(size_t field) {
  Require(kMaxNumberBytes);
  const char* const begin = buffer_.data() + at_;
  const char* const end = begin + std::min(end_ - at_, kMaxNumberBytes);
  const bool has_plus = *begin == '+' && begin + 1 < end && begin[1] != '-';
  T value{};
  const char* const stop = ParseNumber(begin + (has_plus ? 1 : 0), end, &value);
  const bool is_whole =
      stop != nullptr && (stop < end ? EndsField(*stop) : end_ - at_ < kMaxNumberBytes);
  if (!is_whole) ThrowField(field, kExpected<T>);
  at_ += static_cast<size_t>(stop - begin);
  return value;
}

void CsvReader::ThrowField(size_t field, const char* expected) {
  constexpr size_t kShown = 40;
  Require(64);  // enough for DescribeForeignFile
  const std::string_view rest(buffer_.data() + at_, end_ - at_);
  const std::string_view foreign =
      line_ == 1 && field == 1 ? DescribeForeignFile(rest) : std::string_view();
  if (!foreign.empty()) throw DataLoss(name_, ": not a CSV file, but ", foreign);
  std::string_view text = rest.substr(0, rest.find_first_of(",\n\r"));
  while (!text.empty() && IsBlank(text.back())) text.remove_suffix(1);
  const bool is_long = text.size() > kShown;
  if (is_long) text = text.substr(0, kShown);
  throw DataLoss(name_, ": line ", line_, ", field ", field, ": found \"", text, is_long ? "…" : "",
                 "\", expected ", expected);
}

void CsvReader::ThrowWidth(size_t found, const char* or_more, size_t expected) const {
  throw DataLoss(name_, ": line ", line_, ": found ", found, or_more, " numbers, expected ",
                 expected, ", the size of an example's shape");
}

}  // namespace tessera
