#include "tessera/engine/core/operations.h"

#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "tessera/engine/core/out_of_memory.h"
#include "tessera/engine/workers/blocking_scope.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {
namespace {

// A record that has held more edges than this gives their memory back.
constexpr uint32_t kMaxKeptEdges = 32;

}  // namespace

Execution* Operations::TakeExecution(Device device, FnProperty property, int priority,
                                     std::source_location site) {
  Execution* execution = state_.executions.Take();
  execution->kind = ExecutionKind::kOperation;
  execution->property = property;
  execution->device = device;
  execution->site = site;
  execution->rank = RankOf(property, priority);
  execution->demanded.store(false, std::memory_order_relaxed);
  execution->running.store(false, std::memory_order_relaxed);
  execution->references.store(1, std::memory_order_relaxed);
  return execution;
}

void Operations::GiveExecution(Execution* execution) {
  EndExecution(execution);
  RecycleExecution(execution);
}

/// Gives up what the execution has of the program's.
void Operations::EndExecution(Execution* execution) {
  TakeLastUse(*execution);
  execution->fn.emplace<std::monostate>();
}

/// Takes the execution's operator from it, which nobody sees any more. Returns that if this was its
/// last use.
std::unique_ptr<OperatorRecord> Operations::TakeLastUse(Execution& execution) {
  if (execution.begun) state_.begun.Leave(execution);
  OperatorRecord* const op = execution.has_op() ? execution.op : nullptr;
  execution.op = nullptr;
  return op == nullptr ? nullptr : DropOperator(op);
}

/// After that, lets the next push have the record.
void Operations::RecycleExecution(Execution* execution) {
  execution->name.clear();  // keeps its memory for the next name
  execution->below = nullptr;
  // Records take turns, so that a few wide operations would leave each of them with a large buffer.
  if (execution->more_capacity > kMaxKeptEdges) execution->DropBuffer();
  state_.executions.Give(execution);
}

TracedPush Operations::Traced(Execution& execution) const {
  TracedPush push;
  push.time_ns = state_.trace.Now();
  push.name = execution.display_name();
  push.site = execution.site;
  for (const Edge& edge : execution.edges()) {
    push.variables.emplace_back(edge.variable()->id, edge.access());
  }
  return push;
}

void Operations::Submit(Execution* execution) {
  bool ready_now;
  try {
    if (state_.trace.on()) {
      TracedPush push = Traced(*execution);
      ready_now = Acquire(*execution, state_.progress.pushed(), &push.sequence);
      state_.trace.Add(std::move(push));
    } else {
      ready_now = Acquire(*execution, state_.progress.pushed());
    }
  } catch (...) {
    GiveExecution(execution);
    throw;
  }
  // Relaxed: the pusher has just advanced the counter itself, and needs no exact figure.
  AfterAcquire(execution, ready_now, state_.progress.pushes(std::memory_order_relaxed));
}

void Operations::AfterAcquire(Execution* execution, bool ready_now, uint64_t pushed) {
  if (ready_now) {
    ReadyList ready;
    ready.PushBack(execution);
    state_.scheduler->Dispatch(ready);
  }
  state_.progress.AwaitRoom(pushed);
}

bool Operations::Delete(DependencyVariable* variable, uint64_t id) noexcept {
  Execution* execution;
  try {
    execution = TakeExecution(Device::Cpu(), FnProperty::kDeleteVariable, 0, {});
  } catch (const std::bad_alloc&) {
    std::lock_guard<FutexLock> hold(variable->lock);
    if (!variable->alive || variable->id != id) return false;
    variable->alive = false;
    return true;
  }
  execution->kind = ExecutionKind::kDelete;
  execution->SetEdgeCount(1);
  execution->edges()[0] = Edge(variable, Access::kWrite);
  // Not counted as an operation: sequence numbers would otherwise tell of it.
  execution->sequence = state_.progress.pushes(std::memory_order_relaxed) + 1;
  bool ready_now;
  if (!AcquireDeletion(*execution, id, &ready_now)) {
    GiveExecution(execution);
    return false;
  }
  if (!ready_now) return true;
  ReadyList ready;
  ready.PushBack(execution);
  FinishInline(ready);
  if (!ready.empty()) state_.scheduler->Dispatch(ready);
  return true;
}

void Operations::RunOnHost(Execution* execution, const FailureRef& input_failure,
                           ReadyList& ready) {
  execution->below = ThreadFrame::Current(state_.id);
  FailureRef failure;  // outlives the frame, whose record is another's when it ends
  // Around a skipped one as well: what it has captured is destroyed here, and may wait.
  const ThreadFrame frame(state_.id, execution);
  if (input_failure != nullptr) {
    state_.progress.CountSkipped();
    if (state_.trace.on()) TraceRun(*execution, state_.trace.Now(), /*skipped=*/true);
    Complete(execution, input_failure, ready);
    return;
  }
  execution->running.store(true, std::memory_order_relaxed);
  const AnyFn& fn = execution->op != nullptr ? execution->op->fn : execution->fn;
  const RunContext context{execution->device, nullptr, state_.engine};
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
  if (execution->property == FnProperty::kAsync) blocking.emplace(*state_.scheduler, state_.id);
  const int64_t begin_ns = state_.trace.on() ? state_.trace.Now() : kNotTraced;
  try {
    state_.scheduler->Call(std::get<SyncFn>(fn), context);
  } catch (...) {
    failure = NewFailure(*execution, std::current_exception());
  }
  blocking.reset();
  if (begin_ns != kNotTraced) TraceRun(*execution, begin_ns, /*skipped=*/false);
  Complete(execution, failure, ready);
}

