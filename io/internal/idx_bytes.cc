#include "tessera/io/internal/idx_bytes.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>

namespace tessera::io_internal {

Bytes IdxBytes(uint8_t type_code, std::initializer_list<uint32_t> shape, const Bytes& elements) {
  Bytes bytes = {0, 0, type_code, static_cast<uint8_t>(shape.size())};
  for (const uint32_t extent : shape) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes.push_back(static_cast<uint8_t>(extent >> shift));
    }
  }
  bytes.insert(bytes.end(), elements.begin(), elements.end());
  return bytes;
}

Bytes Gzip(const Bytes& bytes) {
  z_stream stream = {};
  constexpr int kGzip = 16 + MAX_WBITS;
  deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY);
  Bytes packed(deflateBound(&stream, bytes.size()) + 32);
  stream.next_in = const_cast<uint8_t*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

std::string WriteTestFile(const std::string& name, const Bytes& bytes) {
  const std::string path = testing::TempDir() + "/" + name;
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  return path;
}

}  // namespace tessera::io_internal
