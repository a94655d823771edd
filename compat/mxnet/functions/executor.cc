// Executors that run. Functions of MXNet's C API; see types.h.
#include <memory>
#include <string>

#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/core/callbacks.h"
#include "tessera/compat/mxnet/core/symbols.h"
#include "tessera/compat/mxnet/functions/executors.h"

namespace tessera::mxnet {

/// A function that receives results of an executor's nodes. It frees the array's handle.
using MonitorFunction = void (*)(const char* name, NDArrayHandle array, void* data);

namespace {

void SetMonitor(ExecutorHandle handle, MonitorFunction callback, void* data, bool monitor_all) {
  const std::shared_ptr<ApiExecutor> executor = Executors().Get(handle);
  if (callback == nullptr) {
    executor->SetMonitor(nullptr, monitor_all);
    return;
  }
  executor->SetMonitor(
      [callback, data](const std::string& name, const NDArray& array) {
        const CallbackScope scope;
        if (scope.allowed()) callback(name.c_str(), Arrays().Add(array), data);
      },
      monitor_all);
}

void Backward(ExecutorHandle handle, uint32_t count, NDArrayHandle* head_grads) {
  Executors().Get(handle)->Backward(
      ArraysOf(head_grads, count, "head_grads", /*null_is_none=*/true));
}

std::string Print(const Executor& executor) {
  const double megabytes = static_cast<double>(executor.memory_plan().planned_bytes) / (1 << 20);
  // Clients look for the total in the third line from the end.
  return executor.DebugString() + "Total " + std::to_string(static_cast<int64_t>(megabytes)) +
         " MB allocated\nTotal 0 TempSpace resource requested\n";
}

}  // namespace
}  // namespace tessera::mxnet

using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API int MXExecutorFree(ExecutorHandle handle) {
  return ApiCall([&] { Executors().Remove(handle); });
}

TESSERA_MXNET_API int MXExecutorPrint(ExecutorHandle handle, const char** out_str) {
  return ApiCall([&] {
    *NotNull(out_str, "out_str") =
        Results::OfThread().Keep(Print(*Executors().Get(handle)->executor()));
  });
}

TESSERA_MXNET_API int MXExecutorForward(ExecutorHandle handle, int is_train) {
  return ApiCall([&] { Executors().Get(handle)->Forward(is_train != 0); });
}

TESSERA_MXNET_API int MXExecutorBackward(ExecutorHandle handle, uint32_t len,
                                         NDArrayHandle* head_grads) {
  return ApiCall([&] { Backward(handle, len, head_grads); });
}

TESSERA_MXNET_API int MXExecutorBackwardEx(ExecutorHandle handle, uint32_t len,
                                           NDArrayHandle* head_grads, int /*is_train*/) {
  return ApiCall([&] { Backward(handle, len, head_grads); });
}

TESSERA_MXNET_API int MXExecutorOutputs(ExecutorHandle handle, uint32_t* out_size,
                                        NDArrayHandle** out) {
  return ApiCall([&] {
    const std::shared_ptr<ApiExecutor> executor = Executors().Get(handle);
    const auto& outputs = executor->executor()->outputs();
    *NotNull(out_size, "out_size") = static_cast<uint32_t>(outputs.size());
    NotNull(out, "out");
    *out = KeepHandles(outputs);
  });
}

TESSERA_MXNET_API int MXExecutorSetMonitorCallback(ExecutorHandle handle, MonitorFunction callback,
                                                   void* callback_handle) {
  return ApiCall([&] { SetMonitor(handle, callback, callback_handle, false); });
}

TESSERA_MXNET_API int MXExecutorSetMonitorCallbackEX(ExecutorHandle handle,
                                                     MonitorFunction callback,
                                                     void* callback_handle, bool monitor_all) {
  return ApiCall([&] { SetMonitor(handle, callback, callback_handle, monitor_all); });
}

TESSERA_MXNET_API int MXExecutorGetOptimizedSymbol(ExecutorHandle handle, SymbolHandle* out) {
  return ApiCall(
      [&] { *NotNull(out, "out") = AddSymbol(Executors().Get(handle)->OptimizedSymbol()); });
}
