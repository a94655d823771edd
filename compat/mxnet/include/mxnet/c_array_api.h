#ifndef MXNET_C_ARRAY_API_H_
#define MXNET_C_ARRAY_API_H_

/* The functions of MXNet's C API that the library has: arrays, gradients, stores, iterators. */

#include "mxnet/c_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The library itself: version, errors, seeds, settings. */
const char* MXGetLastError(void);
int MXGetVersion(int* out);
int MXLibInfoFeatures(const struct LibFeature** libFeature, size_t* size);
int MXRandomSeed(int seed);
int MXRandomSeedContext(int seed, int dev_type, int dev_id);
int MXNotifyShutdown(void);
int MXIsNumpyShape(int* curr);
int MXSetIsNumpyShape(int is_np_shape, int* prev);
int MXEngineSetBulkSize(int bulk_size, int* prev_bulk_size);
int MXSetNumOMPThreads(int thread_num);
int MXGetGPUCount(int* out);
int MXStorageEmptyCache(int dev_type, int dev_id);
int MXGetEnv(const char* name, const char** value);
int MXSetEnv(const char* name, const char* value);
int MXListFunctions(uint32_t* out_size, FunctionHandle** out_array);
int MXGetFunction(const char* name, FunctionHandle* out);
int MXNetFuncListGlobalNames(int* out_size, const char*** out_array);
int MXNetFuncGetGlobal(const char* name, void** out);
int MXCustomOpRegister(const char* op_type, void* creator);

/* Arrays. */
int MXNDArrayCreateNone(NDArrayHandle* out);
int MXNDArrayCreate(const uint32_t* shape, uint32_t ndim, int dev_type, int dev_id, int delay_alloc,
                    NDArrayHandle* out);
int MXNDArrayCreateEx(const uint32_t* shape, uint32_t ndim, int dev_type, int dev_id,
                      int delay_alloc, int dtype, NDArrayHandle* out);
int MXNDArrayCreateEx64(const int64_t* shape, int ndim, int dev_type, int dev_id, int delay_alloc,
                        int dtype, NDArrayHandle* out);
int MXNDArrayFree(NDArrayHandle handle);
int MXShallowCopyNDArray(NDArrayHandle src, NDArrayHandle* out);
int MXNDArraySyncCopyFromCPU(NDArrayHandle handle, const void* data, size_t size);
int MXNDArraySyncCopyToCPU(NDArrayHandle handle, void* data, size_t size);
int MXNDArraySyncCopyFromNDArray(NDArrayHandle dst, NDArrayHandle src, int i);
int MXNDArrayWaitToRead(NDArrayHandle handle);
int MXNDArrayWaitToWrite(NDArrayHandle handle);
int MXNDArrayWaitAll(void);
int MXNDArraySlice(NDArrayHandle handle, uint32_t slice_begin, uint32_t slice_end,
                   NDArrayHandle* out);
int MXNDArraySlice64(NDArrayHandle handle, int64_t slice_begin, int64_t slice_end,
                     NDArrayHandle* out);
int MXNDArrayAt(NDArrayHandle handle, uint32_t idx, NDArrayHandle* out);
int MXNDArrayAt64(NDArrayHandle handle, int64_t idx, NDArrayHandle* out);
int MXNDArrayReshape(NDArrayHandle handle, int ndim, int* dims, NDArrayHandle* out);
int MXNDArrayReshape64(NDArrayHandle handle, int ndim, int64_t* dims, bool reverse,
                       NDArrayHandle* out);
int MXNDArrayGetStorageType(NDArrayHandle handle, int* out_storage_type);
int MXNDArrayGetShape(NDArrayHandle handle, uint32_t* out_dim, const uint32_t** out_pdata);
int MXNDArrayGetShapeEx(NDArrayHandle handle, int* out_dim, const int** out_pdata);
int MXNDArrayGetShapeEx64(NDArrayHandle handle, int* out_dim, const int64_t** out_pdata);
int MXNDArrayGetData(NDArrayHandle handle, void** out_pdata);
int MXNDArrayGetDType(NDArrayHandle handle, int* out_dtype);
int MXNDArrayGetContext(NDArrayHandle handle, int* out_dev_type, int* out_dev_id);
int MXNDArrayGetGrad(NDArrayHandle handle, NDArrayHandle* out);
int MXNDArrayDetach(NDArrayHandle handle, NDArrayHandle* out);

