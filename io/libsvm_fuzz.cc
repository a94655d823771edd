// A fuzz target for the LibSVM reader: any bytes give rows or an Error. Compile this file by clang
// with -fsanitize=fuzzer,address. libsvm_mutation_test drives it without clang.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/io/libsvm_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  // Exactly as long as a row, so that AddressSanitizer sees an index beyond it.
  std::vector<float> row(data[0] % 5);
  try {
    tessera::LibSvmReader reader(std::span(data + 1, size - 1), "fuzz");
    float label = 0;
    int64_t rows = 0;
    while (reader.ReadRow(&label, row)) {
      ++rows;
      if (reader.line() < rows) std::abort();
    }
  } catch (const tessera::Error&) {
  }
  return 0;
}
