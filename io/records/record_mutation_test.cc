// Drives the fuzz target with mutations of valid files, the same ones at every run.
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tessera/io/record_writer.h"
#include "tessera/tools/testing/mutations.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace tessera {
namespace {

using Bytes = std::vector<uint8_t>;

/// Returns a file of the records.
Bytes FileOf(const std::vector<std::string>& records) {
  const std::string path = testing::TempDir() + "/seed.rec";
  RecordWriter writer(path);
  for (const std::string& record : records) writer.WriteRecord(record);
  writer.Close();
  std::ifstream file(path, std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

TEST(RecordMutationTest, NoBytesBreakTheReader) {
  const std::string magic = "\x0a\x23\xd7\xce";
  testing_internal::RunMutations(
      LLVMFuzzerTestOneInput,
      {FileOf({"first", "", "a longer record"}), FileOf({magic + magic + "end", "x"}),
       FileOf({"abcd" + magic + "efgh" + magic, std::string(300, 'r')}), FileOf({})},
      {0x00, 0x01, 0x20, 0x40, 0x60, 0x80, 0xff, 0x0a, 0x23, 0xd7, 0xce}, 4000);
}

}  // namespace
}  // namespace tessera
