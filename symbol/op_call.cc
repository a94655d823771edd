#include "tessera/symbol/op_call.h"

#include <map>
#include <utility>

namespace tessera::symbol_internal {

Symbol CallWithNames(std::string_view op, std::initializer_list<NamedInput> inputs,
                     const ParameterMap& parameters, std::string name) {
  std::map<std::string, Symbol> given;
  for (const NamedInput& input : inputs) {
    if (!input.symbol->is_none()) given.emplace(input.name, *input.symbol);
  }
  return Symbol::Compose(op, given, parameters, std::move(name));
}

}  // namespace tessera::symbol_internal
