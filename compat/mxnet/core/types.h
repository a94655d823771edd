#ifndef TESSERA_COMPAT_MXNET_CORE_TYPES_H_
#define TESSERA_COMPAT_MXNET_CORE_TYPES_H_

#include <cstdint>

// The types of MXNet's C API. Every handle is a number that HandleTable gives out, except that of a
// DLManagedTensor.
//
// Threads: every function may be called from any thread, and what a function returns by pointer
// belongs to the calling thread until it calls that function again. A handle may be freed while
// other calls use it: they keep its object until they return. Calls that begin later fail, as with
// any other value that is no handle.
//
// Calls may overlap on one symbol. A call uses the symbol from before or after a composition, and
// old attributes or new ones. If two calls compose one handle, or set attributes of an operator
// that has no inputs yet, at the same time, the one that ends last fails and changes nothing.
//
// Calls that run an executor or a predictor follow each other: one that begins while another runs
// it, or runs an executor that shares its memory, fails and changes nothing. That includes calls of
// their monitors. Calls that return its arrays may overlap with all others. As in MXNet, elements
// that one call copies while another one writes them are undefined. Calls on one RecordIO file
// follow each other too.

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
