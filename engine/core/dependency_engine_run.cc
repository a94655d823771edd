// How DependencyEngine runs operations and completes them.

#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "tessera/engine/core/dependency_engine.h"
#include "tessera/engine/core/out_of_memory.h"
#include "tessera/engine/schedule/replay.h"
#include "tessera/engine/workers/blocking_scope.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {

void DependencyEngine::Run(Execution* execution, ReadyList& ready) {
  if (execution->kind == ExecutionKind::kJoin) {
    JoinReplay(execution, ready);
    return;
  }
  // Neither the queue nor a variable knows of it from here on.
  if (execution->edge_count == 0) begun_.Enter(*execution);
  if (uses_devices_.load(std::memory_order_relaxed)) {
    RunAmongDevices(execution, ready);
  } else if (execution->kind == ExecutionKind::kReplay) {
    BeginReplay(execution, ready);
  } else {
    RunOnHost(execution, FailureOfInputs(*execution, nullptr), ready);
  }
}

void DependencyEngine::RunOnHost(Execution* execution, const FailureRef& input_failure,
                                 ReadyList& ready) {
  execution->below = ThreadFrame::Current(id_);
  FailureRef failure;  // outlives the frame, whose record is another's when it ends
  // Around a skipped one as well: what it has captured is destroyed here, and may wait.
  const ThreadFrame frame(id_, execution);
  if (input_failure != nullptr) {
    progress_.CountSkipped();
    if (trace_.on()) TraceRun(*execution, trace_.Now(), /*skipped=*/true);
    Complete(execution, input_failure, ready);
    return;
  }
  execution->running.store(true, std::memory_order_relaxed);
  const AnyFn& fn = execution->op != nullptr ? execution->op->fn : execution->fn;
  const RunContext context{execution->device, nullptr, this};
  if (const auto* async = std::get_if<AsyncFn>(&fn)) {
    std::shared_ptr<Completion> completion;
    try {
      completion = NewCompletion(execution);
    } catch (const std::bad_alloc&) {
      Complete(execution, NewFailure(*execution, std::current_exception()), ready);
      return;
    }
    RunAsync(execution, std::move(completion), *async, context);
    return;
  }
  std::optional<BlockingScope> blocking;
  if (execution->property == FnProperty::kAsync) blocking.emplace(this);
  const int64_t begin_ns = trace_.on() ? trace_.Now() : kNotTraced;
  try {
    scheduler_->Call(std::get<SyncFn>(fn), context);
  } catch (...) {
    failure = NewFailure(*execution, std::current_exception());
  }
  blocking.reset();
  if (begin_ns != kNotTraced) TraceRun(*execution, begin_ns, /*skipped=*/false);
  Complete(execution, failure, ready);
}

std::shared_ptr<Completion> DependencyEngine::NewCompletion(Execution* execution) {
  CompletionListener* const listener = this;
  return std::make_shared<Completion>(listener, execution);
}

void DependencyEngine::RunAsync(Execution* execution, std::shared_ptr<Completion> completion,
                                const AsyncFn& fn, const RunContext& context) {
  // One reference is the completion's, one is ours: the function may not be destroyed while it
  // runs, however early it is complete.
  execution->references.store(2, std::memory_order_relaxed);
  std::optional<BlockingScope> blocking;
  if (execution->property == FnProperty::kAsync) blocking.emplace(this);
  const int64_t begin_ns = trace_.on() ? trace_.Now() : kNotTraced;
  try {
    scheduler_->Call(fn, context, OnComplete(completion));
  } catch (...) {
    // If it was complete before it threw, the error marks no variable; WaitForAll reports it.
    if (!completion->TryComplete(std::current_exception())) {
      NewFailure(*execution, std::current_exception());
    }
  }
  blocking.reset();
  completion.reset();
  if (begin_ns != kNotTraced) TraceRun(*execution, begin_ns, /*skipped=*/false);
  // The last of the two counts: after WaitForAll no function is still on its way to return.
  if (!DropReference(*execution)) return;
  GiveExecution(execution);
  progress_.CountComplete();
}

/// The error that the execution takes on from what it reads, `device_failure` among it; or null.
FailureRef DependencyEngine::FailureOfInputs(Execution& execution,
                                             const FailureRef& device_failure) {
  if (RunsInAnyCase(execution.property)) return nullptr;
  const FailureRef* earliest = nullptr;
  Consider(device_failure, earliest);
  for (const Edge& edge : execution.edges()) {
    // No lock: as long as this edge is granted nobody else changes the variable's mark.
    if (edge.input()) Consider(edge.variable()->failure, earliest);
  }
  return earliest == nullptr ? nullptr : failures_.Inherit(*earliest, execution.sequence);
}

FailureRef DependencyEngine::NewFailure(const Execution& execution,
                                        std::exception_ptr error) noexcept {
  return failures_.Begin(std::move(error), execution.display_name(), execution.site,
                         execution.sequence);
}

void DependencyEngine::OnExecutionComplete(Execution* execution, std::exception_ptr error) {
  completing_.fetch_add(1, std::memory_order_relaxed);
  {
    const CompletionScope scope;
    ReadyList ready;
    if (execution->kind == ExecutionKind::kStep) {
      CompleteStep(static_cast<AsyncStep*>(execution), std::move(error), ready);
    } else {
      CompleteAsync(execution, std::move(error), ready);
    }
    if (!ready.empty()) scheduler_->Dispatch(ready);
  }
  // Release: pairs with the acquire in Shutdown, which may destroy the engine after this.
  completing_.fetch_sub(1, std::memory_order_release);
}

