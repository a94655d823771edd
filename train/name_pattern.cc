#include "tessera/train/name_pattern.h"

#include <cstddef>

namespace tessera::train_internal {

bool FitsPattern(std::string_view name, std::string_view pattern) {
  size_t n = 0, p = 0;
  // The last '*' and the end of what it stands for. If the rest does not fit, it takes one more.
  size_t star = pattern.npos, star_end = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_end = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p;
      ++n;
    } else if (star != pattern.npos) {
      p = star + 1;
      n = ++star_end;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace tessera::train_internal
