#ifndef TESSERA_OPS_OPERATOR_ENTRY_H_
#define TESSERA_OPS_OPERATOR_ENTRY_H_

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/ops/operator.h"

namespace tessera {

/// One way to carry out an operator on a device.
struct OperatorImplementation {
  DeviceType device;
  std::string name;  ///< "native", or a library's name
  /// Whether it takes this shape and type; null means always.
  std::function<bool(const OperatorProperty&, std::span<const TShape>, DType)> supports;
  std::function<std::unique_ptr<Operator>(const OperatorProperty&, DType)> create;
};

/// What is registered under an operator's name. Names, aliases and documentation stand here alone.
struct OperatorEntry {
  std::string name;
  std::vector<std::string> aliases;
  std::string description;
  std::function<std::unique_ptr<OperatorProperty>()> create_property;
  std::function<std::vector<ParameterInfo>()> describe_parameters;
  std::vector<OperatorImplementation> implementations;  ///< tried in this order
};

}  // namespace tessera

#endif  // TESSERA_OPS_OPERATOR_ENTRY_H_
