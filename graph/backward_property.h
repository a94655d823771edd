#ifndef TESSERA_GRAPH_BACKWARD_PROPERTY_H_
#define TESSERA_GRAPH_BACKWARD_PROPERTY_H_

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tessera/ops/property.h"

namespace tessera::graph {

/// The property of the node that runs another node's Operator::Backward. Its inputs are the values
/// that DeclareBackwardDependency names; its outputs are the gradients of all of that node's
/// inputs. Such a node is called through the other operator: CreateOperator throws.
class BackwardProperty final : public OperatorProperty {
 public:
  /// The list of Backward's arguments that an input belongs to.
  enum class Role { kOutGrad, kInData, kOutData };
  /// The place of an input among Backward's arguments.
  struct Source {
    Role role;  ///< the list
    int index;  ///< the position in the list
  };

  /// Makes the property of the gradient of an operator. If `reads_output`, the last input is the
  /// operator's first output even if Backward does not need it, so that a graph with the gradient
  /// has the operator's node and the shapes of its inputs.
  explicit BackwardProperty(std::shared_ptr<const OperatorProperty> forward,
                            bool reads_output = false);

  /// Returns the property of the operator whose gradient this is.
  const std::shared_ptr<const OperatorProperty>& forward() const { return forward_; }
  /// Return the numbers of that operator's inputs and outputs.
  int num_forward_inputs() const { return num_inputs_; }
  int num_forward_outputs() const { return num_outputs_; }
  /// Returns the place of each input.
  const std::vector<Source>& sources() const { return sources_; }

  void Init(const ParameterMap&) override {}
  ParameterMap GetParams() const override { return {}; }
  std::vector<std::string> ListArguments() const override;
  std::vector<std::string> ListOutputs() const override;
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override;
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override;
  std::vector<InplacePair> ForwardInplaceOption(std::span<const int> in_data,
                                                std::span<const int> out_data) const override;
  bool HasGradient() const override { return false; }
  std::unique_ptr<Operator> CreateOperator(Device device, std::span<const TShape> in_shape,
                                           std::span<const DType> in_type) const override;
  const std::string& TypeString() const override { return name_; }

 private:
  template <typename T, typename Infer>
  bool InferBy(std::vector<T>* in, std::vector<T>* out, const T& unknown, const Infer& infer) const;

  std::shared_ptr<const OperatorProperty> forward_;
  std::string name_;
  int num_inputs_;
  int num_outputs_;
  std::vector<Source> sources_;
};

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_BACKWARD_PROPERTY_H_
