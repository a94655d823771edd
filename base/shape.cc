#include "tessera/base/shape.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

namespace tessera::base_internal {

void WriteExtents(std::ostream& os, std::span<const index_t> extents) {
  std::string text = "(" + std::to_string(extents[0]);
  for (const index_t extent : extents.subspan(1)) text += "," + std::to_string(extent);
  os << text + (extents.size() == 1 ? ",)" : ")");
}

void ReadExtent(std::istream& is, index_t* extent) {
  std::string digits;
  is >> std::ws;
  for (int c = is.peek(); c == '-' || (c >= '0' && c <= '9'); c = is.peek()) {
    digits += static_cast<char>(is.get());
  }
  index_t read = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, read);
  if (error != std::errc() || stop != end) {
    is.setstate(std::ios::failbit);
  } else {
    *extent = read;
  }
}

void ReadExtents(std::istream& is, std::span<index_t> extents) {
  const auto expect = [&is](char wanted) {
    char found = 0;
    if (is >> found && found != wanted) is.setstate(std::ios::failbit);
  };
  std::vector<index_t> read(extents.size());
  expect('(');
  for (size_t i = 0; i < read.size(); ++i) {
    if (i > 0) expect(',');
    if (is) ReadExtent(is, &read[i]);
  }
  if (read.size() == 1 && is && (is >> std::ws).peek() == ',') is.get();
  expect(')');
  if (is) std::copy(read.begin(), read.end(), extents.begin());
}

}  // namespace tessera::base_internal
