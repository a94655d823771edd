// A fuzz target for the IDX parser: any bytes give an array whose elements fit its shape, or an
// Error. Compile this file by clang with -fsanitize=fuzzer,address. idx_mutation_test drives it
// without clang.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "tessera/io/idx_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const tessera::HostArray array = tessera::ParseIdx(std::span(data, size), "fuzz");
    const auto size_bytes = static_cast<int64_t>(array.bytes.size());
    if (array.shape.Size() * tessera::DTypeSizeBytes(array.dtype) != size_bytes) std::abort();
  } catch (const tessera::Error&) {
  }
  return 0;
}
