#ifndef TESSERA_OPS_KERNEL_H_
#define TESSERA_OPS_KERNEL_H_

#include "tessera/ops/operator.h"
#include "tessera/ops/property.h"           // IWYU pragma: export
#include "tessera/ops/register_operator.h"  // IWYU pragma: export
#include "tessera/ops/xpu.h"                // IWYU pragma: export
#include "tessera/tensor/tensor.h"          // IWYU pragma: export

// The header for files that implement operators: tensor expressions and registration.

namespace tessera {

/// Evaluates dst = e, dst += e or nothing, as `req` says. dst is a handle to the memory.
template <typename Dst, typename E>
void AssignTo(Dst dst, OpReqType req, const E& e) {
  switch (req) {
    case kNullOp:
      break;
    case kWriteTo:
    case kWriteInplace:
      dst = e;
      break;
    case kAddTo:
      dst += e;
      break;
  }
}

}  // namespace tessera

#endif  // TESSERA_OPS_KERNEL_H_
