#ifndef MXNET_C_TYPES_H_
#define MXNET_C_TYPES_H_

/* The types of MXNet's C API, for programs in C and C++. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Numbers, and the mark of exported functions. */
typedef uint32_t mx_uint;
typedef float mx_float;
typedef uint32_t nn_uint;
#ifndef MXNET_DLL
#define MXNET_DLL
#endif
#ifndef NNVM_DLL
#define NNVM_DLL
#endif

/* The value of an argument that a program in C++ leaves out. */
#ifdef __cplusplus
#define MXNET_DEFAULT(value) = value
#else
#define MXNET_DEFAULT(value)
#endif

/* Objects of the library. */
typedef void* OpHandle;
typedef void* NDArrayHandle;
typedef const void* FunctionHandle;
typedef void* AtomicSymbolCreator;
typedef void* CachedOpHandle;
typedef void* SymbolHandle;
typedef void* ExecutorHandle;
typedef void* DataIterCreator;
typedef void* DataIterHandle;
typedef void* KVStoreHandle;
typedef void* DLManagedTensorHandle;
typedef void* PredictorHandle;
typedef void* NDListHandle;

/* A feature of the library's build. */
struct LibFeature {
  const char* name;
  bool enabled;
};

/* Functions that a client hands over, with an argument for each. */
struct MXCallbackList {
  int num_callbacks;
  int (**callbacks)(void);
  void** contexts;
};

/* Functions that receive arrays, whose handles they free. */
typedef void (*MonitorCallback)(const char* name, NDArrayHandle array, void* data);
typedef MonitorCallback ExecutorMonitorCallback;
typedef void (*UpdaterCallback)(int key, NDArrayHandle received, NDArrayHandle stored, void* data);
typedef void (*TextUpdaterCallback)(const char* key, NDArrayHandle received, NDArrayHandle stored,
                                    void* data);
typedef void(MXKVStoreUpdater)(int key, NDArrayHandle recv, NDArrayHandle local, void* handle);
typedef void(MXKVStoreStrUpdater)(const char* key, NDArrayHandle recv, NDArrayHandle local,
                                  void* handle);
typedef void(MXKVStoreServerController)(int head, const char* body, void* controller_handle);

#endif /* MXNET_C_TYPES_H_ */
