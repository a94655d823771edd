#ifndef TESSERA_COMPAT_MXNET_CORE_TYPES_H_
#define TESSERA_COMPAT_MXNET_CORE_TYPES_H_

#include <cstdint>

// The types of MXNet's C API. Every handle is a number that HandleTable gives out, except that of a
// DLManagedTensor.

/// Marks a function of the shared library, which exports nothing else.
#define TESSERA_MXNET_API extern "C" __attribute__((visibility("default")))

using NDArrayHandle = void*;
using FunctionHandle = const void*;
using AtomicSymbolCreator = void*;
using CachedOpHandle = void*;
using SymbolHandle = void*;
using ExecutorHandle = void*;
using DataIterCreator = void*;
using DataIterHandle = void*;
using KVStoreHandle = void*;
using RecordIOHandle = void*;
using ProfileHandle = void*;
using DLManagedTensorHandle = void*;
using PredictorHandle = void*;
using NDListHandle = void*;

#endif  // TESSERA_COMPAT_MXNET_CORE_TYPES_H_
