#ifndef TESSERA_BASE_AT_H_
#define TESSERA_BASE_AT_H_

#include <cstddef>
#include <cstdint>

#include "tessera/base/dialect.h"

namespace tessera::base_internal {

/// Returns a signed index or count as the type by which the standard's containers take it:
/// `shape[At(axis)]`.
///
/// Requires: index >= 0.
constexpr size_t At(int64_t index) { return static_cast<size_t>(index); }

}  // namespace tessera::base_internal

#endif  // TESSERA_BASE_AT_H_
