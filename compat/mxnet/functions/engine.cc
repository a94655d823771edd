// Functions of a client as operations of the engine. Functions of MXNet's C API; see types.h.
#include "tessera/engine/engine.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/compat/mxnet/core/api_call.h"
#include "tessera/compat/mxnet/core/arrays.h"
#include "tessera/compat/mxnet/core/callbacks.h"

namespace tessera::mxnet {

using ContextHandle = const void*;
using EngineFnPropertyHandle = const void*;
using EngineVarHandle = void*;

/// The functions of a client. `run_context` is an ApiRunContext*, `on_complete` an ApiOnComplete*,
/// and `data` the client's.
using EngineAsyncFunc = void (*)(void* run_context, void* on_complete, void* data);
using EngineSyncFunc = void (*)(void* run_context, void* data);
using EngineFuncParamDeleter = void (*)(void* data);

/// A device as MXNet lays it out.
struct ApiContext {
  int32_t type;
  int32_t id;
};

/// The place where an operation runs, as MXNet lays it out. There are no streams on the host.
struct ApiRunContext {
  ApiContext context;
  void* stream;
  void* event_pool;
  bool is_bulk;
};

/// The completion of an asynchronous operation, as MXNet lays it out. The client calls
/// `callback(engine, data, error)` with these members and a pointer that is null without an error.
struct ApiOnComplete {
  void (*callback)(void* engine, void* data, const void* error);
  void* engine;
  void* data;  ///< a handle of Completions()
};

namespace {

Handles<OnComplete>& Completions() {
  static auto* const completions = new Handles<OnComplete>("an engine completion", 15);
  return *completions;
}

void Complete(void* /*engine*/, void* data, const void* error) {
  try {
    const OnComplete done = *Completions().Get(data);
    Completions().Remove(data);
    if (error == nullptr) return done();
    done(std::make_exception_ptr(Internal("an operation of the client has failed")));
  } catch (const std::exception&) {
    // The client has called it before.
  }
}

/// The client's argument of an operation's function, which the client deletes at the end.
class Argument {
 public:
  Argument(void* data, EngineFuncParamDeleter deleter) : data_(data), deleter_(deleter) {}
  ~Argument() {
    if (deleter_ == nullptr) return;
    const CallbackScope scope;
    if (scope.allowed()) deleter_(data_);
  }
  Argument(const Argument&) = delete;
  Argument& operator=(const Argument&) = delete;

  void* data() const { return data_; }

 private:
  void* const data_;
  const EngineFuncParamDeleter deleter_;
};

/// An operation's variables, and the arrays whose variables they are.
struct OperationArrays {
  std::vector<NDArray> reads, writes;
};

std::vector<NDArray> ListArrays(NDArrayHandle* handles, int count, const char* argument) {
  if (count < 0) throw InvalidArgument("the number of ", argument, " is negative");
  std::vector<NDArray> arrays = ArraysOf(handles, static_cast<size_t>(count), argument);
  for (const NDArray& array : arrays) {
    if (array.is_none()) throw InvalidArgument("one of ", argument, " has no elements yet");
  }
  return arrays;
}

/// The arguments that all four functions share.
struct Operation {
  void* data;
  EngineFuncParamDeleter deleter;
  ContextHandle context;
  EngineFnPropertyHandle property;
  int priority;
  const char* name;
};

/// Pushes `function(ApiRunContext*, void* data, const OnComplete&)`.
template <typename Function>
void Push(const Operation& operation, const OperationArrays& arrays, bool is_async,
          const Function& function) {
  const auto context = *static_cast<const ApiContext*>(NotNull(operation.context, "ctx_handle"));
  if (DeviceOf(context.type, context.id).dev_mask() != cpu::kDevMask) {
    throw Unimplemented("operations of a client run on the host, not on ",
                        DeviceOf(context.type, context.id));
  }
  const int property =
      operation.property == nullptr ? 0 : *static_cast<const int*>(operation.property);
  const std::string name = operation.name == nullptr ? "client" : operation.name;
  std::vector<Variable*> reads, writes;
  for (const NDArray& array : arrays.reads) reads.push_back(array.var());
  for (const NDArray& array : arrays.writes) writes.push_back(array.var());
  const auto argument = std::make_shared<Argument>(operation.data, operation.deleter);
  const auto run = [function, argument, context](const OnComplete* done) {
    const CallbackScope scope;
    scope.RequireAllowed();
    ApiRunContext run_context{.context = context};
    function(&run_context, argument->data(), done);
  };
  // A client changes parts of arrays, so these are updates.
  const PushOptions options{.property = property == static_cast<int>(FnProperty::kCpuPrioritized)
                                            ? FnProperty::kCpuPrioritized
                                            : FnProperty::kAsync,
                            .priority = operation.priority,
                            .name = name,
                            .updates = writes,
                            .merge_duplicates = true};
  if (is_async) {
    Engine::Get()->PushAsync([run](RunContext, OnComplete done) { run(&done); }, Device::Cpu(),
                             reads, {}, options);
  } else {
    Engine::Get()->PushSync([run](RunContext) { run(nullptr); }, Device::Cpu(), reads, {}, options);
  }
}

void PushAsyncFunction(EngineAsyncFunc function, const Operation& operation,
                       const OperationArrays& arrays) {
  NotNull(function, "async_func");
  Push(operation, arrays, /*is_async=*/true,
       [function](ApiRunContext* context, void* data, const OnComplete* done) {
         ApiOnComplete on_complete{Complete, nullptr, Completions().Add(*done)};
         function(context, &on_complete, data);
       });
}

void PushSyncFunction(EngineSyncFunc function, const Operation& operation,
                      const OperationArrays& arrays) {
  NotNull(function, "sync_func");
  Push(operation, arrays, /*is_async=*/false,
       [function](ApiRunContext* context, void* data, const OnComplete*) {
         function(context, data);
       });
}

/// Throws Error(kUnimplemented) unless both counts are 0.
OperationArrays NoVariables(int num_reads, int num_writes) {
  if (num_reads == 0 && num_writes == 0) return {};
  throw Unimplemented(
      num_reads, " + ", num_writes, " engine variables were given, but no function ",
      "of this library makes any; use the form with arrays, as MXEnginePushAsyncND");
}

}  // namespace
}  // namespace tessera::mxnet

