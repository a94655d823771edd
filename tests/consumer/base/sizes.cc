// What tensors of a file take in memory, which the file's author has the say in.
#include <cstdio>

#include "tessera/base/checked_size.h"
#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/base/tshape.h"

using namespace tessera;  // NOLINT

int main() {
  for (const char* const text : {"(64, 3, 7, 7)", "()", "(4000000000, 4000000000)", "(2, x)"}) {
    try {
      const CheckedSize bytes =
          CheckedSize(TShape::Parse(text).Size()) * static_cast<int64_t>(sizeof(half_t));
      std::printf("%s: %ld bytes\n", text, static_cast<long>(bytes.ValueOrThrow(text)));
    } catch (const Error& error) {
      std::printf("%s: refused\n", text);
    }
  }
}
