#include "tessera/compat/mxnet/core/symbols.h"

#include <memory>
#include <utility>

namespace tessera::mxnet {

Handles<ApiSymbol>& Symbols() {
  // Never destroyed: Python frees symbols until the process ends.
  static auto* const symbols = new Handles<ApiSymbol>("a Symbol", 3);
  return *symbols;
}

Symbol SymbolOf(SymbolHandle handle) {
  const std::shared_ptr<ApiSymbol> object = Symbols().Get(handle);
  if (!object->atomic) return object->symbol;
  return Symbol::Apply(object->atomic->op, {}, object->atomic->parameters);
}

SymbolHandle AddSymbol(Symbol symbol) {
  return Symbols().Add({.symbol = std::move(symbol), .atomic = std::nullopt});
}

}  // namespace tessera::mxnet
