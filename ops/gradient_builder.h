#ifndef TESSERA_OPS_GRADIENT_BUILDER_H_
#define TESSERA_OPS_GRADIENT_BUILDER_H_

#include <span>
#include <string_view>
#include <vector>

#include "tessera/ops/parameter.h"

namespace tessera {

/// The graph in which OperatorProperty::BuildGradient writes the gradient of one node. Values are
/// ids that only this builder understands.
class GradientBuilder {
 public:
  /// The id of a value.
  using Value = int;

  virtual ~GradientBuilder() = default;

  /// Returns the gradient of the node's output, which is zeros if nothing depends on the output.
  virtual Value OutGrad(int output) = 0;
  /// Return an input and an output of the node.
  virtual Value Input(int input) = 0;
  virtual Value Output(int output) = 0;

  /// Returns the visible outputs of a registered operator applied to values. Throws what
  /// OperatorRegistry::Create throws.
  virtual std::vector<Value> Apply(std::string_view op, std::span<const Value> inputs,
                                   const ParameterMap& parameters) = 0;
  /// Returns the first output of an operator applied to values.
  Value Apply1(std::string_view op, std::initializer_list<Value> inputs,
               const ParameterMap& parameters = {}) {
    return Apply(op, {inputs.begin(), inputs.size()}, parameters).front();
  }

  /// Sets the gradient of an input. An input without one has gradient 0.
  virtual void SetInGrad(int input, Value gradient) = 0;
};

}  // namespace tessera

#endif  // TESSERA_OPS_GRADIENT_BUILDER_H_
