#ifndef TESSERA_TOOLS_SANITIZERS_PLANTED_OVERFLOW_H_
#define TESSERA_TOOLS_SANITIZERS_PLANTED_OVERFLOW_H_

#include <cstddef>

namespace tessera::sanitizers {

/// Returns whether this library is compiled with AddressSanitizer.
bool LibraryIsWatched();

/// Sets bytes[index] to 1, whether or not the block has as many bytes.
void SetByte(char* bytes, size_t index);

}  // namespace tessera::sanitizers

#endif  // TESSERA_TOOLS_SANITIZERS_PLANTED_OVERFLOW_H_
