// How DependencyEngine issues operations to devices, and what comes after these.

#include <exception>
#include <memory>
#include <utility>

#include "tessera/engine/core/dependency_engine.h"
#include "tessera/engine/core/out_of_memory.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {

/// Like Run, for an execution whose variables may carry fences.
void DependencyEngine::RunAmongDevices(Execution* execution, ReadyList& ready) {
  IssuedBefore before = OrTerminate([&] { return FencesBefore(*execution); });
  if (execution->kind == ExecutionKind::kGraph) {
    RunGraph(execution, std::move(before), ready);
  } else if (execution->on_device()) {
    RunOnDevice(execution, std::move(before), ready);
  } else if (!before.pending.empty() && PutAside(execution, before.pending)) {
    // A fence has it now.
  } else if (execution->kind == ExecutionKind::kReplay) {
    BeginReplay(execution, ready);
  } else {
    // A second look: what was pending at the first may have failed since.
    const FailureRef device_failure =
        before.pending.empty() ? before.failure
                               : OrTerminate([&] { return FencesBefore(*execution).failure; });
    RunOnHost(execution, FailureOfInputs(*execution, device_failure), ready);
  }
}

/// Leaves the execution with the fences, the last of which dispatches it once more; the caller must
/// not touch it any more. Returns false if all of them are done by now.
bool DependencyEngine::PutAside(Execution* execution, const std::vector<FenceRef>& fences) {
  // Its turn has come, so nobody else uses the count. One is ours, so that it cannot go meanwhile.
  execution->blocked_edges.store(static_cast<int32_t>(fences.size()) + 1,
                                 std::memory_order_relaxed);
  int32_t done = 1;
  for (const FenceRef& fence : fences) {
    done += OrTerminate([&] { return fence->AddBlocked(execution); }) ? 0 : 1;
  }
  // Acquire and release: as where edges are granted, see dependency.cc.
  return execution->blocked_edges.fetch_sub(done, std::memory_order_acq_rel) != done;
}

void DependencyEngine::RunOnDevice(Execution* execution, IssuedBefore before, ReadyList& ready) {
  FailureRef failure = FailureOfInputs(*execution, before.failure);
  const bool skip = failure != nullptr;
  if (skip) progress_.CountSkipped();
  WatchedStream& watched = streams_->For(execution->device, execution->property);
  DeviceStream& stream = watched.stream();
  execution->below = ThreadFrame::Current(id_);
  const ThreadFrame frame(id_, execution);
  try {
    const CurrentDeviceOf current(stream);
    // Skipped ones as well: whoever comes next comes after their fence alone.
    for (const FenceRef& fence : before.pending) {
      if (fence->stream != &watched) stream.WaitFor(*fence->event);
    }
    if (skip) {
      if (trace_.on()) TraceRun(*execution, trace_.Now(), /*skipped=*/true);
    } else {
      execution->running.store(true, std::memory_order_relaxed);
      const AnyFn& fn = execution->op != nullptr ? execution->op->fn : execution->fn;
      const RunContext context{execution->device, stream.handle(), this};
      if (const auto* async = std::get_if<AsyncFn>(&fn)) {
        RunAsync(execution, NewCompletion(execution), *async, context);
        return;
      }
      const int64_t begin_ns = trace_.on() ? trace_.Now() : kNotTraced;
      scheduler_->Call(std::get<SyncFn>(fn), context);
      if (begin_ns != kNotTraced) TraceRun(*execution, begin_ns, /*skipped=*/false);
    }
  } catch (...) {
    if (failure == nullptr) failure = NewFailure(*execution, std::current_exception());
  }
  // A copy: the last one outlives the frame, as in RunOnHost.
  Issue(execution, std::move(before.inputs), failure, skip, ready);
}

/// The fence of what is enqueued, with the memory that its variables need for it. Throws what the
/// device throws.
FenceRef DependencyEngine::NewFence(WatchedStream& stream, Execution& execution) {
  if (!scheduler_->is_naive()) {
    OrTerminate([&] { ReserveForFence(execution, stream.number()); });
  }
  return OrTerminate([&] { return stream.NewFence(execution); });
}

