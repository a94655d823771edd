#ifndef MSHADOW_TENSOR_H_
#define MSHADOW_TENSOR_H_

// mshadow's tensor header over Tessera's tensor library: the same names for programs that were
// written against mshadow. Names that Tessera spells differently are defined here; all others are
// Tessera's own under the namespace that such programs use.

#include "tessera/base/dtype.h"
#include "tessera/tensor/tensor.h"

/// How user-made functors mark a function for host and device.
#define MSHADOW_XINLINE TESSERA_HD
#define MSHADOW_CINLINE inline

namespace tessera {

using default_real_t = float;
using real_t = float;

namespace half {
using half_t = tessera::half_t;
}  // namespace half
namespace bfloat {
using bf16_t = tessera::bfloat16_t;
}  // namespace bfloat

/// Prepares a device for tensors. The CPU needs no preparation; the calls pair as they always did.
template <typename Device>
inline void InitTensorEngine(int device_id = 0) {
  static_assert(Device::kDevCPU, "a GPU is prepared by NewStream<gpu>(device_id)");
  static_cast<void>(device_id);
}
template <typename Device>
inline void ShutdownTensorEngine() {}

}  // namespace tessera

namespace mshadow = tessera;

#endif  // MSHADOW_TENSOR_H_
