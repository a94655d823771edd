#ifndef TESSERA_SYMBOL_MONITOR_NAMES_H_
#define TESSERA_SYMBOL_MONITOR_NAMES_H_

#include <functional>
#include <string>
#include <vector>

#include "tessera/ops/property.h"

namespace tessera {

/// The names under which a monitor receives the values of an operator's node, each "NODE_" and a
/// name of the list that a function here returns for the operator.
struct MonitorNames {
  using List = std::function<std::vector<std::string>(const OperatorProperty& op)>;

  /// Returns a name for each input and output of `op`, in order.
  List inputs = &OperatorProperty::ListArguments;
  List outputs = &OperatorProperty::ListOutputs;
};

}  // namespace tessera

#endif  // TESSERA_SYMBOL_MONITOR_NAMES_H_
