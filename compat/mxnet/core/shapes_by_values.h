#ifndef TESSERA_COMPAT_MXNET_CORE_SHAPES_BY_VALUES_H_
#define TESSERA_COMPAT_MXNET_CORE_SHAPES_BY_VALUES_H_

#include <optional>
#include <span>
#include <vector>

#include "tessera/compat/mxnet/core/operators.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/parameter.h"

namespace tessera::mxnet {

/// Computes an operator with Quirk::kShapeByValues, all of which are boolean masks. Such an
/// operator has no place in a graph. Returns nothing for any other operator. Waits for the values.
/// Throws Error(kInvalidArgument) for wrong parameters, a wrong number of inputs, or shapes that do
/// not fit.
std::optional<std::vector<NDArray>> InvokeByValues(const ApiOperator& op,
                                                   std::span<const NDArray> inputs,
                                                   const ParameterMap& parameters);

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CORE_SHAPES_BY_VALUES_H_
