#ifndef TESSERA_TRAIN_NAME_PATTERN_H_
#define TESSERA_TRAIN_NAME_PATTERN_H_

#include <string_view>

#include "tessera/base/dialect.h"

namespace tessera::train_internal {

/// Returns whether a whole name fits a pattern, in which '*' stands for any characters, also none,
/// and '?' for one. Takes time in proportion to the product of both lengths at most.
bool FitsPattern(std::string_view name, std::string_view pattern);

}  // namespace tessera::train_internal

#endif  // TESSERA_TRAIN_NAME_PATTERN_H_
