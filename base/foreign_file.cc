#include "tessera/base/foreign_file.h"

#include <algorithm>
#include <utility>

namespace tessera {
namespace {

/// Compares without regard to the case of ASCII letters; `prefix` is in lower case.
bool StartsWith(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() &&
         std::equal(prefix.begin(), prefix.end(), text.begin(), [](char expected, char found) {
           return expected ==
                  (found >= 'A' && found <= 'Z' ? static_cast<char>(found + 32) : found);
         });
}

}  // namespace

std::string_view DescribeForeignFile(std::string_view first_bytes) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  static constexpr std::pair<std::string_view, std::string_view> kBeginnings[] = {
      {"version https://git-lfs.github.com/",
       "a Git LFS pointer in place of the file; `git lfs pull` fetches the file"},
      {"<!doctype html", "an HTML page, such as a server's error or login page"},
      {"<html", "an HTML page, such as a server's error or login page"},
      {"<?xml", "an XML document, such as a server's error message"},
      {"\x1f\x8b", "compressed by gzip; it must be decompressed first"},
      {"pk\x03\x04", "a ZIP archive; it must be unpacked first"},
  };
  std::string_view text = first_bytes;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  while (!text.empty() && std::string_view(" \t\r\n").find(text[0]) != text.npos) {
    text.remove_prefix(1);
  }
  for (const auto& [beginning, description] : kBeginnings) {
    if (StartsWith(text, beginning)) return description;
  }
  return {};
}

}  // namespace tessera
