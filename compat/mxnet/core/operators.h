#ifndef TESSERA_COMPAT_MXNET_CORE_OPERATORS_H_
#define TESSERA_COMPAT_MXNET_CORE_OPERATORS_H_

#include <string>
#include <vector>

#include "tessera/compat/mxnet/core/types.h"
#include "tessera/compat/mxnet/quirks/quirks.h"

namespace tessera::mxnet {

/// An operator as MXNet's clients see it.
struct ApiOperator {
  std::string name;
  std::string description;
  std::string key_var_num_args;  ///< the parameter that counts the inputs, or empty
  bool takes_parameters = true;  ///< otherwise calls ignore given ones, as MXNet's do
  QuirkSet quirks;               ///< those of the operator that the name or alias stands for
  std::vector<std::string> argument_names;
  std::vector<std::string> argument_types;
  std::vector<std::string> argument_descriptions;
};

/// Returns all names: MXNet's, whether or not they are implemented, and those that Tessera adds.
const std::vector<std::string>& OperatorNames();
/// Returns the name of each operator, without its aliases, and the handles of these names in their
/// order: clients make a function of each.
const std::vector<std::string>& UniqueOperatorNames();
const std::vector<void*>& UniqueOperatorHandles();

/// Returns the handle of a name, or null if there is none.
void* OperatorHandleOf(const std::string& name);

/// Returns the operator of a handle. Throws Error(kInvalidArgument) for any other value.
const ApiOperator& OperatorOf(const void* creator);

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CORE_OPERATORS_H_
