#ifndef MXNET_C_SYMBOL_API_H_
#define MXNET_C_SYMBOL_API_H_

/* The functions of MXNet's C API that the library has: symbols and what runs them. */

#include "mxnet/c_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Symbols. */
int MXSymbolCreateAtomicSymbol(AtomicSymbolCreator creator, uint32_t num_param, const char** keys,
                               const char** vals, SymbolHandle* out);
int MXSymbolCreateVariable(const char* name, SymbolHandle* out);
int MXSymbolCreateGroup(uint32_t num_symbols, SymbolHandle* symbols, SymbolHandle* out);
int MXSymbolCreateFromFile(const char* fname, SymbolHandle* out);
int MXSymbolCreateFromJSON(const char* json, SymbolHandle* out);
int MXSymbolSaveToFile(SymbolHandle symbol, const char* fname);
int MXSymbolSaveToJSON(SymbolHandle symbol, const char** out_json);
int MXSymbolFree(SymbolHandle symbol);
int MXSymbolCopy(SymbolHandle symbol, SymbolHandle* out);
int MXShallowCopySymbol(SymbolHandle src, SymbolHandle* out);
int MXSymbolPrint(SymbolHandle symbol, const char** out_str);
int MXSymbolGetName(SymbolHandle symbol, const char** out, int* success);
int MXSymbolGetAttr(SymbolHandle symbol, const char* key, const char** out, int* success);
int MXSymbolSetAttr(SymbolHandle symbol, const char* key, const char* value);
int MXSymbolListAttr(SymbolHandle symbol, uint32_t* out_size, const char*** out);
int MXSymbolListAttrShallow(SymbolHandle symbol, uint32_t* out_size, const char*** out);
int MXSymbolListArguments(SymbolHandle symbol, uint32_t* out_size, const char*** out_str_array);
int MXSymbolListOutputs(SymbolHandle symbol, uint32_t* out_size, const char*** out_str_array);
int MXSymbolListAuxiliaryStates(SymbolHandle symbol, uint32_t* out_size,
                                const char*** out_str_array);
int MXSymbolGetNumOutputs(SymbolHandle symbol, uint32_t* output_count);
int MXSymbolGetInternals(SymbolHandle symbol, SymbolHandle* out);
int MXSymbolGetChildren(SymbolHandle symbol, SymbolHandle* out);
int MXSymbolGetInputSymbols(SymbolHandle sym, SymbolHandle** inputs, int* input_size);
int MXSymbolCutSubgraph(SymbolHandle sym, SymbolHandle** input_symbols, int* input_size);
int MXSymbolGetOutput(SymbolHandle symbol, uint32_t index, SymbolHandle* out);
int MXSymbolCompose(SymbolHandle sym, const char* name, uint32_t num_args, const char** keys,
                    SymbolHandle* args);
int MXSymbolGrad(SymbolHandle sym, uint32_t num_wrt, const char** wrt, SymbolHandle* out);
int MXSymbolRemoveAmpCast(SymbolHandle sym_handle, SymbolHandle* ret_sym_handle);
int MXGenBackendSubgraph(SymbolHandle sym_handle, const char* backend,
                         SymbolHandle* ret_sym_handle);
int MXGenAtomicSymbolFromSymbol(SymbolHandle sym_handle, SymbolHandle* ret_sym_handle);

/* Inference of shapes and types. */
int MXSymbolInferShape(SymbolHandle sym, uint32_t num_args, const char** keys,
                       const uint32_t* arg_ind_ptr, const uint32_t* arg_shape_data,
                       uint32_t* in_shape_size, const uint32_t** in_shape_ndim,
                       const uint32_t*** in_shape_data, uint32_t* out_shape_size,
                       const uint32_t** out_shape_ndim, const uint32_t*** out_shape_data,
                       uint32_t* aux_shape_size, const uint32_t** aux_shape_ndim,
                       const uint32_t*** aux_shape_data, int* complete);
int MXSymbolInferShapePartial(SymbolHandle sym, uint32_t num_args, const char** keys,
                              const uint32_t* arg_ind_ptr, const uint32_t* arg_shape_data,
                              uint32_t* in_shape_size, const uint32_t** in_shape_ndim,
                              const uint32_t*** in_shape_data, uint32_t* out_shape_size,
                              const uint32_t** out_shape_ndim, const uint32_t*** out_shape_data,
                              uint32_t* aux_shape_size, const uint32_t** aux_shape_ndim,
                              const uint32_t*** aux_shape_data, int* complete);
