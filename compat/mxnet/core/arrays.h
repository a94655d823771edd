#ifndef TESSERA_COMPAT_MXNET_CORE_ARRAYS_H_
#define TESSERA_COMPAT_MXNET_CORE_ARRAYS_H_

#include <cstdint>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/base/dtype.h"
#include "tessera/base/tshape.h"
#include "tessera/compat/mxnet/core/handle_table.h"
#include "tessera/compat/mxnet/core/types.h"
#include "tessera/ndarray/ndarray.h"

namespace tessera::mxnet {

/// The handles of arrays. An array may be none, until a call gives it elements.
Handles<NDArray>& Arrays();

/// Returns the array of a handle.
inline NDArray ArrayOf(NDArrayHandle handle) { return *Arrays().Get(handle); }
/// Returns the arrays of a list of handles; `argument` names the list in errors. With
/// `null_is_none`, a null handle stands for an array that is none.
std::vector<NDArray> ArraysOf(const NDArrayHandle* handles, size_t size, const char* argument,
                              bool null_is_none = false);
/// Returns new handles, which the caller frees, in memory that lives until the thread's next call.
NDArrayHandle* KeepHandles(const std::vector<NDArray>& arrays);

/// Returns whether the thread writes unknown extents as -1, as NumPy's shapes need, or as 0.
bool NumpyShape();
/// Return and set the mode by MXNet's numbers: 1 is NumPy's shapes for the thread, 2 for all
/// threads, and 0 ends both. SetNumpyShapeMode returns the thread's mode before, 0 or 1.
int NumpyShapeMode();
int SetNumpyShapeMode(int mode);
/// Sets the mode of the calling thread alone. Returns what it was.
bool SetNumpyShapeOfThread(bool numpy_shape);

/// Return a device and an element type by MXNet's numbers. Throw Error(kInvalidArgument).
Device DeviceOf(int type, int id);
DType TypeOf(int number);

}  // namespace tessera::mxnet

#endif  // TESSERA_COMPAT_MXNET_CORE_ARRAYS_H_
