#include "tessera/io/internal/text_source.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <system_error>
#include <utility>

namespace tessera::io_internal {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 16;
/// No field that is a number has more characters, whatever program wrote it.
constexpr size_t kMaxNumberBytes = 128;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

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

}  // namespace

TextSource::TextSource(std::unique_ptr<ByteSource> source)
    : source_(std::move(source)), buffer_(kBufferBytes) {}

void TextSource::SkipLineEnd() {
  const int next = Peek();
  if (next != '\n' && next != '\r') return;
  ++at_;
  if (next == '\r' && Peek() == '\n') ++at_;
  ++line_;
}

void TextSource::SkipLine() {
  while (!AtLineEnd()) ++at_;
  SkipLineEnd();
}

void TextSource::SkipByteOrderMark() {
  if (Require(kByteOrderMark.size()) &&
      std::string_view(buffer_.data() + at_, kByteOrderMark.size()) == kByteOrderMark) {
    at_ += kByteOrderMark.size();
  }
}

bool TextSource::SkipEmptyLines() {
  if (line_ == 1) SkipByteOrderMark();
  while (true) {
    SkipBlanks();
    if (Peek() < 0) return false;
    if (!AtLineEnd()) return true;
    SkipLineEnd();
  }
}

template <typename T>
bool TextSource::ReadNumber(std::string_view separators, T* value) {
  if (!Require(kMaxNumberBytes) && at_ == end_) return false;
  const char* const begin = buffer_.data() + at_;
  const char* const end = begin + std::min(end_ - at_, kMaxNumberBytes);
  const bool has_plus = *begin == '+' && begin + 1 < end && begin[1] != '-';
  const char* const stop = ParseNumber(begin + (has_plus ? 1 : 0), end, value);
  if (stop == nullptr) return false;
  const bool is_whole = stop < end ? std::string_view(" \t\n\r").find(*stop) != separators.npos ||
                                         separators.find(*stop) != separators.npos
                                   : end_ - at_ < kMaxNumberBytes;
  if (!is_whole) return false;
  at_ += static_cast<size_t>(stop - begin);
  return true;
}

template bool TextSource::ReadNumber(std::string_view separators, float* value);
template bool TextSource::ReadNumber(std::string_view separators, int32_t* value);
template bool TextSource::ReadNumber(std::string_view separators, int64_t* value);

std::string_view TextSource::FieldText(std::string_view separators) {
  Next64Bytes();
  const std::string_view rest(buffer_.data() + at_, end_ - at_);
  std::string_view text = rest.substr(0, rest.find_first_of("\n\r"));
  text = text.substr(0, text.find_first_of(separators));
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string_view TextSource::Next64Bytes() {
  constexpr size_t kCount = 64;
  Require(kCount);
  return std::string_view(buffer_.data() + at_, std::min(end_ - at_, kCount));
}

/// Reads until the buffer has `count` bytes, and returns false if the source ends before.
bool TextSource::Require(size_t count) {
  if (end_ - at_ >= count) return true;
  if (source_ended_) return false;
  std::memmove(buffer_.data(), buffer_.data() + at_, end_ - at_);
  end_ -= at_;
  at_ = 0;
  const auto read = static_cast<size_t>(
      source_->Read({reinterpret_cast<uint8_t*>(buffer_.data()) + end_, buffer_.size() - end_}));
  source_ended_ = read < buffer_.size() - end_;
  end_ += read;
  offset_ += static_cast<int64_t>(read);
  return end_ >= count;
}

}  // namespace tessera::io_internal