/// The operation has enqueued its work, or was skipped. Also where it failed: it may have enqueued
/// some.
void DependencyEngine::Issue(Execution* execution, std::vector<FenceRef> inputs, FailureRef failure,
                             bool skipped, ReadyList& ready) {
  WatchedStream& stream = streams_->For(execution->device, execution->property);
  FenceRef fence;
  try {
    fence = NewFence(stream, *execution);
    fence->skipped = skipped;
    if (!RunsInAnyCase(execution->property)) fence->inputs = std::move(inputs);
    if (trace_.on()) fence->issued_ns = trace_.Now();
    if (scheduler_->is_naive()) std::exchange(fence, nullptr)->event->Synchronize();
  } catch (const std::exception&) {
    fence = nullptr;
    if (failure == nullptr) failure = NewFailure(*execution, std::current_exception());
  }
  if (fence == nullptr) {
    Complete(execution, failure, ready);
    return;
  }
  // Until its fence is reached it is at work, as an operation in a thread is.
  scheduler_->Activate();
  Leftovers leftovers;
  ReleaseVariables(*execution, failure, ready, leftovers, fence);
  FinishInline(ready);
  stream.Watch(std::move(fence), execution);
  if (!leftovers.empty()) DispatchAll(ready);
}

/// Waits until the device has come to the fence, and returns what then marks the variables: the
/// earliest error of what the operation reads, or else what the device reports here; or null.
FailureRef DependencyEngine::ResolveFence(const FenceRef& last) {
  // The device has come past the fences of the inputs too, and theirs, though those who watch them
  // may not have heard. There may be as many as operations pend, more than calls fit on a stack.
  std::vector<FenceRef> path = OrTerminate([&] { return std::vector<FenceRef>{last}; });
  for (;;) {
    const FenceRef fence = path.back();
    const bool resolved = OrTerminate([&] {
      std::lock_guard<std::mutex> hold(fence->resolve_mutex);
      if (!fence->resolved && !AppendUnresolved(fence->inputs, path)) ResolveAfterInputs(*fence);
      return fence->resolved;
    });
    if (!resolved) continue;
    path.pop_back();
    if (path.empty()) return fence->resolution;  // which does not change any more
  }
}

/// Appends those of the fences that are not resolved. Returns whether there are any.
bool DependencyEngine::AppendUnresolved(const std::vector<FenceRef>& fences,
                                        std::vector<FenceRef>& path) {
  const size_t before = path.size();
  path.reserve(before + fences.size());
  for (const FenceRef& fence : fences) {
    std::lock_guard<std::mutex> hold(fence->resolve_mutex);
    if (!fence->resolved) path.push_back(fence);
  }
  return path.size() != before;
}

/// Requires the fence's resolve_mutex, and that all of its inputs are resolved.
void DependencyEngine::ResolveAfterInputs(Fence& fence) {
  std::exception_ptr error;
  try {
    fence.event->Synchronize();
  } catch (const std::exception&) {
    error = std::current_exception();
  }
  const FailureRef* earliest = nullptr;
  for (const FenceRef& input : fence.inputs) {
    std::lock_guard<std::mutex> hold(input->resolve_mutex);
    Consider(input->resolution, earliest);
  }
  if (earliest != nullptr) {
    fence.resolution = failures_.Inherit(*earliest, fence.sequence);
  } else if (error != nullptr && !fence.skipped) {
    fence.resolution =
        failures_.Begin(std::move(error), fence.operation, fence.site, fence.sequence);
  }
  fence.inputs.clear();  // or each fence would keep all before it
  fence.resolved = true;
}

void DependencyEngine::AwaitWatchedFence(const FenceRef& fence, Execution* execution) {
  const CompletionScope scope;
  FailureRef failure = ResolveFence(fence);
  if (trace_.on() && fence->issued_ns != kNotTraced) {
    trace_.Add(TracedEnd{.sequence = fence->sequence,
                         .issued_ns = fence->issued_ns,
                         .end_ns = trace_.Now(),
                         .stream = fence->stream->number()},
               fence->operation);
  }
  // As in Complete: captures go before anyone hears of the end.
  if (std::holds_alternative<SyncFn>(execution->fn)) execution->fn.emplace<std::monostate>();
  ReadyList ready;
  for (Execution* blocked : fence->Finish(std::move(failure))) {
    if (blocked->blocked_edges.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      ready.PushBack(blocked);
    }
  }
  if (!ready.empty()) scheduler_->Dispatch(ready);  // what goes below may wait for it, see Complete
  if (execution->kind == ExecutionKind::kGraph) {
    EndGraph(execution);
  } else if (DropReference(*execution)) {
    GiveExecution(execution);
    progress_.CountComplete();
  }
  NotifyInside();
  scheduler_->Deactivate();
}

}  // namespace tessera::engine_internal
