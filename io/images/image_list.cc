#include "tessera/io/image_list.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "tessera/base/error.h"
#include "tessera/base/quote.h"
#include "tessera/io/internal/byte_source.h"

namespace tessera {
namespace {

/// Parses the whole of a field.
template <typename T>
bool ParseField(std::string_view field, T* value) {
  const char* const end = field.data() + field.size();
  const auto [stop, failure] = std::from_chars(field.data(), end, *value);
  return failure == std::errc() && stop == end;
}

/// Returns nothing if the line is of another form.
std::optional<ListedImage> ParseLine(std::string_view line) {
  ListedImage image;
  bool has_id = false;
  for (size_t tab = line.find('\t'); tab != line.npos; tab = line.find('\t')) {
    const std::string_view field = line.substr(0, tab);
    line.remove_prefix(tab + 1);
    const bool is_right =
        has_id ? ParseField(field, &image.label.emplace_back()) : ParseField(field, &image.id);
    if (!is_right) return std::nullopt;
    has_id = true;
  }
  if (image.label.empty()) return std::nullopt;
  image.path = line;
  return image;
}

}  // namespace

std::vector<ListedImage> ParseImageList(std::string_view text, std::string_view name) {
  std::vector<ListedImage> images;
  for (int64_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line.empty()) continue;
    std::optional<ListedImage> image = ParseLine(line);
    if (!image) {
      throw DataLoss(name, ": at line ", number, ": found \"", Excerpt(line),
                     "\", expected a number, labels and a path, separated by tabs");
    }
    images.push_back(*std::move(image));
  }
  return images;
}

std::vector<ListedImage> ReadImageList(const std::string& path) {
  const std::unique_ptr<io_internal::ByteSource> source = io_internal::OpenFile(path);
  std::string text;
  std::array<uint8_t, 1 << 16> block;
  int64_t count;
  do {
    count = source->Read(block);
    text.append(block.begin(), block.begin() + static_cast<std::ptrdiff_t>(count));
  } while (count == static_cast<int64_t>(block.size()));
  return ParseImageList(text, path);
}

std::string FormatListedImage(const ListedImage& image) {
  if (image.label.empty()) {
    throw InvalidArgument("FormatListedImage: image ", image.id, " has no label");
  }
  if (image.path.find_first_of("\t\r\n") != image.path.npos) {
    throw InvalidArgument("FormatListedImage: found the path \"", Excerpt(image.path),
                          "\", expected one without tabs and ends of lines");
  }
  std::string line = std::to_string(image.id);
  for (const float label : image.label) {
    std::array<char, 64> digits;
    char* const end = std::to_chars(digits.data(), digits.data() + digits.size(), label).ptr;
    line += '\t';
    line.append(digits.data(), end);
  }
  return line + '\t' + image.path + '\n';
}

}  // namespace tessera
