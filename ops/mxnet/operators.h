#ifndef TESSERA_OPS_MXNET_OPERATORS_H_
#define TESSERA_OPS_MXNET_OPERATORS_H_

#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/dialect.h"

// The operators of MXNet 1.9.1, as its registry describes them: facts about names, whether or not
// Tessera has the operator. Threads: all functions may be called from any thread.
namespace tessera {

/// One name in MXNet's registry.
struct MxnetOperator {
  /// An input or a parameter.
  struct Argument {
    std::string_view name;  ///< as callers write it
    /// MXNet's description, "float, optional, default=0.25"; "NDArray-or-Symbol" for an input and
    /// "NDArray-or-Symbol[]" for a list of inputs.
    std::string_view type;

    /// Returns whether the argument is an input, not a parameter.
    bool is_input() const { return type.starts_with("NDArray-or-Symbol"); }
  };

  std::string_view name;              ///< a name or an alias
  std::string_view canonical_name;    ///< the name of the same operator that MXNet registered first
  std::string_view key_var_num_args;  ///< the parameter that counts the inputs, or empty
  std::vector<Argument> arguments;    ///< inputs, then parameters
};

/// Returns all names in the order of their bytes.
std::span<const MxnetOperator> MxnetOperators();

/// Returns the operator of that name, or null.
const MxnetOperator* FindMxnetOperator(std::string_view name);

}  // namespace tessera

#endif  // TESSERA_OPS_MXNET_OPERATORS_H_
