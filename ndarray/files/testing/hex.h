#ifndef TESSERA_NDARRAY_FILES_TESTING_HEX_H_
#define TESSERA_NDARRAY_FILES_TESTING_HEX_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera::ndarray_internal {

/// Returns the bytes that pairs of hexadecimal digits stand for.
inline std::string FromHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  }
  return bytes;
}

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_FILES_TESTING_HEX_H_