/* Arrays in files, in bytes and in other libraries. */
int MXNDArraySave(const char* fname, uint32_t num_args, NDArrayHandle* args, const char** keys);
int MXNDArrayLoad(const char* fname, uint32_t* out_size, NDArrayHandle** out_arr,
                  uint32_t* out_name_size, const char*** out_names);
int MXNDArrayLoadFromBuffer(const void* ndarray_buffer, size_t size, uint32_t* out_size,
                            NDArrayHandle** out_arr, uint32_t* out_name_size,
                            const char*** out_names);
int MXNDArraySaveRawBytes(NDArrayHandle handle, size_t* out_size, const char** out_buf);
int MXNDArrayLoadFromRawBytes(const void* buf, size_t size, NDArrayHandle* out);
int MXNDArrayToDLPack(NDArrayHandle handle, DLManagedTensorHandle* out_dlpack);
int MXNDArrayFromDLPackEx(DLManagedTensorHandle dlpack, bool transient_handle,
                          NDArrayHandle* out_handle);
int MXNDArrayFromDLPack(DLManagedTensorHandle dlpack, NDArrayHandle* out_handle);
int MXNDArrayCallDLPackDeleter(DLManagedTensorHandle dlpack);

/* The list of operators, and imperative calls. */
int MXListAllOpNames(uint32_t* out_size, const char*** out_array);
int MXSymbolListAtomicSymbolCreators(uint32_t* out_size, AtomicSymbolCreator** out_array);
int MXSymbolGetAtomicSymbolName(AtomicSymbolCreator creator, const char** name);
int MXSymbolGetAtomicSymbolInfo(AtomicSymbolCreator creator, const char** name,
                                const char** description, uint32_t* num_args,
                                const char*** arg_names, const char*** arg_type_infos,
                                const char*** arg_descriptions, const char** key_var_num_args,
                                const char** return_type MXNET_DEFAULT(NULL));
int MXImperativeInvoke(AtomicSymbolCreator creator, int num_inputs, NDArrayHandle* inputs,
                       int* num_outputs, NDArrayHandle** outputs, int num_params,
                       const char** param_keys, const char** param_vals);
int MXImperativeInvokeEx(AtomicSymbolCreator creator, int num_inputs, NDArrayHandle* inputs,
                         int* num_outputs, NDArrayHandle** outputs, int num_params,
                         const char** param_keys, const char** param_vals, const int** out_stypes);

/* Gradients of imperative calls. */
int MXAutogradSetIsRecording(int is_recording, int* prev);
int MXAutogradSetIsTraining(int is_training, int* prev);
int MXAutogradIsRecording(bool* curr);
int MXAutogradIsTraining(bool* curr);
int MXAutogradMarkVariables(uint32_t num_var, NDArrayHandle* var_handles, uint32_t* reqs_array,
                            NDArrayHandle* grad_handles);
int MXAutogradComputeGradient(uint32_t num_output, NDArrayHandle* output_handles);
int MXAutogradBackward(uint32_t num_output, NDArrayHandle* output_handles,
                       NDArrayHandle* ograd_handles, int retain_graph);
int MXAutogradBackwardEx(uint32_t num_output, NDArrayHandle* output_handles,
                         NDArrayHandle* ograd_handles, uint32_t num_variables,
                         NDArrayHandle* var_handles, int retain_graph, int create_graph,
                         int is_train, NDArrayHandle** grad_handles, int** grad_stypes);
int MXNDArraySetGradState(NDArrayHandle handle, int state);
int MXNDArrayGetGradState(NDArrayHandle handle, int* out);
int MXAutogradGetSymbol(NDArrayHandle handle, SymbolHandle* out);

/* Functions with gradients that a client writes. */
int MXCustomFunctionRecord(int num_inputs, NDArrayHandle* inputs, int num_outputs,
                           NDArrayHandle* outputs, struct MXCallbackList* callbacks);

