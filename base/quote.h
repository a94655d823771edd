#ifndef TESSERA_BASE_QUOTE_H_
#define TESSERA_BASE_QUOTE_H_

#include <span>
#include <string>
#include <string_view>

#include "tessera/base/dialect.h"

namespace tessera {

/// Returns a text from outside (a file, a parameter, a setting) for an error message. A text of at
/// most 200 bytes is returned unchanged. A longer one is cut after 200 bytes, or up to 3 earlier to
/// keep UTF-8 characters whole, and its size is added: "aaa… (5000 bytes)".
std::string Excerpt(std::string_view text);

/// Returns names for an error message: "a, b, c". After ten names, "and 5 more" follows instead of
/// the others. Each name is an Excerpt.
std::string ListNames(std::span<const std::string> names);

}  // namespace tessera

#endif  // TESSERA_BASE_QUOTE_H_
