#include "tessera/io/csv_reader.h"

#include <string_view>
#include <utility>

#include "tessera/base/foreign_file.h"
#include "tessera/io/internal/byte_source.h"
#include "tessera/io/internal/text_source.h"

namespace tessera {
namespace {

using io_internal::TextSource;

template <typename T>
constexpr const char* kExpected = "a number";
template <>
constexpr const char* kExpected<int32_t> = "an integer of 32 bits";
template <>
constexpr const char* kExpected<int64_t> = "an integer of 64 bits";

}  // namespace

CsvReader::CsvReader(const std::string& path)
    : text_(std::make_unique<TextSource>(io_internal::OpenFile(path))), name_(path) {}

CsvReader::CsvReader(std::span<const uint8_t> contents, std::string name)
    : text_(std::make_unique<TextSource>(io_internal::OpenMemory(contents, name))),
      name_(std::move(name)) {}

CsvReader::~CsvReader() = default;
CsvReader::CsvReader(CsvReader&&) noexcept = default;
CsvReader& CsvReader::operator=(CsvReader&&) noexcept = default;

int64_t CsvReader::line() const { return text_->line(); }

template <typename T>
bool CsvReader::ReadRow(std::span<T> row) {
  TextSource& text = *text_;
  if (!text.SkipEmptyLines()) return false;
  size_t found = 0;
  while (true) {
    text.SkipBlanks();
    if (text.AtLineEnd()) break;  // after a comma
    if (found == row.size()) ThrowWidth(found + 1, " or more", row.size());
    if (!text.ReadNumber(",", &row[found])) ThrowField(found + 1, kExpected<T>);
    ++found;
    text.SkipBlanks();
    if (text.AtLineEnd()) break;
    if (text.Peek() != ',') ThrowField(found + 1, "a comma or the end of the line");
    text.Skip();
  }
  if (found != row.size()) ThrowWidth(found, "", row.size());
  text.SkipLineEnd();
  return true;
}

template bool CsvReader::ReadRow(std::span<float> row);
template bool CsvReader::ReadRow(std::span<int32_t> row);
template bool CsvReader::ReadRow(std::span<int64_t> row);

void CsvReader::ThrowField(size_t field, const char* expected) {
  constexpr size_t kShown = 40;
  const std::string_view foreign = text_->line() == 1 && field == 1
                                       ? DescribeForeignFile(text_->Next64Bytes())
                                       : std::string_view();
  if (!foreign.empty()) throw DataLoss(name_, ": not a CSV file, but ", foreign);
  std::string_view text = text_->FieldText(",");
  const bool is_long = text.size() > kShown;
  if (is_long) text = text.substr(0, kShown);
  throw DataLoss(name_, ": line ", text_->line(), ", field ", field, ": found \"", text,
                 is_long ? "…" : "", "\", expected ", expected);
}

void CsvReader::ThrowWidth(size_t found, const char* or_more, size_t expected) const {
  throw DataLoss(name_, ": line ", text_->line(), ": found ", found, or_more, " numbers, expected ",
                 expected, ", the size of an example's shape");
}

}  // namespace tessera
