#ifndef TESSERA_COMPAT_MXNET_CORE_SYMBOLS_H_
#define TESSERA_COMPAT_MXNET_CORE_SYMBOLS_H_

#include <optional>
#include <string>

#include "tessera/compat/mxnet/core/handle_table.h"
#include "tessera/compat/mxnet/core/types.h"
#include "tessera/ops/parameter.h"
#include "tessera/symbol/symbol.h"

namespace tessera::mxnet {

/// An operator with its parameters that has no inputs yet.
struct AtomicSymbol {
  std::string op;
  ParameterMap parameters;  ///< and attributes, as Symbol::Apply takes them
};

/// The object behind a symbol's handle. Composing changes it.
struct ApiSymbol {
  Symbol symbol;
  std::optional<AtomicSymbol> atomic;  ///< until it is composed
};

/// The handles of symbols.
Handles<ApiSymbol>& Symbols();

/// Returns the symbol of a handle; an operator without inputs gets variables for them.
Symbol SymbolOf(SymbolHandle handle);
/// Returns a new handle.
SymbolHandle AddSymbol(Symbol symbol);

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CORE_SYMBOLS_H_