/* Stores of parameters. */
int MXKVStoreCreate(const char* type, KVStoreHandle* out);
int MXKVStoreFree(KVStoreHandle handle);
int MXKVStoreGetType(KVStoreHandle handle, const char** type);
int MXKVStoreInit(KVStoreHandle handle, uint32_t num, const int* keys, NDArrayHandle* vals);
int MXKVStoreInitEx(KVStoreHandle handle, uint32_t num, const char** keys, NDArrayHandle* vals);
int MXKVStorePush(KVStoreHandle handle, uint32_t num, const int* keys, NDArrayHandle* vals,
                  int priority);
int MXKVStorePushEx(KVStoreHandle handle, uint32_t num, const char** keys, NDArrayHandle* vals,
                    int priority);
int MXKVStorePull(KVStoreHandle handle, uint32_t num, const int* keys, NDArrayHandle* vals,
                  int priority);
int MXKVStorePullEx(KVStoreHandle handle, uint32_t num, const char** keys, NDArrayHandle* vals,
                    int priority);
int MXKVStorePullWithSparse(KVStoreHandle handle, uint32_t num, const int* keys,
                            NDArrayHandle* vals, int priority, bool ignore_sparse);
int MXKVStorePullWithSparseEx(KVStoreHandle handle, uint32_t num, const char** keys,
                              NDArrayHandle* vals, int priority, bool ignore_sparse);
int MXKVStoreBroadcast(KVStoreHandle handle, uint32_t vnum, const int* vkeys, uint32_t onum,
                       const int* okeys, NDArrayHandle* vals, NDArrayHandle* outs, int priority);
int MXKVStoreBroadcastEx(KVStoreHandle handle, uint32_t vnum, const char** vkeys, uint32_t onum,
                         const char** okeys, NDArrayHandle* vals, NDArrayHandle* outs,
                         int priority);
int MXKVStorePushPull(KVStoreHandle handle, uint32_t vnum, const int* vkeys, uint32_t onum,
                      const int* okeys, NDArrayHandle* vals, NDArrayHandle* outs, int priority);
int MXKVStorePushPullEx(KVStoreHandle handle, uint32_t vnum, const char** vkeys, uint32_t onum,
                        const char** okeys, NDArrayHandle* vals, NDArrayHandle* outs, int priority);
int MXKVStoreSetUpdater(KVStoreHandle handle, UpdaterCallback updater, void* updater_handle);
int MXKVStoreSetUpdaterEx(KVStoreHandle handle, UpdaterCallback updater,
                          TextUpdaterCallback str_updater, void* updater_handle);
int MXKVStoreGetRank(KVStoreHandle handle, int* ret);
int MXKVStoreGetGroupSize(KVStoreHandle handle, int* ret);
int MXKVStoreIsWorkerNode(int* ret);
int MXKVStoreIsServerNode(int* ret);
int MXKVStoreIsSchedulerNode(int* ret);
int MXKVStoreRunServer(KVStoreHandle handle, MXKVStoreServerController controller,
                       void* controller_handle);
int MXKVStoreSendCommmandToServers(KVStoreHandle handle, int cmd_id, const char* cmd_body);
int MXKVStoreBarrier(KVStoreHandle handle);
int MXKVStoreSetBarrierBeforeExit(KVStoreHandle handle, int barrier_before_exit);
int MXTesseraKVStoreFail(KVStoreHandle handle, const char* cause);

/* Data iterators. */
int MXListDataIters(uint32_t* out_size, DataIterCreator** out_array);
int MXDataIterGetIterInfo(DataIterCreator creator, const char** name, const char** description,
                          uint32_t* num_args, const char*** arg_names, const char*** arg_type_infos,
                          const char*** arg_descriptions);
int MXDataIterCreateIter(DataIterCreator handle, uint32_t num_param, const char** keys,
                         const char** vals, DataIterHandle* out);
int MXDataIterFree(DataIterHandle handle);
int MXDataIterNext(DataIterHandle handle, int* out);
int MXDataIterBeforeFirst(DataIterHandle handle);
int MXDataIterGetData(DataIterHandle handle, NDArrayHandle* out);
int MXDataIterGetLabel(DataIterHandle handle, NDArrayHandle* out);
int MXDataIterGetPadNum(DataIterHandle handle, int* pad);
int MXDataIterGetIndex(DataIterHandle handle, uint64_t** out_index, uint64_t* out_size);

#ifdef __cplusplus
}
#endif

#endif /* MXNET_C_ARRAY_API_H_ */
