// A fuzz target for the readers of `.params` files and raw arrays: any bytes either load or throw
// Error, and what loads can be read. Build with libFuzzer: clang++ -fsanitize=fuzzer,address and
// the libraries of //ndarray.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ndarray/serialization.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    std::vector<tessera::LeftOutArray> left_out;
    for (const auto& [name, array] : tessera::DeserializeNDArrayList(bytes, &left_out).arrays) {
      if (!array.is_none()) array.ToVector();
    }
  } catch (const tessera::Error&) {
  }
  try {
    const tessera::NDArray array = tessera::DeserializeArray(bytes);
    if (!array.is_none()) array.ToVector();
  } catch (const tessera::Error&) {
  }
  return 0;
}
