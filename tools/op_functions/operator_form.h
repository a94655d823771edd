#ifndef TESSERA_TOOLS_OP_FUNCTIONS_OPERATOR_FORM_H_
#define TESSERA_TOOLS_OP_FUNCTIONS_OPERATOR_FORM_H_

#include <cstddef>
#include <string>
#include <vector>

#include "tessera/tools/op_functions/parameter_form.h"

namespace tessera::op_functions {

/// An input of a function.
struct InputForm {
  std::string argument;      ///< the operator's name for it
  std::string variable;      ///< its name in C++
  bool is_optional = false;  ///< whether some parameters leave it out
  bool is_changed = false;   ///< whether the operator changes it
};

/// An operator as a function.
struct OperatorForm {
  std::string registered;   ///< the registry's name: "_random_uniform"
  std::string space;        ///< the namespace inside tessera::ops: "random"; may be empty
  std::string function;     ///< "uniform"
  std::string structure;    ///< "UniformParameters"; empty without parameters
  std::string description;  ///< a sentence
  /// The parameters, those that are required first.
  std::vector<ParameterForm> parameters;
  /// The inputs. A function that takes any number of them repeats these.
  std::vector<InputForm> inputs;
  /// The parameter that counts the inputs of a function that takes any number; else empty. The
  /// struct then does not have it.
  std::string count_parameter;
  /// The outputs' names under most parameters.
  std::vector<std::string> outputs;
  bool has_one_output = true;     ///< whether it shows one output under all parameters
  bool has_fixed_outputs = true;  ///< whether it shows the same ones under all parameters

  /// Returns whether the function takes any number of inputs, as a vector.
  bool TakesVector() const { return !count_parameter.empty(); }
  /// Returns whether callers must give parameters.
  bool NeedsParameters() const;
};

/// Returns the forms of all registered operators except _adjoint, by namespace and then by name.
/// Throws Error(kInternal) that names the operators if two would have one name.
std::vector<OperatorForm> ReadRegistry();

}  // namespace tessera::op_functions

#endif  // TESSERA_TOOLS_OP_FUNCTIONS_OPERATOR_FORM_H_
