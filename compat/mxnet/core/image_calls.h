#ifndef TESSERA_COMPAT_MXNET_CORE_IMAGE_CALLS_H_
#define TESSERA_COMPAT_MXNET_CORE_IMAGE_CALLS_H_

#include <span>

#include "tessera/compat/mxnet/core/operators.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ops/parameter.h"

namespace tessera::mxnet {

/// Computes an operator with Quirk::kImageCall: one of those behind mx.image.imdecode, imread,
/// imresize and copyMakeBorder, which MXNet computes by OpenCV. Waits for the input. Throws
/// Error(kInvalidArgument) for wrong parameters, inputs, shapes or types, and what DecodeImage
/// throws.
NDArray InvokeImageCall(const ApiOperator& op, std::span<const NDArray> inputs,
                        const ParameterMap& parameters);

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CORE_IMAGE_CALLS_H_
