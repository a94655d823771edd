#ifndef TESSERA_TENSOR_PACKET_SCALE_OR_OFFSET_H_
#define TESSERA_TENSOR_PACKET_SCALE_OR_OFFSET_H_

#include "tessera/base/dialect.h"

namespace tessera::tensor_internal {

/// The operation scale * x + offset, where at most one of the two has an effect: adding -0.0
/// changes no number, zeros included. The result is therefore rounded once, fused or not. The
/// struct has no functions, since code of several instruction sets shares it.
template <typename T>
struct ScaleOrOffset {
  T scale = T(1);
  T offset = T(-0.0);
};

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_PACKET_SCALE_OR_OFFSET_H_
