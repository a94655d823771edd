#ifndef TESSERA_EXAMPLES_FACTORIZATION_MACHINE_CLICKS_H_
#define TESSERA_EXAMPLES_FACTORIZATION_MACHINE_CLICKS_H_

#include <cstdint>
#include <string>

#include "tessera/base/dialect.h"

namespace tessera::factorization_machine {

/// Users and items; a row of a file has one of each, and the price.
inline constexpr int64_t kUsers = 300;
inline constexpr int64_t kItems = 100;

/// Writes a LibSVM file of `count` examples, of which each is whether a user has clicked on an item
/// (1 or 0). Users have the first half of the `features` columns, items the second one, and the
/// last column is the item's price between 0 and 1. Whether users like an item depends on the
/// product of hidden vectors, so that no sum over columns predicts it. `part` selects one of many
/// sets of examples of the same users and items. Each call of the same arguments writes the same
/// bytes.
///
/// Requires: features > 2 * kUsers. Throws Error if the file cannot be written.
void WriteClicks(const std::string& path, int64_t count, int64_t features, uint64_t part);

}  // namespace tessera::factorization_machine

#endif  // TESSERA_EXAMPLES_FACTORIZATION_MACHINE_CLICKS_H_
