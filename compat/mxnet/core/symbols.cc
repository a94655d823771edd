#include "tessera/compat/mxnet/core/symbols.h"

#include <span>
#include <utility>

#include "tessera/compat/mxnet/core/arrays.h"

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

template <typename Extent>
TShape ShapeFromApi(const Extent* extents, size_t rank) {
  std::vector<index_t> shape;
  for (const Extent extent : std::span(extents, rank)) {
    const auto value = static_cast<index_t>(extent);
    shape.push_back(value == 0 && !NumpyShape() ? TShape::kUnknown : value);
  }
  return rank == 0 && !NumpyShape() ? TShape() : TShape(shape);
}
template TShape ShapeFromApi(const uint32_t*, size_t);
template TShape ShapeFromApi(const int*, size_t);
template TShape ShapeFromApi(const int64_t*, size_t);

}  // namespace tessera::mxnet
