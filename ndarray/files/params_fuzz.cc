// A fuzz target for the readers of `.params` files and raw arrays: any bytes either load or throw
// Error, and what loads can be read. Build with libFuzzer: clang++ -fsanitize=fuzzer,address and
// the libraries of //ndarray.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/serialization.h"
#include "tessera/ndarray/sparse.h"

namespace {

void Read(const tessera::NDArray& array) {
  if (array.is_none()) return;
  if (tessera::StorageTypeOf(array) == tessera::StorageType::kDefault) {
    array.ToVector();
    return;
  }
  // A small file can hold what a large sparse array stores.
  tessera::sparse::CheckFormat(array);
  tessera::sparse::Values(array);
  tessera::SerializeArray(array);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    std::vector<tessera::LeftOutArray> left_out;
    for (const auto& [name, array] : tessera::DeserializeNDArrayList(bytes, &left_out).arrays) {
      Read(array);
    }
  } catch (const tessera::Error&) {
  }
  try {
    Read(tessera::DeserializeArray(bytes));
  } catch (const tessera::Error&) {
  }
  return 0;
}
