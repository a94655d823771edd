#ifndef TESSERA_COMPAT_MXNET_CORE_SHAPES_BY_VALUES_H_
#define TESSERA_COMPAT_MXNET_CORE_SHAPES_BY_VALUES_H_

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/parameter.h"

namespace tessera::mxnet {

/// Computes an operator whose results' shapes depend on the inputs' values, so that it has no place
/// in a graph: _contrib_boolean_mask, whose other name is _npi_boolean_mask. Returns nothing for
/// any other operator. Waits for the values. Throws Error(kInvalidArgument) for wrong parameters, a
/// wrong number of inputs, or shapes that do not fit.
std::optional<std::vector<NDArray>> InvokeByValues(const std::string& op,
                                                   std::span<const NDArray> inputs,
                                                   const ParameterMap& parameters);

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CORE_SHAPES_BY_VALUES_H_
