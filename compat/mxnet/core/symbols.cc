#include "tessera/compat/mxnet/core/symbols.h"

#include <memory>
#include <utility>

#include "tessera/graph/attributes.h"

namespace tessera::mxnet {
namespace {

/// Returns `apply`'s symbol, a new node of the operator with the parameters that it takes.
template <typename Apply>
Symbol Applied(const AtomicSymbol& atomic, const Apply& apply) {
  if (graph::TakesParameters(atomic.op)) return apply(atomic.parameters);
  ParameterMap attributes, ignored;
  for (const auto& [key, value] : atomic.parameters) {
    (graph::IsAnnotation(key) ? attributes : ignored).emplace(key, value);
  }
  Symbol symbol = apply(attributes);
  if (!ignored.empty()) symbol.outputs()[0].node->SetGivenParameters(std::move(ignored));
  return symbol;
}

}  // namespace

Symbol ApplyAtomic(const AtomicSymbol& atomic, const std::vector<Symbol>& inputs,
                   const std::string& name) {
  return Applied(atomic, [&](const ParameterMap& parameters) {
    return Symbol::Apply(atomic.op, inputs, parameters, name);
  });
}

Symbol ComposeAtomic(const AtomicSymbol& atomic, const std::map<std::string, Symbol>& inputs,
                     const std::string& name) {
  return Applied(atomic, [&](const ParameterMap& parameters) {
    return Symbol::Compose(atomic.op, inputs, parameters, name);
  });
}

Handles<ApiSymbol>& Symbols() {
  // Never destroyed: Python frees symbols until the process ends.
  static auto* const symbols = new Handles<ApiSymbol>("a Symbol", 3);
  return *symbols;
}

std::shared_ptr<const Symbol> SymbolOf(SymbolHandle handle) {
  const std::shared_ptr<const ApiSymbol> object = Symbols().Get(handle);
  if (!object->atomic) return {object, &object->symbol};
  return std::make_shared<const Symbol>(ApplyAtomic(*object->atomic, {}, ""));
}

SymbolHandle AddSymbol(Symbol symbol) {
  return Symbols().Add({.symbol = std::move(symbol), .atomic = std::nullopt});
}

}  // namespace tessera::mxnet
