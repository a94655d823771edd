#ifndef TESSERA_COMPAT_MXNET_CORE_SYMBOLS_H_
#define TESSERA_COMPAT_MXNET_CORE_SYMBOLS_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tessera/compat/mxnet/core/handle_table.h"
#include "tessera/compat/mxnet/core/types.h"
#include "tessera/ops/parameter.h"
#include "tessera/symbol/symbol.h"

namespace tessera::mxnet {

/// An operator with its parameters that has no inputs yet.
struct AtomicSymbol {
  std::string op;
  /// Parameters and attributes, as Symbol::Apply takes them. An operator without parameters ignores
  /// other texts, which its node keeps as parameters that were given.
  ParameterMap parameters;
};

/// Return the operator with inputs, as Symbol::Apply and Symbol::Compose do.
Symbol ApplyAtomic(const AtomicSymbol& atomic, const std::vector<Symbol>& inputs,
                   const std::string& name);
Symbol ComposeAtomic(const AtomicSymbol& atomic, const std::map<std::string, Symbol>& inputs,
                     const std::string& name);

/// The object behind a symbol's handle. It never changes: composing replaces it. Threads: as
/// Symbol, so calls may overlap on one handle, and each uses the symbol from before or after a
/// composition.
struct ApiSymbol {
  Symbol symbol;
  std::optional<AtomicSymbol> atomic;  ///< until it is composed
};

/// The handles of symbols.
Handles<ApiSymbol>& Symbols();

/// Returns the symbol of a handle, which is not copied; an operator without inputs gets variables
/// for them.
std::shared_ptr<const Symbol> SymbolOf(SymbolHandle handle);
/// Returns a new handle.
SymbolHandle AddSymbol(Symbol symbol);

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CORE_SYMBOLS_H_
