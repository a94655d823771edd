#ifndef TESSERA_OPS_NN_POOLING_LOOPS_H_
#define TESSERA_OPS_NN_POOLING_LOOPS_H_

#include "tessera/ops/operator.h"
#include "tessera/ops/windows/pooling_parameters.h"
#include "tessera/tensor/tblob.h"

namespace tessera::ops_internal {

/// The number by which an average divides: the window's size cut at the padding's end, its number
/// of elements, or the kernel's size.
enum class PoolDivisor { kWithPadding, kElements, kKernel };

/// The function of a window.
struct PoolRule {
  PoolType type = PoolType::kMax;
  int power = 1;  ///< of lp: 1, 2 or 3
  PoolDivisor divisor = PoolDivisor::kWithPadding;
  /// Padding takes part in a maximum, as zeros, and all equal maxima share its gradient.
  bool zero_padding = false;
};

/// Pools data (n, c, position…) on the CPU. Types: float32, float64, float16, bfloat16; the last
/// two are computed in float32. The maximum of a window with a NaN is NaN.
void PoolForward(const PoolRule& rule, const PoolingWindow& window, const TBlob& data,
                 OpReqType req, const TBlob& out);

/// Computes the gradient of the data. The gradient of a maximum that is NaN is dropped.
void PoolBackward(const PoolRule& rule, const PoolingWindow& window, const TBlob& out_grad,
                  const TBlob& data, const TBlob& out, OpReqType req, const TBlob& grad);

/// Takes the elements of `values`, which is like data, at the places of the first maxima of data's
/// windows in row order: those to which PoolBackward gives the gradient. A window without an
/// element or with a NaN gives 0.
void PickMaxima(const PoolingWindow& window, const TBlob& values, const TBlob& data, OpReqType req,
                const TBlob& out);

}  // namespace tessera::ops_internal

#endif  // TESSERA_OPS_NN_POOLING_LOOPS_H_
