#ifndef TESSERA_SYMBOL_OP_CALL_H_
#define TESSERA_SYMBOL_OP_CALL_H_

#include <initializer_list>
#include <string>
#include <string_view>

#include "tessera/ops/parameter.h"
#include "tessera/symbol/symbol.h"

namespace tessera::symbol_internal {

/// An input and the operator's name for it.
struct NamedInput {
  const char* name;
  const Symbol* symbol;
};

/// Returns Symbol::Compose of the inputs that are not none.
Symbol CallWithNames(std::string_view op, std::initializer_list<NamedInput> inputs,
                     const ParameterMap& parameters, std::string name);

}  // namespace tessera::symbol_internal

#endif  // TESSERA_SYMBOL_OP_CALL_H_
