// Compiled functions of arrays. Functions of MXNet's C API; see types.h.
#include "tessera/symbol/cached_op.h"

#include <limits>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/core/callbacks.h"
#include "tessera/compat/mxnet/core/monitor_names.h"
#include "tessera/compat/mxnet/core/symbols.h"
#include "tessera/compat/mxnet/functions/executors.h"
#include "tessera/graph/graph.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ops/parameter.h"

namespace tessera::mxnet {

/// A function that sees values of a CachedOp. It frees the array's handle. The last argument is
/// null.
using CachedOpMonitorCallback = void (*)(const char* name, const char* op_name, NDArrayHandle array,
                                         void*);

namespace {

Handles<CachedOp>& CachedOps() {
  static auto* const ops = new Handles<CachedOp>("a CachedOp", 5);
  return *ops;
}

/// The flags of MXNet's CachedOp that say something here; others choose how its own executor works.
struct Flags {
  bool static_alloc = false;
  int inline_limit = 2;

  static void Declare(ParameterSchema<Flags>& schema) {
    schema.Optional("static_alloc", &Flags::static_alloc, "whether calls keep their memory");
    schema.Optional("inline_limit", &Flags::inline_limit,
                    "the number of operators up to which a graph is called one by one");
    schema.Range(0, std::numeric_limits<int>::max());
  }
};

Flags FlagsFrom(int count, const char** keys, const char** vals) {
  if (count < 0) throw InvalidArgument("the number of flags is ", count);
  ParameterMap given = ParametersOf(static_cast<size_t>(count), keys, vals);
  std::erase_if(given, [](const auto& flag) {
    return flag.first != "static_alloc" && flag.first != "inline_limit";
  });
  return ParameterSchema<Flags>::Get().Parse("CachedOp", given);
}

/// Returns whether the graph has at most `limit` operators, each of which can be called alone.
bool IsSmall(const Symbol& symbol, int limit) {
  const graph::IndexedGraph graph(symbol.outputs());
  int count = 0;
  for (const graph::Node* const node : graph.nodes()) {
    if (node->is_variable()) continue;
    // A node that runs another one's Backward has no name to be called by.
    if (node->forward != nullptr || ++count > limit) return false;
  }
  return true;
}

/// Creates a function. As in MXNet, a tape records the operators of a small one in place of a call,
/// so that autograd's graph shows them, and their gradients have gradients.
void Create(SymbolHandle handle, int num_flags, const char** keys, const char** vals,
            CachedOpHandle* out) {
  NotNull(out, "out");
  const Flags flags = FlagsFrom(num_flags, keys, vals);
  const std::shared_ptr<const Symbol> symbol = SymbolOf(handle);
  const bool is_inlined = !flags.static_alloc && IsSmall(*symbol, flags.inline_limit);
  *out = CachedOps().Add(CachedOp(*symbol, {.static_alloc = flags.static_alloc,
                                            .node_by_node = is_inlined,
                                            .recomputes = MirrorsBackward()}));
}

void InvokeOp(CachedOpHandle handle, int num_inputs, NDArrayHandle* inputs, int* num_outputs,
              NDArrayHandle** outputs, const int** storage_types) {
  NotNull(num_outputs, "num_outputs");
  NotNull(outputs, "outputs");
  if (num_inputs < 0) throw InvalidArgument("the number of inputs is ", num_inputs);
  const std::vector<NDArray> results =
      (*CachedOps().Get(handle))(ArraysOf(inputs, static_cast<size_t>(num_inputs), "inputs"));
  if (*outputs != nullptr && *num_outputs > 0) {
    if (static_cast<size_t>(*num_outputs) != results.size()) {
      throw InvalidArgument(*num_outputs, " outputs were given, expected ", results.size());
    }
    for (size_t i = 0; i < results.size(); ++i) {
      const std::shared_ptr<NDArray> target = Arrays().Get((*outputs)[i]);
      if (target->is_none()) {
        Arrays().Replace((*outputs)[i], target, results[i]);
      } else {
        CopyFromTo(results[i], *target);
      }
    }
  } else {
    *num_outputs = static_cast<int>(results.size());
    *outputs = KeepHandles(results);
  }
  if (storage_types != nullptr) {
    std::vector<int> types;
    for (const NDArray& result : results) {
      types.push_back(static_cast<int>(StorageTypeOf(result)));
    }
    *storage_types = Results::OfThread().Keep(std::move(types));
  }
}

void RegisterHook(CachedOpHandle handle, CachedOpMonitorCallback callback, bool monitor_all) {
  CachedOp::Monitor monitor;
  if (callback != nullptr) {
    monitor = [callback](const std::string& name, const std::string& op, const NDArray& value) {
      const CallbackScope scope;
      if (!scope.allowed()) return;
      callback(name.c_str(), op.c_str(), Arrays().Add(value), nullptr);
    };
  }
  CachedOps().Get(handle)->SetMonitor(std::move(monitor), monitor_all, HookNames());
}

}  // namespace
}  // namespace tessera::mxnet

using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API int MXCreateCachedOp(SymbolHandle handle, CachedOpHandle* out) {
  return ApiCall([&] { Create(handle, 0, nullptr, nullptr, out); });
}

TESSERA_MXNET_API int MXCreateCachedOpEx(SymbolHandle handle, int num_flags, const char** keys,
                                         const char** vals, CachedOpHandle* out) {
  return ApiCall([&] { Create(handle, num_flags, keys, vals, out); });
}

TESSERA_MXNET_API int MXCreateCachedOpEX(SymbolHandle handle, int num_flags, const char** keys,
                                         const char** vals, CachedOpHandle* out,
                                         bool /*thread_safe*/) {
  return ApiCall([&] { Create(handle, num_flags, keys, vals, out); });
}

TESSERA_MXNET_API int MXFreeCachedOp(CachedOpHandle handle) {
  return ApiCall([&] { CachedOps().Remove(handle); });
}

TESSERA_MXNET_API int MXInvokeCachedOp(CachedOpHandle handle, int num_inputs, NDArrayHandle* inputs,
                                       int* num_outputs, NDArrayHandle** outputs) {
  return ApiCall([&] { InvokeOp(handle, num_inputs, inputs, num_outputs, outputs, nullptr); });
}

TESSERA_MXNET_API int MXInvokeCachedOpEx(CachedOpHandle handle, int num_inputs,
                                         NDArrayHandle* inputs, int* num_outputs,
                                         NDArrayHandle** outputs, const int** out_stypes) {
  return ApiCall([&] { InvokeOp(handle, num_inputs, inputs, num_outputs, outputs, out_stypes); });
}

TESSERA_MXNET_API int MXCachedOpRegisterOpHook(CachedOpHandle handle,
                                               CachedOpMonitorCallback callback, bool monitor_all) {
  return ApiCall([&] { RegisterHook(handle, callback, monitor_all); });
}
