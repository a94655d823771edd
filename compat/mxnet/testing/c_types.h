#ifndef TESSERA_COMPAT_MXNET_TESTING_C_TYPES_H_
#define TESSERA_COMPAT_MXNET_TESTING_C_TYPES_H_

/* The types of MXNet's C API, for programs in C and C++. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
typedef void (*UpdaterCallback)(int key, NDArrayHandle received, NDArrayHandle stored, void* data);
typedef void (*TextUpdaterCallback)(const char* key, NDArrayHandle received, NDArrayHandle stored,
                                    void* data);

#endif /* TESSERA_COMPAT_MXNET_TESTING_C_TYPES_H_ */