int MXSymbolInferShapeEx(SymbolHandle sym, uint32_t num_args, const char** keys,
                         const uint32_t* arg_ind_ptr, const int* arg_shape_data,
                         uint32_t* in_shape_size, const int** in_shape_ndim,
                         const int*** in_shape_data, uint32_t* out_shape_size,
                         const int** out_shape_ndim, const int*** out_shape_data,
                         uint32_t* aux_shape_size, const int** aux_shape_ndim,
                         const int*** aux_shape_data, int* complete);
int MXSymbolInferShapePartialEx(SymbolHandle sym, uint32_t num_args, const char** keys,
                                const uint32_t* arg_ind_ptr, const int* arg_shape_data,
                                uint32_t* in_shape_size, const int** in_shape_ndim,
                                const int*** in_shape_data, uint32_t* out_shape_size,
                                const int** out_shape_ndim, const int*** out_shape_data,
                                uint32_t* aux_shape_size, const int** aux_shape_ndim,
                                const int*** aux_shape_data, int* complete);
int MXSymbolInferShapeEx64(SymbolHandle sym, uint32_t num_args, const char** keys,
                           const int64_t* arg_ind_ptr, const int64_t* arg_shape_data,
                           size_t* in_shape_size, const int** in_shape_ndim,
                           const int64_t*** in_shape_data, size_t* out_shape_size,
                           const int** out_shape_ndim, const int64_t*** out_shape_data,
                           size_t* aux_shape_size, const int** aux_shape_ndim,
                           const int64_t*** aux_shape_data, int* complete);
int MXSymbolInferShapePartialEx64(SymbolHandle sym, uint32_t num_args, const char** keys,
                                  const int64_t* arg_ind_ptr, const int64_t* arg_shape_data,
                                  size_t* in_shape_size, const int** in_shape_ndim,
                                  const int64_t*** in_shape_data, size_t* out_shape_size,
                                  const int** out_shape_ndim, const int64_t*** out_shape_data,
                                  size_t* aux_shape_size, const int** aux_shape_ndim,
                                  const int64_t*** aux_shape_data, int* complete);
int MXSymbolInferType(SymbolHandle sym, uint32_t num_args, const char** keys,
                      const int* arg_type_data, uint32_t* in_type_size, const int** in_type_data,
                      uint32_t* out_type_size, const int** out_type_data, uint32_t* aux_type_size,
                      const int** aux_type_data, int* complete);
int MXSymbolInferTypePartial(SymbolHandle sym, uint32_t num_args, const char** keys,
                             const int* arg_type_data, uint32_t* in_type_size,
                             const int** in_type_data, uint32_t* out_type_size,
                             const int** out_type_data, uint32_t* aux_type_size,
                             const int** aux_type_data, int* complete);

/* Executors. */
int MXExecutorFree(ExecutorHandle handle);
int MXExecutorPrint(ExecutorHandle handle, const char** out_str);
int MXExecutorForward(ExecutorHandle handle, int is_train);
int MXExecutorBackward(ExecutorHandle handle, uint32_t len, NDArrayHandle* head_grads);
int MXExecutorBackwardEx(ExecutorHandle handle, uint32_t len, NDArrayHandle* head_grads,
                         int is_train);
int MXExecutorOutputs(ExecutorHandle handle, uint32_t* out_size, NDArrayHandle** out);
int MXExecutorBind(SymbolHandle symbol_handle, int dev_type, int dev_id, uint32_t len,
                   NDArrayHandle* in_args, NDArrayHandle* arg_grad_store, uint32_t* grad_req_type,
                   uint32_t aux_states_len, NDArrayHandle* aux_states, ExecutorHandle* out);
int MXExecutorBindX(SymbolHandle symbol_handle, int dev_type, int dev_id, uint32_t num_map_keys,
                    const char** map_keys, const int* map_dev_types, const int* map_dev_ids,
                    uint32_t len, NDArrayHandle* in_args, NDArrayHandle* arg_grad_store,
                    uint32_t* grad_req_type, uint32_t aux_states_len, NDArrayHandle* aux_states,
                    ExecutorHandle* out);