void DependencyEngine::CompleteAsync(Execution* execution, std::exception_ptr error,
                                     ReadyList& ready) {
  FailureRef failure;
  if (error != nullptr) failure = NewFailure(*execution, std::move(error));
  if (trace_.on() && !execution->on_device()) {
    trace_.Add(TracedEnd{.sequence = execution->sequence, .end_ns = trace_.Now()},
               execution->display_name());
  }
  if (execution->on_device()) {
    // What it reads may have become done or failed since its function was called.
    IssuedBefore before = OrTerminate([&] { return FencesBefore(*execution); });
    if (failure == nullptr) failure = FailureOfInputs(*execution, before.failure);
    Issue(execution, std::move(before.inputs), failure, /*skipped=*/false, ready);
  } else {
    Complete(execution, failure, ready);
  }
}

void DependencyEngine::Complete(Execution* execution, const FailureRef& failure, ReadyList& ready) {
  // What the function has captured goes before anyone hears that it is complete: so after a wait
  // the captures of everything synchronous are gone.
  if (std::holds_alternative<SyncFn>(execution->fn)) execution->fn.emplace<std::monostate>();
  Leftovers leftovers;
  ReleaseVariables(*execution, failure, ready, leftovers, nullptr);
  const bool returned = DropReference(*execution);
  std::unique_ptr<OperatorRecord> op = returned ? TakeLastUse(*execution) : nullptr;
  // Here, and with the caller's reference to the failure, go objects of the program. Their
  // destructors may wait for what is ready; and push, in this thread, which is in the frame of the
  // operation: until they are through the record is no other's, and the operation pends.
  const bool destroys = op != nullptr || !leftovers.empty() || failure.use_count() == 1 ||
                        (returned && !std::holds_alternative<std::monostate>(execution->fn));
  const bool counts_first = destroys && returned && scheduler_->is_naive() && !ready.empty();
  // What runs here may wait for somebody who waits for room by the bound.
  if (counts_first) progress_.CountComplete();
  if (destroys) DispatchAll(ready);
  leftovers.Clear();
  op.reset();
  if (returned) EndExecution(execution);
  if (!ready.empty()) FinishInline(ready);
  if (!returned) return;
  RecycleExecution(execution);
  if (!counts_first) progress_.CountComplete();
}

/// All that is ready, waits and deletions too.
void DependencyEngine::DispatchAll(ReadyList& ready) {
  if (!ready.empty()) FinishInline(ready);
  if (!ready.empty()) scheduler_->Dispatch(ready);
}

/// Release for an operation that may be complete while its function still runs.
void DependencyEngine::ReleaseVariables(Execution& execution, const FailureRef& failure,
                                        ReadyList& ready, Leftovers& leftovers,
                                        const FenceRef& fence) {
  // Relaxed: a function that has just returned costs no more than this lock.
  if (execution.references.load(std::memory_order_relaxed) == 1) {
    Release(execution, failure, ready, leftovers, fence);
    return;
  }
  // The function may be about to wait, and NeedsItsOwner be looking at those behind it.
  std::lock_guard<std::mutex> hold(wait_graph_mutex_);
  Release(execution, failure, ready, leftovers, fence);
  if (execution.begun) return;
  // Its function may go on without variables. NeedsItsOwner looks at its edges under the mutex.
  execution.SetEdgeCount(0);
  begun_.Enter(execution);
}

void DependencyEngine::FinishInline(ReadyList& ready) {
  ReadyList operations, deletions;
  while (!ready.empty()) {
    Execution* execution = ready.PopFront();
    if (execution->kind == ExecutionKind::kWait) {
      FinishWait(static_cast<WaitExecution*>(execution), ready);
    } else if (execution->kind == ExecutionKind::kDelete) {
      deletions.PushBack(execution);
    } else {
      operations.PushBack(execution);
    }
  }
  while (!deletions.empty()) FinishDelete(deletions.PopFront(), operations);
  ready = operations;
}

/// The variable's error, a program's object, goes with it: `operations`, which are ready, are
/// dispatched before that.
void DependencyEngine::FinishDelete(Execution* execution, ReadyList& operations) {
  DependencyVariable* variable = execution->inline_edges[0].variable();
  ReadyList none;  // nobody comes after a deletion
  Leftovers leftovers;
  Release(*execution, nullptr, none, leftovers);
  GiveExecution(execution);
  variables_.Give(variable);
  if (!leftovers.empty() && !operations.empty()) scheduler_->Dispatch(operations);
}

/// Returns whether it was the last reference.
bool DependencyEngine::DropReference(Execution& execution) {
  // Acquire and release: the last one sees the other's work before it reuses the record. Where one
  // is left it is ours.
  return execution.references.load(std::memory_order_acquire) == 1 ||
         execution.references.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

void DependencyEngine::TraceRun(const Execution& execution, int64_t begin_ns, bool skipped) {
  TraceRun(execution.sequence, execution.display_name(), begin_ns, skipped);
}

void DependencyEngine::TraceRun(uint64_t sequence, std::string_view name, int64_t begin_ns,
                                bool skipped) {
  trace_.Add(
      TracedRun{
          .sequence = sequence, .begin_ns = begin_ns, .end_ns = trace_.Now(), .skipped = skipped},
      name, scheduler_->WorkerIndex());
}

}  // namespace tessera::engine_internal
