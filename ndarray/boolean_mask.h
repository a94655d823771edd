#ifndef TESSERA_NDARRAY_BOOLEAN_MASK_H_
#define TESSERA_NDARRAY_BOOLEAN_MASK_H_

#include "tessera/ndarray/ndarray.h"

namespace tessera {

/// Returns the slices of `data` along `axis` at which `mask` is not 0: for a matrix and axis 0, the
/// rows that the mask keeps. The result's shape depends on the mask's values, so the call waits for
/// the mask; the slices are then taken asynchronously, and recorded by autograd as the operator
/// `take`.
///
/// Shapes: mask (n) where n is data's extent of the axis, which counts from the end if negative;
/// the result is data's shape with the number of kept slices in place of n, which may be 0. Types:
/// any.
/// Throws Error(kInvalidArgument) if shapes do not fit, and the Error of a failed operation that
/// the mask depends on.
NDArray BooleanMask(const NDArray& data, const NDArray& mask, int axis = 0);

}  // namespace tessera

#endif  // TESSERA_NDARRAY_BOOLEAN_MASK_H_
