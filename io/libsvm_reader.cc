#include "tessera/io/libsvm_reader.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "tessera/base/foreign_file.h"
#include "tessera/io/internal/byte_source.h"
#include "tessera/io/internal/text_source.h"

namespace tessera {
namespace {

using io_internal::ByteSource;
using io_internal::TextSource;

constexpr int64_t kWholeFile = std::numeric_limits<int64_t>::max();

/// Lets the columns rise. Of elements in one column the last one stays.
void SortColumns(LibSvmRow* row) {
  const std::vector<int64_t>& columns = row->columns;
  if (std::ranges::adjacent_find(columns, std::greater_equal<>()) == columns.end()) return;
  std::vector<size_t> order(columns.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&columns](size_t i) { return columns[i]; });
  LibSvmRow sorted{.label = row->label};
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t column = columns[order[i]];
    if (i + 1 < order.size() && columns[order[i + 1]] == column) continue;
    sorted.columns.push_back(column);
    sorted.values.push_back(row->values[order[i]]);
  }
  *row = std::move(sorted);
}

}  // namespace

LibSvmReader::LibSvmReader(const std::string& path, int num_parts, int part_index)
    : name_(path), end_(kWholeFile) {
  std::unique_ptr<ByteSource> source = io_internal::OpenFile(path);
  if (num_parts < 1 || part_index < 0 || part_index >= num_parts) {
    throw InvalidArgument(path, ": there is no part ", part_index, " of ", num_parts,
                          ", expected 0 or more, and below their number");
  }
  if (num_parts == 1) {
    text_ = std::make_unique<TextSource>(std::move(source));
    return;
  }
  const std::optional<int64_t> size = source->BytesLeft();
  if (!size) {
    throw Unimplemented(path, ": is compressed by gzip, and parts of it cannot be found");
  }
  const int64_t step = *size / num_parts + (*size % num_parts == 0 ? 0 : 1);
  const int64_t begin = std::min(step * part_index, *size);
  source->Seek(begin);
  text_ = std::make_unique<TextSource>(std::move(source));
  end_ = step;  // counted from `begin`, as TextSource does
  if (part_index > 0) {
    // The line that begins before or at the interval's beginning is the part's before.
    name_ += " from byte " + std::to_string(begin);
    text_->SkipLine();
  }
}

LibSvmReader::LibSvmReader(std::span<const uint8_t> contents, std::string name)
    : text_(std::make_unique<TextSource>(io_internal::OpenMemory(contents, name))),
      name_(std::move(name)),
      end_(kWholeFile) {}

LibSvmReader::~LibSvmReader() = default;
LibSvmReader::LibSvmReader(LibSvmReader&&) noexcept = default;
LibSvmReader& LibSvmReader::operator=(LibSvmReader&&) noexcept = default;

int64_t LibSvmReader::line() const { return text_->line(); }

bool LibSvmReader::ReadRow(int64_t size, LibSvmRow* row) {
  TextSource& text = *text_;
  if (text.offset() == 0) text.SkipByteOrderMark();
  while (true) {
    if (text.offset() > end_) return false;
    text.SkipBlanks();
    if (text.Peek() < 0) return false;
    if (!text.AtLineEnd() && text.Peek() != '#') break;
    text.SkipLine();
  }
  if (!text.ReadNumber("#", &row->label)) ThrowText("a label, a number");
  row->columns.clear();
  row->values.clear();
  while (true) {
    text.SkipBlanks();
    if (text.AtLineEnd() || text.Peek() == '#') break;
    int64_t index = 0;
    if (!text.ReadNumber(":", &index) || text.Peek() != ':') {
      ThrowText("an index, a colon and a number");
    }
    if (index < 0 || index >= size) {
      throw DataLoss(name_, ": line ", text.line(), ": found index ", index, ", expected 0 to ",
                     size - 1);
    }
    text.Skip();
    float value = 0;
    if (!text.ReadNumber("#", &value)) ThrowText("a number behind index:");
    row->columns.push_back(index);
    row->values.push_back(value);
  }
  SortColumns(row);
  text.SkipLine();
  return true;
}

void LibSvmReader::ThrowText(const char* expected) {
  constexpr size_t kShown = 40;
  const std::string_view foreign = text_->line() == 1 && text_->offset() == 0
                                       ? DescribeForeignFile(text_->Next64Bytes())
                                       : std::string_view();
  if (!foreign.empty()) throw DataLoss(name_, ": not a LibSVM file, but ", foreign);
  std::string_view text = text_->FieldText("# \t");
  const bool is_long = text.size() > kShown;
  if (is_long) text = text.substr(0, kShown);
  throw DataLoss(name_, ": line ", text_->line(), ": found \"", text, is_long ? "…" : "",
                 "\", expected ", expected);
}

}  // namespace tessera
