// A fuzz target for the `.params` reader: any bytes either load or throw Error, and what loads can
// be read. Build with libFuzzer: clang++ -fsanitize=fuzzer,address and the libraries of //ndarray.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/ndarray/params_format.h"
#include "tessera/ndarray/serialization.h"

namespace tessera {
namespace {

class MemorySource final : public ndarray_internal::ByteSource {
 public:
  MemorySource(const uint8_t* data, size_t size)
      : next_(data), size_bytes_(static_cast<int64_t>(size)) {}

  const std::string& name() const override { return name_; }
  int64_t size_bytes() const override { return size_bytes_; }
  void Read(void* data, int64_t size_bytes) override {
    if (size_bytes == 0) return;
    std::memcpy(data, next_, static_cast<size_t>(size_bytes));
    next_ += size_bytes;
  }

 private:
  const std::string name_ = "fuzz";
  const uint8_t* next_;
  const int64_t size_bytes_;
};

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tessera::MemorySource source(data, size);
  try {
    std::vector<tessera::LeftOutArray> left_out;
    for (const auto& [name, array] : tessera::ndarray_internal::ReadParams(source, &left_out)) {
      if (!array.is_none()) array.ToVector();
    }
  } catch (const tessera::Error&) {
  }
  return 0;
}
