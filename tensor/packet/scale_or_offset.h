#ifndef TESSERA_TENSOR_PACKET_SCALE_OR_OFFSET_H_
#define TESSERA_TENSOR_PACKET_SCALE_OR_OFFSET_H_

#include "tessera/base/dialect.h"

namespace tessera::tensor_internal {

/// scale * x + offset, where only one of the two is anything: adding -0.0 changes no number, zeros
/// included. So the result is rounded once, fused or not. It has no functions, for code of several
/// instruction sets shares it.
template <typename T>
struct ScaleOrOffset {
  T scale = T(1);
  T offset = T(-0.0);
};

}  // namespace tessera::tensor_internal

#endif  // TESSERA_TENSOR_PACKET_SCALE_OR_OFFSET_H_
