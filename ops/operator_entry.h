#ifndef TESSERA_OPS_OPERATOR_ENTRY_H_
#define TESSERA_OPS_OPERATOR_ENTRY_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/guarded.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"

namespace tessera {

/// One implementation of an operator on a kind of device. All implementations of an operator
/// compute the same, with the resources and in-place options of its property.
struct OperatorImplementation {
  DeviceType device = DeviceType::kCpu;  ///< the kind of device that it runs on
  std::string name = "";                 ///< "native" for the one that the operator came with
  /// Among the implementations that support a call, that of the highest rank is chosen, and in one
  /// rank the first by name. "native" has rank 0. A call uses a negative rank only if it names the
  /// implementation, or if no other one supports it.
  int rank = 0;
  /// Returns why the implementation does not support an operator with inputs of these shapes and
  /// types, such as "data is float64, expected float32". Empty if it does. Null supports all.
  std::function<std::string(const OperatorProperty&, std::span<const TShape>,
                            std::span<const DType>)>
      refusal = nullptr;
  /// Creates the operator of a property for the inputs' shapes and types, which `refusal` accepts.
  /// Throws Error(kInvalidArgument) for a type without code.
  std::function<std::unique_ptr<Operator>(const OperatorProperty&, std::span<const TShape>,
                                          std::span<const DType>)>
      create = nullptr;
  std::string place = "";  ///< file and line of the registration, which the registry sets
};

/// The registration of an operator. It is the only source of names, aliases and documentation.
struct OperatorEntry {
  std::string name;                  ///< the name that ListNames returns
  std::string place;                 ///< file and line of the registration
  std::vector<std::string> aliases;  ///< other names that find it
  std::string description;           ///< one sentence of documentation
  std::string key_var_num_args;      ///< the parameter that counts the inputs, if there is one
  std::function<std::unique_ptr<OperatorProperty>()> create_property;  ///< before Init
  std::function<std::vector<ParameterInfo>()> describe_parameters;     ///< for documentation
  /// The implementations in the order of the choice. A library may add one while calls are
  /// prepared; none is ever removed.
  Guarded<std::vector<std::shared_ptr<const OperatorImplementation>>> implementations;
};

}  // namespace tessera

#endif  // TESSERA_OPS_OPERATOR_ENTRY_H_
