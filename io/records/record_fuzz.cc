// A fuzz target for the RecordIO reader: any bytes give records that lie one after the other, or an
// Error, and every record can be read again from its offset. Compile this file by clang with
// -fsanitize=fuzzer,address. record_mutation_test drives it without clang.
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tessera/io/record_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const uint8_t> contents(data, size);
  if (size >= 2 && data[0] == 0x1f && data[1] == 0x8b) return 0;  // gzip: idx_fuzz.cc
  int64_t last = -1;
  std::string last_record;
  try {
    tessera::RecordReader reader(contents, "fuzz");
    while (true) {
      const int64_t offset = reader.Tell();
      const std::optional<std::string_view> record = reader.ReadRecord();
      if (!record) break;
      if (record->size() + 8 > size || reader.Tell() <= offset) std::abort();
      last = offset;
      last_record = *record;
    }
  } catch (const tessera::Error&) {
  }
  if (last < 0) return 0;
  tessera::RecordReader reader(contents, "fuzz");
  reader.Seek(last);
  if (reader.ReadRecord() != last_record) std::abort();
  return 0;
}
