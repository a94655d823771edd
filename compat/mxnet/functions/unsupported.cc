// The functions of MXNet's C API that Tessera does not have: each is an error that names it.
#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/types.h"

using namespace tessera::mxnet;  // NOLINT: the bodies of this file

// A C function that ignores its arguments, whatever they are.
#define TESSERA_UNSUPPORTED(name)                                                      \
  TESSERA_MXNET_API int name(...) {                                                    \
    return ApiCall([] { throw tessera::Unimplemented(#name " is not implemented"); }); \
  }

TESSERA_UNSUPPORTED(MXFuncDescribe)
TESSERA_UNSUPPORTED(MXFuncGetInfo)
TESSERA_UNSUPPORTED(MXFuncInvoke)
TESSERA_UNSUPPORTED(MXFuncInvokeEx)
TESSERA_UNSUPPORTED(MXGetGPUMemoryInformation)
TESSERA_UNSUPPORTED(MXGetGPUMemoryInformation64)
TESSERA_UNSUPPORTED(MXLoadLib)
TESSERA_UNSUPPORTED(MXLoadTVMConfig)
TESSERA_UNSUPPORTED(MXLoadTVMOp)
TESSERA_UNSUPPORTED(MXNetFuncCall)
TESSERA_UNSUPPORTED(MXNetFuncFree)
TESSERA_UNSUPPORTED(MXNetObjectFree)
TESSERA_UNSUPPORTED(MXQuantizeSymbol)
TESSERA_UNSUPPORTED(MXRtcCreate)
TESSERA_UNSUPPORTED(MXRtcCudaKernelCall)
TESSERA_UNSUPPORTED(MXRtcCudaKernelCreate)
TESSERA_UNSUPPORTED(MXRtcCudaModuleCreate)
TESSERA_UNSUPPORTED(MXRtcPush)
TESSERA_UNSUPPORTED(MXSetCalibTableToQuantizedSymbol)
TESSERA_UNSUPPORTED(NNAddControlDeps)
TESSERA_UNSUPPORTED(NNGraphApplyPasses)
TESSERA_UNSUPPORTED(NNGraphCreate)
TESSERA_UNSUPPORTED(NNGraphFree)
TESSERA_UNSUPPORTED(NNGraphGetJSONAttr)
TESSERA_UNSUPPORTED(NNGraphGetSymbol)
TESSERA_UNSUPPORTED(NNGraphSetJSONAttr)
TESSERA_UNSUPPORTED(NNGraphSetNodeEntryListAttr_)

#undef TESSERA_UNSUPPORTED

// Python's objects free the null handle of what could not be created.
#define TESSERA_FREE_OF_UNSUPPORTED(name)                                               \
  TESSERA_MXNET_API int name(void* handle) {                                            \
    return ApiCall([&] {                                                                \
      if (handle != nullptr) throw tessera::Unimplemented(#name " is not implemented"); \
    });                                                                                 \
  }

TESSERA_FREE_OF_UNSUPPORTED(MXRtcCudaKernelFree)
TESSERA_FREE_OF_UNSUPPORTED(MXRtcCudaModuleFree)
TESSERA_FREE_OF_UNSUPPORTED(MXRtcFree)

#undef TESSERA_FREE_OF_UNSUPPORTED
