// A fuzz target for the LibSVM reader: any bytes give rows that a csr array can take, or an Error.
// Compile this file by clang with -fsanitize=fuzzer,address. libsvm_mutation_test drives it without
// clang.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "tessera/base/error.h"
#include "tessera/io/internal/csr_rows.h"
#include "tessera/io/libsvm_reader.h"
#include "tessera/ndarray/sparse.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const int64_t columns = data[0] % 5;
  tessera::io_internal::CsrRows rows(tessera::DType::kFloat32);
  try {
    tessera::LibSvmReader reader(std::span(data + 1, size - 1), "fuzz");
    tessera::LibSvmRow row;
    int64_t count = 0;
    while (reader.ReadRow(columns, &row)) {
      ++count;
      if (reader.line() < count || row.columns.size() != row.values.size()) std::abort();
      rows.Append(row.columns, row.values.data());
    }
  } catch (const tessera::Error&) {
  }
  // Throws unless the columns rise and are below their number.
  tessera::sparse::CheckFormat(rows.ToArray(columns));
  return 0;
}
