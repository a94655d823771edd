// A fuzz target for the reader of graphs: any bytes either load or throw Error, and what loads is
// saved, loaded again and inferred. Build with libFuzzer: clang++ -fsanitize=fuzzer,address and the
// libraries of //symbol.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tessera/base/error.h"
#include "tessera/symbol/symbol.h"

namespace tessera {
namespace {

void Use(std::string_view text) {
  Symbol symbol;
  try {
    symbol = Symbol::FromJson(text);
  } catch (const Error&) {
    return;
  }
  const std::string saved = symbol.ToJson();
  if (Symbol::FromJson(saved).ToJson() != saved) {
    std::fputs("a graph changes when it is loaded and saved again\n", stderr);
    std::abort();
  }
  try {
    symbol.InferTypePartial({});
    symbol.InferShapePartial({});
  } catch (const Error&) {
  }
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  tessera::Use({reinterpret_cast<const char*>(data), size});
  return 0;
}
