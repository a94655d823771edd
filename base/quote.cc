#include "tessera/base/quote.h"

#include <algorithm>

namespace tessera {

std::string Excerpt(std::string_view text) {
  constexpr size_t kMaxBytes = 200;
  if (text.size() <= kMaxBytes) return std::string(text);
  size_t size = kMaxBytes;
  // A byte 10xxxxxx continues a UTF-8 character, which has at most three of them.
  while (size > kMaxBytes - 3 && (static_cast<unsigned char>(text[size]) & 0xc0u) == 0x80u) --size;
  return std::string(text.substr(0, size)) + "… (" + std::to_string(text.size()) + " bytes)";
}

std::string ListNames(std::span<const std::string> names) {
  constexpr size_t kMaxNames = 10;
  std::string list;
  for (const std::string& name : names.first(std::min(names.size(), kMaxNames))) {
    list += (list.empty() ? "" : ", ") + Excerpt(name);
  }
  if (names.size() > kMaxNames) {
    list += " and " + std::to_string(names.size() - kMaxNames) + " more";
  }
  return list;
}

}  // namespace tessera
