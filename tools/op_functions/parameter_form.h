#ifndef TESSERA_TOOLS_OP_FUNCTIONS_PARAMETER_FORM_H_
#define TESSERA_TOOLS_OP_FUNCTIONS_PARAMETER_FORM_H_

#include <string>
#include <vector>

#include "tessera/ops/parameter.h"
#include "tessera/tools/op_functions/probe.h"

namespace tessera::op_functions {

/// A parameter of an operator as a member of a struct.
struct ParameterForm {
  ParameterInfo info;
  std::string member;        ///< its name in C++
  std::string type;          ///< its type in C++: "Required<int64_t>", "std::optional<double>"
  std::string initializer;   ///< its default in C++; empty if it is required
  std::string comment;       ///< description, range and default
  bool may_be_none = false;  ///< whether the value may be None
  std::string enumeration;   ///< the name of its enum class; empty for other types
  std::vector<std::string> choices;      ///< the texts of the enumerators
  std::vector<std::string> enumerators;  ///< "kMax", …
};

/// Returns the form of a parameter of the operator whose struct's name begins with `owner`. Throws
/// Error(kInternal) for a type that has none.
ParameterForm MakeParameterForm(const ParameterInfo& info, const Probe& probe,
                                const std::string& owner);

}  // namespace tessera::op_functions

#endif  // TESSERA_TOOLS_OP_FUNCTIONS_PARAMETER_FORM_H_
