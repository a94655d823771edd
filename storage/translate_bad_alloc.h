#ifndef TESSERA_STORAGE_TRANSLATE_BAD_ALLOC_H_
#define TESSERA_STORAGE_TRANSLATE_BAD_ALLOC_H_

#include <new>

#include "tessera/base/error.h"

namespace tessera::storage_internal {

/// Calls `body`, the body of a public function, and returns its result. Translates std::bad_alloc,
/// thrown where the host has no memory for storage's own records, into Error(kResourceExhausted)
/// that names the call.
template <typename Body>
auto TranslateBadAlloc(const char* call, const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    throw ResourceExhausted(call, ": no host memory is left for storage's own records");
  }
}

}  // namespace tessera::storage_internal

#endif  // TESSERA_STORAGE_TRANSLATE_BAD_ALLOC_H_
