// The functions of NNVM that MXNet's library exports beside its own. Most have an equal there.
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/types.h"

using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API const char* MXGetLastError();
TESSERA_MXNET_API int MXSymbolCreateVariable(const char*, SymbolHandle*);
TESSERA_MXNET_API int MXSymbolCreateGroup(uint32_t, SymbolHandle*, SymbolHandle*);
TESSERA_MXNET_API int MXSymbolCreateAtomicSymbol(AtomicSymbolCreator, uint32_t, const char**,
                                                 const char**, SymbolHandle*);
TESSERA_MXNET_API int MXSymbolCompose(SymbolHandle, const char*, uint32_t, const char**,
                                      SymbolHandle*);
TESSERA_MXNET_API int MXSymbolCopy(SymbolHandle, SymbolHandle*);
TESSERA_MXNET_API int MXSymbolPrint(SymbolHandle, const char**);
TESSERA_MXNET_API int MXSymbolGetAttr(SymbolHandle, const char*, const char**, int*);
TESSERA_MXNET_API int MXSymbolSetAttrs(SymbolHandle, uint32_t, const char**, const char**);
TESSERA_MXNET_API int MXSymbolListAttr(SymbolHandle, uint32_t*, const char***);
TESSERA_MXNET_API int MXSymbolListAttrShallow(SymbolHandle, uint32_t*, const char***);
TESSERA_MXNET_API int MXSymbolListOutputs(SymbolHandle, uint32_t*, const char***);
TESSERA_MXNET_API int MXSymbolGetNumOutputs(SymbolHandle, uint32_t*);
TESSERA_MXNET_API int MXSymbolGetInternals(SymbolHandle, SymbolHandle*);
TESSERA_MXNET_API int MXSymbolGetChildren(SymbolHandle, SymbolHandle*);
TESSERA_MXNET_API int MXSymbolGetOutput(SymbolHandle, uint32_t, SymbolHandle*);

TESSERA_MXNET_API const char* NNGetLastError() { return MXGetLastError(); }

TESSERA_MXNET_API void NNAPISetLastError(const char* msg) {
  Results::OfThread().set_error(msg == nullptr ? "" : msg);
}

TESSERA_MXNET_API int NNSymbolCreateVariable(const char* name, SymbolHandle* out) {
  return MXSymbolCreateVariable(name, out);
}

TESSERA_MXNET_API int NNSymbolCreateGroup(uint32_t num_symbols, SymbolHandle* symbols,
                                          SymbolHandle* out) {
  return MXSymbolCreateGroup(num_symbols, symbols, out);
}

TESSERA_MXNET_API int NNSymbolCreateAtomicSymbol(void* op, uint32_t num_param, const char** keys,
                                                 const char** vals, SymbolHandle* out) {
  return MXSymbolCreateAtomicSymbol(op, num_param, keys, vals, out);
}

TESSERA_MXNET_API int NNSymbolCompose(SymbolHandle sym, const char* name, uint32_t num_args,
                                      const char** keys, SymbolHandle* args) {
  return MXSymbolCompose(sym, name, num_args, keys, args);
}

TESSERA_MXNET_API int NNSymbolCopy(SymbolHandle symbol, SymbolHandle* out) {
  return MXSymbolCopy(symbol, out);
}

TESSERA_MXNET_API int NNSymbolPrint(SymbolHandle symbol, const char** out_str) {
  return MXSymbolPrint(symbol, out_str);
}

TESSERA_MXNET_API int NNSymbolGetAttr(SymbolHandle symbol, const char* key, const char** out,
                                      int* success) {
  return MXSymbolGetAttr(symbol, key, out, success);
}

TESSERA_MXNET_API int NNSymbolSetAttrs(SymbolHandle symbol, uint32_t num_param, const char** keys,
                                       const char** values) {
  return MXSymbolSetAttrs(symbol, num_param, keys, values);
}

TESSERA_MXNET_API int NNSymbolListAttrs(SymbolHandle symbol, int recursive_option,
                                        uint32_t* out_size, const char*** out) {
  // 0 lists the attributes of all nodes.
  return recursive_option == 0 ? MXSymbolListAttr(symbol, out_size, out)
                               : MXSymbolListAttrShallow(symbol, out_size, out);
}

TESSERA_MXNET_API int NNSymbolListOutputNames(SymbolHandle symbol, uint32_t* out_size,
                                              const char*** out_str_array) {
  return MXSymbolListOutputs(symbol, out_size, out_str_array);
}

TESSERA_MXNET_API int NNSymbolGetNumOutputs(SymbolHandle symbol, uint32_t* output_count) {
  return MXSymbolGetNumOutputs(symbol, output_count);
}

TESSERA_MXNET_API int NNSymbolGetInternals(SymbolHandle symbol, SymbolHandle* out) {
  return MXSymbolGetInternals(symbol, out);
}

TESSERA_MXNET_API int NNSymbolGetChildren(SymbolHandle symbol, SymbolHandle* out) {
  return MXSymbolGetChildren(symbol, out);
}

TESSERA_MXNET_API int NNSymbolGetOutput(SymbolHandle symbol, uint32_t index, SymbolHandle* out) {
  return MXSymbolGetOutput(symbol, index, out);
}
