// Arrays that processes share. Functions of MXNet's C API; see types.h.
//
// On Linux, MXNet's number of shared memory is a file descriptor, which Python sends to the other
// process. The number of the process that made the memory is only passed on.
#include <unistd.h>

#include <memory>
#include <span>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/ndarray/shared_array.h"

namespace tessera::mxnet {
namespace {

/// Returns the descriptor of the array's memory. An array of another device moves to shared memory.
int ShareArray(NDArrayHandle handle) {
  const std::shared_ptr<NDArray> before = Arrays().Get(handle);
  NDArray array = *before;
  if (array.is_none()) throw InvalidArgument("MXNDArrayGetSharedMemHandle: there is no array");
  if (SharedFileOf(array) == nullptr) {
    array = array.Detach().Copy(Device::CpuShared());
    Arrays().Replace(handle, before, array);
  }
  array.WaitToRead();
  return SharedFileOf(array)->descriptor();
}

template <typename Extent>
void OpenArray(int descriptor, const Extent* shape, size_t rank, int type, NDArrayHandle* out) {
  NotNull(out, "out");
  const std::span<const Extent> extents = ListOf(shape, rank, "shape");
  const TShape dimensions(std::vector<index_t>(extents.begin(), extents.end()));
  *out = Arrays().Add(OpenSharedArray(descriptor, dimensions, TypeOf(type)));
}

}  // namespace
}  // namespace tessera::mxnet

using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API int MXNDArrayGetSharedMemHandle(NDArrayHandle handle, int* shared_pid,
                                                  int* shared_id) {
  return ApiCall([&] {
    NotNull(shared_pid, "shared_pid");
    *NotNull(shared_id, "shared_id") = ShareArray(handle);
    *shared_pid = getpid();
  });
}

TESSERA_MXNET_API int MXNDArrayCreateFromSharedMem(int /*shared_pid*/, int shared_id,
                                                   const uint32_t* shape, uint32_t ndim, int dtype,
                                                   NDArrayHandle* out) {
  return ApiCall([&] { OpenArray(shared_id, shape, ndim, dtype, out); });
}

TESSERA_MXNET_API int MXNDArrayCreateFromSharedMemEx(int /*shared_pid*/, int shared_id,
                                                     const int* shape, int ndim, int dtype,
                                                     NDArrayHandle* out) {
  return ApiCall([&] {
    if (ndim < 0) {
      throw tessera::InvalidArgument("MXNDArrayCreateFromSharedMemEx: the rank is ", ndim);
    }
    OpenArray(shared_id, shape, static_cast<size_t>(ndim), dtype, out);
  });
}
