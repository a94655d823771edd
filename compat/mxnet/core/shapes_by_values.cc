#include "tessera/compat/mxnet/core/shapes_by_values.h"

#include "tessera/base/error.h"
#include "tessera/ndarray/boolean_mask.h"

namespace tessera::mxnet {
namespace {

struct MaskParameters {
  int axis = 0;

  static void Declare(ParameterSchema<MaskParameters>& schema) {
    schema.Optional("axis", &MaskParameters::axis, "the axis of data that the mask belongs to");
  }
};

}  // namespace

std::optional<std::vector<NDArray>> InvokeByValues(const ApiOperator& op,
                                                   std::span<const NDArray> inputs,
                                                   const ParameterMap& parameters) {
  if (!op.quirks.Has(Quirk::kShapeByValues)) return std::nullopt;
  const auto param = ParameterSchema<MaskParameters>::Get().Parse(op.name, parameters);
  if (inputs.size() != 2) {
    throw InvalidArgument(op.name, ": ", inputs.size(),
                          " inputs are given, expected data and index");
  }
  return std::vector<NDArray>{BooleanMask(inputs[0], inputs[1], param.axis)};
}

}  // namespace tessera::mxnet
