#ifndef TESSERA_OPS_OPERATOR_ENTRY_H_
#define TESSERA_OPS_OPERATOR_ENTRY_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"

namespace tessera {

/// One implementation of an operator on a device.
struct OperatorImplementation {
  DeviceType device;  ///< the kind of device that it runs on
  std::string name;   ///< "native", or a library's name
  /// Returns whether the implementation supports the inputs' shapes and types; null means always.
  std::function<bool(const OperatorProperty&, std::span<const TShape>, std::span<const DType>)>
      supports;
  /// Creates the operator of a property for the inputs' shapes and types. Throws
  /// Error(kInvalidArgument) for a type without code.
  std::function<std::unique_ptr<Operator>(const OperatorProperty&, std::span<const TShape>,
                                          std::span<const DType>)>
      create;
};

/// The registration of an operator. It is the only source of names, aliases and documentation.
struct OperatorEntry {
  std::string name;                  ///< the name that ListNames returns
  std::string place;                 ///< file and line of the registration
  std::vector<std::string> aliases;  ///< other names that find it
  std::string description;           ///< one sentence of documentation
  std::function<std::unique_ptr<OperatorProperty>()> create_property;  ///< before Init
  std::function<std::vector<ParameterInfo>()> describe_parameters;     ///< for documentation
  std::vector<OperatorImplementation> implementations;                 ///< tried in this order
};

}  // namespace tessera

#endif  // TESSERA_OPS_OPERATOR_ENTRY_H_
