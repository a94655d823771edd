#include "tessera/tools/sanitizers/planted_overflow.h"

namespace tessera::sanitizers {

bool LibraryIsWatched() {
#if defined(__SANITIZE_ADDRESS__)
  return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
  return true;
#endif
#endif
  return false;
}

void SetByte(char* bytes, size_t index) { bytes[index] = 1; }

}  // namespace tessera::sanitizers
