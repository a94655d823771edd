// A fuzz target for the reader of safetensors files: any bytes either load or throw Error, and what
// loads can be read. Build with libFuzzer: clang++ -fsanitize=fuzzer,address and the libraries of
// //ndarray.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/ndarray/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    for (const auto& [name, array] : tessera::DeserializeSafetensors(bytes).arrays) {
      array.ToVector();
    }
  } catch (const tessera::Error&) {
  }
  return 0;
}
