// A fuzz target for the CSV reader: any bytes give rows, each with another line's number, or an
// Error. The first byte chooses the type and the size of a row. Compile this file by clang with
// -fsanitize=fuzzer,address. csv_mutation_test drives it without clang.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "tessera/io/csv_reader.h"

namespace {

template <typename T>
void ReadAll(std::span<const uint8_t> contents, size_t row_size) {
  tessera::CsvReader reader(contents, "fuzz");
  std::vector<T> row(row_size);
  int64_t rows = 0;
  while (reader.ReadRow(std::span<T>(row))) {
    ++rows;
    if (reader.line() < rows) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t row_size = 1 + data[0] / 3 % 4;
  const std::span<const uint8_t> contents(data + 1, size - 1);
  try {
    switch (data[0] % 3) {
      case 0:
        ReadAll<float>(contents, row_size);
        break;
      case 1:
        ReadAll<int32_t>(contents, row_size);
        break;
      default:
        ReadAll<int64_t>(contents, row_size);
        break;
    }
  } catch (const tessera::Error&) {
  }
  return 0;
}
