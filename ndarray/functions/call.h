#ifndef TESSERA_NDARRAY_FUNCTIONS_CALL_H_
#define TESSERA_NDARRAY_FUNCTIONS_CALL_H_

#include <initializer_list>
#include <string_view>
#include <vector>

#include "tessera/ndarray/functions/outputs.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/parameter.h"

namespace tessera::ndarray_internal {

/// Call an operator that shows one output, or several. Inputs that are none are left out. Outputs
/// are written to `out`, which is returned, unless it is none or empty. Throw what Invoke throws.
NDArray CallForOne(std::string_view op, std::initializer_list<const NDArray*> inputs,
                   const ParameterMap& parameters, const NDArray& out);
NDArray CallForOne(std::string_view op, const std::vector<NDArray>& inputs,
                   const ParameterMap& parameters, const NDArray& out);
ops::Outputs CallForAll(std::string_view op, std::initializer_list<const NDArray*> inputs,
                        const ParameterMap& parameters, const std::vector<NDArray>& out);
ops::Outputs CallForAll(std::string_view op, const std::vector<NDArray>& inputs,
                        const ParameterMap& parameters, const std::vector<NDArray>& out);

}  // namespace tessera::ndarray_internal

#endif  // TESSERA_NDARRAY_FUNCTIONS_CALL_H_
