#ifndef TESSERA_COMPAT_MXNET_FUNCTIONS_TESTING_ARRAY_CLIENT_H_
#define TESSERA_COMPAT_MXNET_FUNCTIONS_TESTING_ARRAY_CLIENT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/compat/mxnet/core/types.h"

// The functions that the tests call, as a client declares them.
extern "C" {
const char* MXGetLastError();
int MXSetIsNumpyShape(int is_np_shape, int* prev);
int MXNDArrayCreateEx(const uint32_t* shape, uint32_t ndim, int dev_type, int dev_id,
                      int delay_alloc, int dtype, NDArrayHandle* out);
int MXNDArrayFree(NDArrayHandle handle);
int MXNDArrayAt(NDArrayHandle handle, uint32_t idx, NDArrayHandle* out);
int MXNDArrayReshape64(NDArrayHandle handle, int ndim, int64_t* dims, bool reverse,
                       NDArrayHandle* out);
int MXNDArraySyncCopyFromCPU(NDArrayHandle handle, const void* data, size_t size);
int MXNDArraySyncCopyToCPU(NDArrayHandle handle, void* data, size_t size);
int MXNDArrayWaitToRead(NDArrayHandle handle);
int MXNDArrayWaitAll();
int MXNDArrayGetShapeEx(NDArrayHandle handle, int* out_dim, const int** out_pdata);
int MXNDArrayGetDType(NDArrayHandle handle, int* out_dtype);
int MXNDArrayGetContext(NDArrayHandle handle, int* out_dev_type, int* out_dev_id);
int MXNDArraySaveRawBytes(NDArrayHandle handle, size_t* out_size, const char** out_buf);
int MXNDArrayLoadFromRawBytes(const void* buf, size_t size, NDArrayHandle* out);
int MXNDArrayFromDLPackEx(DLManagedTensorHandle dlpack, bool transient_handle, NDArrayHandle* out);
int MXNDArrayGetSharedMemHandle(NDArrayHandle handle, int* shared_pid, int* shared_id);
int MXNDArrayCreateFromSharedMemEx(int shared_pid, int shared_id, const int* shape, int ndim,
                                   int dtype, NDArrayHandle* out);
int MXNDArrayCreateSparseEx(int storage_type, const uint32_t* shape, uint32_t ndim, int dev_type,
                            int dev_id, int delay_alloc, int dtype, uint32_t num_aux, int* aux_type,
                            uint32_t* aux_ndims, const uint32_t* aux_shape, NDArrayHandle* out);
int MXNDArrayGetStorageType(NDArrayHandle handle, int* out_storage_type);
int MXNDArrayGetAuxType(NDArrayHandle handle, uint32_t i, int* out_type);
int MXNDArrayGetAuxNDArray(NDArrayHandle handle, uint32_t i, NDArrayHandle* out);
int MXNDArrayGetDataNDArray(NDArrayHandle handle, NDArrayHandle* out);
int MXNDArraySyncCopyFromNDArray(NDArrayHandle dst, NDArrayHandle src, int i);
int MXNDArraySyncCheckFormat(NDArrayHandle handle, bool full_check);
int MXAutogradSetIsRecording(int is_recording, int* prev);
int MXAutogradMarkVariables(uint32_t num_var, NDArrayHandle* var_handles, uint32_t* reqs_array,
                            NDArrayHandle* grad_handles);
int NNGetOpHandle(const char* op_name, void** op_out);
int MXImperativeInvokeEx(AtomicSymbolCreator creator, int num_inputs, NDArrayHandle* inputs,
                         int* num_outputs, NDArrayHandle** outputs, int num_params,
                         const char** param_keys, const char** param_vals, const int** out_stypes);
}

namespace tessera::mxnet::testing {

/// The number of a device type in MXNet's interface.
inline constexpr int kCpu = 1;
inline constexpr int kCpuShared = 5;

using TextParameters = std::vector<std::pair<std::string, std::string>>;

/// Returns "" for a call that succeeded, else the error's text.
std::string ErrorOf(int status);

/// Returns a new array of float32 elements with the given shape.
NDArrayHandle ArrayOfValues(const std::vector<uint32_t>& shape, const std::vector<float>& values,
                            int device_type = kCpu);

/// Calls an operator. `out`, if it is not null, is the array to write. Returns the error's text, or
/// "" after setting `*result`, which is the first output.
std::string Invoke(const std::string& op, std::vector<NDArrayHandle> inputs,
                   const TextParameters& parameters, NDArrayHandle* result,
                   NDArrayHandle out = nullptr);
/// Calls an operator that must succeed, and returns its first output.
NDArrayHandle Invoked(const std::string& op, std::vector<NDArrayHandle> inputs,
                      const TextParameters& parameters = {});

/// Return an array's elements and shape. Elements are {} if the copy fails.
std::vector<float> ValuesOf(NDArrayHandle handle);
std::vector<int> ShapeOf(NDArrayHandle handle);

}  // namespace tessera::mxnet::testing

#endif  // TESSERA_COMPAT_MXNET_FUNCTIONS_TESTING_ARRAY_CLIENT_H_
