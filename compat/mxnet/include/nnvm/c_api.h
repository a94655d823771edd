#ifndef NNVM_C_API_H_
#define NNVM_C_API_H_

/* The functions of NNVM's C API that the library has: operators and symbols. */

#include "mxnet/c_types.h"

#ifdef __cplusplus
extern "C" {
#endif

const char* NNGetLastError(void);
void NNAPISetLastError(const char* msg);
int NNListUniqueOps(uint32_t* out_size, const char*** out_array);
int NNSymbolCreateVariable(const char* name, SymbolHandle* out);
int NNSymbolCreateGroup(uint32_t num_symbols, SymbolHandle* symbols, SymbolHandle* out);
int NNSymbolCreateAtomicSymbol(void* op, uint32_t num_param, const char** keys, const char** vals,
                               SymbolHandle* out);
int NNSymbolCompose(SymbolHandle sym, const char* name, uint32_t num_args, const char** keys,
                    SymbolHandle* args);
int NNSymbolCopy(SymbolHandle symbol, SymbolHandle* out);
int NNSymbolPrint(SymbolHandle symbol, const char** out_str);
int NNSymbolGetAttr(SymbolHandle symbol, const char* key, const char** out, int* success);
int NNSymbolSetAttrs(SymbolHandle symbol, uint32_t num_param, const char** keys,
                     const char** values);
int NNSymbolListAttrs(SymbolHandle symbol, int recursive_option, uint32_t* out_size,
                      const char*** out);
int NNSymbolListOutputNames(SymbolHandle symbol, uint32_t* out_size, const char*** out_str_array);
int NNSymbolGetNumOutputs(SymbolHandle symbol, uint32_t* output_count);
int NNSymbolGetInternals(SymbolHandle symbol, SymbolHandle* out);
int NNSymbolGetChildren(SymbolHandle symbol, SymbolHandle* out);
int NNSymbolGetOutput(SymbolHandle symbol, uint32_t index, SymbolHandle* out);
int NNListAllOpNames(uint32_t* out_size, const char*** out_array);
int NNGetOpHandle(const char* op_name, void** op_out);
int NNGetOpInfo(void* op, const char** real_name, const char** description, uint32_t* num_doc_args,
                const char*** arg_names, const char*** arg_type_infos,
                const char*** arg_descriptions, const char** return_type);
int NNSymbolFree(SymbolHandle symbol);
int NNSymbolListInputNames(SymbolHandle symbol, int option, uint32_t* out_size,
                           const char*** out_str_array);

#ifdef __cplusplus
}
#endif

#endif /* NNVM_C_API_H_ */
