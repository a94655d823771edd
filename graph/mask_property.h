#ifndef TESSERA_GRAPH_MASK_PROPERTY_H_
#define TESSERA_GRAPH_MASK_PROPERTY_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/ops/parameter.h"
#include "tessera/ops/property.h"

namespace tessera::graph {

/// The parameters of BooleanMaskProperty.
struct BooleanMaskParameters {
  int axis = 0;  ///< counts from the end if negative
  static void Declare(ParameterSchema<BooleanMaskParameters>& schema);
};

/// The property of MXNet's _contrib_boolean_mask: the slices of `data` along an axis at which
/// `index` is not 0. How many these are depends on values, so the registry has no such operator:
/// graphs that have it are called node by node, by a function of arrays. CreateOperator throws.
class BooleanMaskProperty final : public ParameterizedProperty<BooleanMaskParameters> {
 public:
  /// The operator's name.
  static constexpr std::string_view kName = "_contrib_boolean_mask";

  /// Returns the property. Throws Error(kInvalidArgument) for wrong parameters.
  static std::shared_ptr<const OperatorProperty> Make(const ParameterMap& parameters);

  std::vector<std::string> ListArguments() const override { return {"data", "index"}; }
  /// The call waits for the mask.
  Purity purity() const override { return Purity::kSynchronous; }
  bool InferShape(std::vector<TShape>* in_shape, std::vector<TShape>* out_shape) const override;
  bool InferType(std::vector<DType>* in_type, std::vector<DType>* out_type) const override;
  bool HasGradient() const override { return false; }
  std::unique_ptr<Operator> CreateOperator(Device device, std::span<const TShape> in_shape,
                                           std::span<const DType> in_type) const override;
  const std::string& TypeString() const override;
};

}  // namespace tessera::graph

#endif  // TESSERA_GRAPH_MASK_PROPERTY_H_
