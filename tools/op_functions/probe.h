#ifndef TESSERA_TOOLS_OP_FUNCTIONS_PROBE_H_
#define TESSERA_TOOLS_OP_FUNCTIONS_PROBE_H_

#include <memory>
#include <string>
#include <vector>

#include "tessera/ops/operator_entry.h"
#include "tessera/ops/property.h"

namespace tessera::op_functions {

/// Properties of one operator under many parameters. They show what a function's signature depends
/// on: an operator lists inputs and outputs for given parameters only.
class Probe {
 public:
  explicit Probe(const OperatorEntry& entry);

  /// Returns the operator's properties for its defaults, for each boolean and choice, for two of
  /// them together, and for a few values of each number and tuple.
  const std::vector<std::shared_ptr<const OperatorProperty>>& properties() const {
    return properties_;
  }
  /// Returns the name of the parameter that counts the inputs of an operator with any number of
  /// them, or an empty string.
  const std::string& count_parameter() const { return count_parameter_; }
  /// Returns the operator's property with a count_parameter of 1, or null without one.
  const std::shared_ptr<const OperatorProperty>& single() const { return single_; }

  /// Returns whether the parameter may be None.
  bool MayBeNone(const ParameterInfo& parameter) const;
  /// Returns a sentence about the parameter's range, or an empty string without one.
  std::string RangeOf(const ParameterInfo& parameter) const;

 private:
  std::shared_ptr<const OperatorProperty> Try(const ParameterMap& fixed) const;
  std::string MessageFor(const ParameterInfo& parameter, const std::string& text) const;
  void FindCount(const ParameterMap& fixed);

  const OperatorEntry& entry_;
  const std::vector<ParameterInfo> parameters_;
  std::vector<std::shared_ptr<const OperatorProperty>> properties_;
  std::string count_parameter_;
  std::shared_ptr<const OperatorProperty> single_;
};

}  // namespace tessera::op_functions

#endif  // TESSERA_TOOLS_OP_FUNCTIONS_PROBE_H_
