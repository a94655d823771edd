// Runs as the other process of shared_memory_test. It opens the block that its argument names, adds
// one to each byte, and reports the result by its exit status.

#include <iostream>

#include "tessera/base/error.h"
#include "tessera/storage/shared_memory.h"

int main(int argc, char** argv) {
  using tessera::SharedBlock;
  using tessera::SharedMapping;
  constexpr int kNotFound = 3;
  constexpr int kOtherError = 4;
  if (argc != 2) return 2;
  try {
    const SharedMapping mapping = SharedMapping::Open(SharedBlock::FromString(argv[1]));
    auto* const bytes = static_cast<unsigned char*>(mapping.data());
    for (int64_t i = 0; i < mapping.size_bytes(); ++i) ++bytes[i];
  } catch (const tessera::Error& error) {
    std::cerr << error.what() << "\n";
    return error.code() == tessera::Error::kNotFound ? kNotFound : kOtherError;
  }
  return 0;
}
