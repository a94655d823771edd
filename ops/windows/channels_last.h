#ifndef TESSERA_OPS_WINDOWS_CHANNELS_LAST_H_
#define TESSERA_OPS_WINDOWS_CHANNELS_LAST_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/ops/operator.h"
#include "tessera/ops/property.h"

/// Layouts with channels behind the spatial axes (NWC, NHWC, NDHWC) for operators that compute with
/// channels in front of them. The images of a call, which are its first inputs and all its outputs,
/// are (batch, position…, channel). A weight is an image too: (filter, kernel…, channel).
namespace tessera::ops_internal {

/// Infers shapes by `infer`, an InferShape for channels in front. The first `num_images` inputs and
/// all outputs are images. An error that `infer` throws says that its shapes have channels in
/// front.
bool InferChannelsLast(
    size_t num_images, std::vector<TShape>* in_shape, std::vector<TShape>* out_shape,
    const std::function<bool(std::vector<TShape>*, std::vector<TShape>*)>& infer);

/// Returns an operator of `property`, whose parameter `layout` has channels last, on the CPU. It
/// transposes images, calls the operator with layout=None for the same shapes and types, and
/// transposes what that has computed, each in one parallel pass over the elements.
///
/// Workspace: a copy of each image, besides what the other operator requests, in one request. Both
/// resource lists of the property must begin with ResourceRequest::Type::kTempSpace. Requires: the
/// other operator requests no other resource, and states its bytes unless it needs none.
std::unique_ptr<Operator> MakeChannelsLast(const OperatorProperty& property, size_t num_images,
                                           std::span<const TShape> in_shape,
                                           std::span<const DType> in_type);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_WINDOWS_CHANNELS_LAST_H_