using namespace tessera::mxnet;  // NOLINT: the bodies of this file

TESSERA_MXNET_API int MXEnginePushAsync(EngineAsyncFunc async_func, void* func_param,
                                        EngineFuncParamDeleter deleter, ContextHandle ctx_handle,
                                        EngineVarHandle /*const_vars_handle*/, int num_const_vars,
                                        EngineVarHandle /*mutable_vars_handle*/,
                                        int num_mutable_vars, EngineFnPropertyHandle prop_handle,
                                        int priority, const char* opr_name, bool /*wait*/) {
  return ApiCall([&] {
    PushAsyncFunction(async_func,
                      {func_param, deleter, ctx_handle, prop_handle, priority, opr_name},
                      NoVariables(num_const_vars, num_mutable_vars));
  });
}

TESSERA_MXNET_API int MXEnginePushSync(EngineSyncFunc sync_func, void* func_param,
                                       EngineFuncParamDeleter deleter, ContextHandle ctx_handle,
                                       EngineVarHandle /*const_vars_handle*/, int num_const_vars,
                                       EngineVarHandle /*mutable_vars_handle*/,
                                       int num_mutable_vars, EngineFnPropertyHandle prop_handle,
                                       int priority, const char* opr_name) {
  return ApiCall([&] {
    PushSyncFunction(sync_func, {func_param, deleter, ctx_handle, prop_handle, priority, opr_name},
                     NoVariables(num_const_vars, num_mutable_vars));
  });
}

TESSERA_MXNET_API int MXEnginePushAsyncND(EngineAsyncFunc async_func, void* func_param,
                                          EngineFuncParamDeleter deleter, ContextHandle ctx_handle,
                                          NDArrayHandle* const_nds_handle, int num_const_nds,
                                          NDArrayHandle* mutable_nds_handle, int num_mutable_nds,
                                          EngineFnPropertyHandle prop_handle, int priority,
                                          const char* opr_name, bool /*wait*/) {
  return ApiCall([&] {
    PushAsyncFunction(async_func,
                      {func_param, deleter, ctx_handle, prop_handle, priority, opr_name},
                      {.reads = ListArrays(const_nds_handle, num_const_nds, "const_nds"),
                       .writes = ListArrays(mutable_nds_handle, num_mutable_nds, "mutable_nds")});
  });
}

TESSERA_MXNET_API int MXEnginePushSyncND(EngineSyncFunc sync_func, void* func_param,
                                         EngineFuncParamDeleter deleter, ContextHandle ctx_handle,
                                         NDArrayHandle* const_nds_handle, int num_const_nds,
                                         NDArrayHandle* mutable_nds_handle, int num_mutable_nds,
                                         EngineFnPropertyHandle prop_handle, int priority,
                                         const char* opr_name) {
  return ApiCall([&] {
    PushSyncFunction(sync_func, {func_param, deleter, ctx_handle, prop_handle, priority, opr_name},
                     {.reads = ListArrays(const_nds_handle, num_const_nds, "const_nds"),
                      .writes = ListArrays(mutable_nds_handle, num_mutable_nds, "mutable_nds")});
  });
}
