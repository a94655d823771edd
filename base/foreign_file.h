#ifndef TESSERA_BASE_FOREIGN_FILE_H_
#define TESSERA_BASE_FOREIGN_FILE_H_

#include <string_view>

#include "tessera/base/dialect.h"

namespace tessera {

/// Recognizes files that often lie in the place of a model, such as a Git LFS pointer or a server's
/// error page, by their first bytes (64 are enough). Returns a noun phrase for an error message, or
/// an empty text.
std::string_view DescribeForeignFile(std::string_view first_bytes);

}  // namespace tessera

#endif  // TESSERA_BASE_FOREIGN_FILE_H_