std::shared_ptr<Completion> Operations::NewCompletion(Execution* execution) {
  return std::make_shared<Completion>(listener_, execution);
}

void Operations::RunAsync(Execution* execution, std::shared_ptr<Completion> completion,
                          const AsyncFn& fn, const RunContext& context) {
  // One reference is the completion's, one is ours: the function may not be destroyed while it
  // runs, however early it is complete.
  execution->references.store(2, std::memory_order_relaxed);
  std::optional<BlockingScope> blocking;
  if (execution->property == FnProperty::kAsync) blocking.emplace(*state_.scheduler, state_.id);
  const int64_t begin_ns = state_.trace.on() ? state_.trace.Now() : kNotTraced;
  try {
    state_.scheduler->Call(fn, context, OnComplete(completion));
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
  state_.progress.CountComplete();
}

FailureRef Operations::FailureOfInputs(Execution& execution, const FailureRef& device_failure) {
  if (RunsInAnyCase(execution.property)) return nullptr;
  const FailureRef* earliest = nullptr;
  Consider(device_failure, earliest);
  for (const Edge& edge : execution.edges()) {
    // No lock: as long as this edge is granted nobody else changes the variable's mark.
    if (edge.input()) Consider(edge.variable()->failure, earliest);
  }
  return earliest == nullptr ? nullptr : state_.failures.Inherit(*earliest, execution.sequence);
}

FailureRef Operations::NewFailure(const Execution& execution, std::exception_ptr error) noexcept {
  return state_.failures.Begin(std::move(error), execution.display_name(), execution.site,
                               execution.sequence);
}

void Operations::CompleteAsync(Execution* execution, std::exception_ptr error, ReadyList& ready) {
  FailureRef failure;
  if (error != nullptr) failure = NewFailure(*execution, std::move(error));
  if (state_.trace.on()) {
    state_.trace.Add(TracedEnd{.sequence = execution->sequence, .end_ns = state_.trace.Now()},
                     execution->display_name());
  }
  Complete(execution, failure, ready);
}

void Operations::Complete(Execution* execution, const FailureRef& failure, ReadyList& ready) {
  // The function's captures go before anyone hears that it is complete: so after a wait the
  // captures of everything synchronous are gone.
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
  const bool counts_first = destroys && returned && state_.scheduler->is_naive() && !ready.empty();
  // An operation that runs here may wait for a thread that waits for room.
  if (counts_first) state_.progress.CountComplete();
  if (destroys) DispatchAll(ready);
  leftovers.Clear();
  op.reset();
  if (returned) EndExecution(execution);
  if (!ready.empty()) FinishInline(ready);
  if (!returned) return;
  RecycleExecution(execution);
  if (!counts_first) state_.progress.CountComplete();
}

void Operations::DispatchAll(ReadyList& ready) {
  if (!ready.empty()) FinishInline(ready);
  if (!ready.empty()) state_.scheduler->Dispatch(ready);
}

void Operations::FinishInline(ReadyList& ready) {
  ReadyList operations, deletions;
  while (!ready.empty()) {
    Execution* execution = ready.PopFront();
    if (execution->kind == ExecutionKind::kWait) {
      waits_.Finish(static_cast<WaitExecution*>(execution), ready);
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
void Operations::FinishDelete(Execution* execution, ReadyList& operations) {
  DependencyVariable* variable = execution->inline_edges[0].variable();
  ReadyList none;  // nobody comes after a deletion
  Leftovers leftovers;
  Release(*execution, nullptr, none, leftovers);
  GiveExecution(execution);
  state_.variables.Give(variable);
  if (!leftovers.empty() && !operations.empty()) state_.scheduler->Dispatch(operations);
}

bool Operations::DropReference(Execution& execution) {
  // Acquire and release: the last one sees the other's work before it reuses the record. If one is
  // left it is ours.
  return execution.references.load(std::memory_order_acquire) == 1 ||
         execution.references.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

void Operations::TraceRun(const Execution& execution, int64_t begin_ns, bool skipped) {
  TraceRun(execution.sequence, execution.display_name(), begin_ns, skipped);
}

void Operations::TraceRun(uint64_t sequence, std::string_view name, int64_t begin_ns,
                          bool skipped) {
  state_.trace.Add(TracedRun{.sequence = sequence,
                             .begin_ns = begin_ns,
                             .end_ns = state_.trace.Now(),
                             .skipped = skipped},
                   name, state_.scheduler->WorkerIndex());
}

}  // namespace tessera::engine_internal