int MXExecutorBindEX(SymbolHandle symbol_handle, int dev_type, int dev_id, uint32_t num_map_keys,
                     const char** map_keys, const int* map_dev_types, const int* map_dev_ids,
                     uint32_t len, NDArrayHandle* in_args, NDArrayHandle* arg_grad_store,
                     uint32_t* grad_req_type, uint32_t aux_states_len, NDArrayHandle* aux_states,
                     ExecutorHandle shared_exec, ExecutorHandle* out);
int MXExecutorReshape(int partial_shaping, int allow_up_sizing, int, int, uint32_t, const char**,
                      const int*, const int*, uint32_t num_provided_arg_shapes,
                      const char** provided_arg_shape_names,
                      const uint32_t* provided_arg_shape_data,
                      const uint32_t* provided_arg_shape_idx, uint32_t* num_in_args,
                      NDArrayHandle** in_args, NDArrayHandle** arg_grads, uint32_t* num_aux_states,
                      NDArrayHandle** aux_states, ExecutorHandle shared_exec, ExecutorHandle* out);
int MXExecutorReshapeEx(int partial_shaping, int allow_up_sizing, int, int, uint32_t, const char**,
                        const int*, const int*, uint32_t num_provided_arg_shapes,
                        const char** provided_arg_shape_names, const int* provided_arg_shape_data,
                        const uint32_t* provided_arg_shape_idx, uint32_t* num_in_args,
                        NDArrayHandle** in_args, NDArrayHandle** arg_grads,
                        uint32_t* num_aux_states, NDArrayHandle** aux_states,
                        ExecutorHandle shared_exec, ExecutorHandle* out);
int MXExecutorSetMonitorCallback(ExecutorHandle handle, MonitorCallback callback,
                                 void* callback_handle);
int MXExecutorSetMonitorCallbackEX(ExecutorHandle handle, MonitorCallback callback,
                                   void* callback_handle, bool monitor_all);
int MXExecutorGetOptimizedSymbol(ExecutorHandle handle, SymbolHandle* out);
int MXExecutorSimpleBindEx(
    SymbolHandle symbol_handle, int dev_type, int dev_id, uint32_t num_g2c_keys,
    const char** g2c_keys, const int* g2c_dev_types, const int* g2c_dev_ids,
    uint32_t provided_grad_req_list_len, const char** provided_grad_req_names,
    const char** provided_grad_req_types, uint32_t num_provided_arg_shapes,
    const char** provided_arg_shape_names, const int* provided_arg_shape_data,
    const uint32_t* provided_arg_shape_idx, uint32_t num_provided_arg_dtypes,
    const char** provided_arg_dtype_names, const int* provided_arg_dtypes,
    uint32_t num_provided_arg_stypes, const char** provided_arg_stype_names,
    const int* provided_arg_stypes, uint32_t num_shared_arg_names,
    const char** shared_arg_name_list, int* shared_buffer_len, const char** shared_buffer_name_list,
    NDArrayHandle* shared_buffer_handle_list, const char*** updated_shared_buffer_name_list,
    NDArrayHandle** updated_shared_buffer_handle_list, uint32_t* num_in_args,
    NDArrayHandle** in_args, NDArrayHandle** arg_grads, uint32_t* num_aux_states,
    NDArrayHandle** aux_states, ExecutorHandle shared_exec_handle, ExecutorHandle* out);

/* Compiled functions of arrays. */
int MXCreateCachedOp(SymbolHandle handle, CachedOpHandle* out);
int MXCreateCachedOpEx(SymbolHandle handle, int num_flags, const char** keys, const char** vals,
                       CachedOpHandle* out);
int MXCreateCachedOpEX(SymbolHandle handle, int num_flags, const char** keys, const char** vals,
                       CachedOpHandle* out, bool thread_safe MXNET_DEFAULT(false));
int MXFreeCachedOp(CachedOpHandle handle);
int MXInvokeCachedOp(CachedOpHandle handle, int num_inputs, NDArrayHandle* inputs, int* num_outputs,
                     NDArrayHandle** outputs);
int MXInvokeCachedOpEx(CachedOpHandle handle, int num_inputs, NDArrayHandle* inputs,
                       int* num_outputs, NDArrayHandle** outputs, const int** out_stypes);

#ifdef __cplusplus
}
#endif

#endif /* MXNET_C_SYMBOL_API_H_ */
