#ifndef TESSERA_SYMBOL_APPLY_H_
#define TESSERA_SYMBOL_APPLY_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/symbol/symbol.h"

namespace tessera::symbol_internal {

/// Returns the single output of a symbol. The error for another number of outputs begins with
/// `caller` and names the symbol as `what`.
graph::NodeEntry SingleOutput(const Symbol& symbol, std::string_view caller, std::string_view what);

/// Does what Symbol::Apply does, with names made from `hint`.
Symbol Apply(std::string_view op, std::string_view hint, const std::vector<Symbol>& inputs,
             const ParameterMap& parameters, std::string_view name);
/// Does what the static Symbol::Compose does.
Symbol Apply(std::string_view op, const std::map<std::string, Symbol>& inputs,
             const ParameterMap& parameters, std::string_view name);

}  // namespace tessera::symbol_internal

#endif  // TESSERA_SYMBOL_APPLY_H_
