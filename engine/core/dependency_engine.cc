#include "tessera/engine/core/dependency_engine.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "tessera/base/error.h"
#include "tessera/engine/core/naive_scheduler.h"
#include "tessera/engine/core/out_of_memory.h"
#include "tessera/engine/observe/describe.h"
#include "tessera/engine/schedule/recording.h"
#include "tessera/engine/workers/thread_frame.h"
#include "tessera/engine/workers/worker_pool.h"

namespace tessera::engine_internal {
namespace {

std::string_view NameOr(std::string_view name) { return name.empty() ? "(unnamed)" : name; }

bool IsCallable(const AnyFn& fn) {
  const auto* sync = std::get_if<SyncFn>(&fn);
  return sync != nullptr ? static_cast<bool>(*sync) : static_cast<bool>(std::get<AsyncFn>(fn));
}

void CheckCallable(const AnyFn& fn, std::string_view operation) {
  if (IsCallable(fn)) return;
  throw InvalidArgument("Engine: operation \"", operation,
                        "\": the function is empty; expected one that can be called");
}

OperatorRecord* CheckedOperator(EngineOperator* op, uint64_t engine_id, const char* call) {
  if (op == nullptr) throw InvalidArgument("Engine::", call, ": operator is null");
  auto* record = static_cast<OperatorRecord*>(op);
  if (record->engine_id != engine_id) {
    throw InvalidArgument("Engine::", call, ": operator \"", record->name,
                          "\" belongs to another engine");
  }
  return record;
}

}  // namespace

DependencyEngine::DependencyEngine(EngineKind kind, const ResolvedOptions& options)
    : state_(this, options, [this] { return DebugString(); }),
      waits_(state_),
      operations_(state_, waits_, this),
      devices_(state_, operations_, this),
      replays_(state_, operations_),
      graphs_(state_, operations_, devices_, replays_) {
  OperationRunner* const runner = this;
  if (kind == EngineKind::kNaive) {
    state_.scheduler = std::make_unique<NaiveScheduler>(
        runner, state_.fork_watch, state_.stall, state_.id, [this] { waits_.NotifyInside(); });
  } else {
    state_.scheduler = std::make_unique<WorkerPool>(runner, state_.fork_watch, state_.stall,
                                                    state_.id, options.workers);
  }
}

void DependencyEngine::Run(Execution* execution, ReadyList& ready) {
  if (execution->kind == ExecutionKind::kJoin) {
    replays_.JoinReplay(execution, ready);
    return;
  }
  // Neither the queue nor a variable knows of it from here on.
  if (execution->edge_count == 0) state_.begun.Enter(*execution);
  if (state_.uses_devices.load(std::memory_order_relaxed)) {
    RunAmongDevices(execution, ready);
  } else if (execution->kind == ExecutionKind::kReplay) {
    replays_.BeginReplay(execution, ready);
  } else {
    operations_.RunOnHost(execution, operations_.FailureOfInputs(*execution, nullptr), ready);
  }
}

/// Runs an execution whose variables may carry fences.
void DependencyEngine::RunAmongDevices(Execution* execution, ReadyList& ready) {
  IssuedBefore before = OrTerminate([&] { return FencesBefore(*execution); });
  if (execution->kind == ExecutionKind::kGraph) {
    graphs_.Run(execution, std::move(before), ready);
  } else if (execution->on_device()) {
    devices_.RunOnDevice(execution, std::move(before), ready);
  } else if (!before.pending.empty() && devices_.Defer(execution, before.pending)) {
    // A fence has it now.
  } else if (execution->kind == ExecutionKind::kReplay) {
    replays_.BeginReplay(execution, ready);
  } else {
    // A second look: what was pending at the first may have failed since.
    const FailureRef device_failure =
        before.pending.empty() ? before.failure
                               : OrTerminate([&] { return FencesBefore(*execution).failure; });
    operations_.RunOnHost(execution, operations_.FailureOfInputs(*execution, device_failure),
                          ready);
  }
}

void DependencyEngine::OnExecutionComplete(Execution* execution, std::exception_ptr error) {
  completing_.fetch_add(1, std::memory_order_relaxed);
  {
    const CompletionScope scope;
    ReadyList ready;
    if (execution->kind == ExecutionKind::kStep) {
      replays_.CompleteStep(static_cast<AsyncStep*>(execution), std::move(error), ready);
    } else if (execution->on_device()) {
      devices_.CompleteAsync(execution, std::move(error), ready);
    } else {
      operations_.CompleteAsync(execution, std::move(error), ready);
    }
    if (!ready.empty()) state_.scheduler->Dispatch(ready);
  }
  // Release: pairs with the acquire in Shutdown, which may destroy the engine after this.
  completing_.fetch_sub(1, std::memory_order_release);
}

Variable* DependencyEngine::NewVariable(std::string_view name) {
  CheckNotForked("NewVariable");
  DependencyVariable* variable = state_.variables.Take();
  Recording* const recording = Recording::Of(state_.id);
  absl::Cleanup give_back = [&] {
    if (recording != nullptr) recording->made.erase(variable);
    state_.variables.Give(variable);
  };
  if (recording != nullptr) recording->made.insert(variable);
  std::lock_guard<FutexLock> hold(variable->lock);  // DebugString may be looking at it
  variable->Revive(state_.id, next_variable_id_.fetch_add(1, std::memory_order_relaxed), name);
  std::move(give_back).Cancel();
  return variable;
}

void DependencyEngine::DeleteVariable(Variable* variable) {
  if (forked()) return;  // destructors call this, and nothing of the engine can be given back
  DependencyVariable* checked = Checked(variable, state_.id, "DeleteVariable");
  if (Recording* const recording = Recording::Of(state_.id)) {
    recording->NoteDeletion(checked);
    return;
  }
  if (operations_.Delete(checked, checked->id)) return;
  throw InvalidArgument("Engine: \"DeleteVariable\": ", checked->ToString(),
                        " was deleted already");
}

void DependencyEngine::PushSync(SyncFn fn, Device device, VariableList reads, VariableList writes,
                                const PushOptions& options, std::source_location site) {
  PushFunction(std::move(fn), device, reads, writes, options, site);
}

void DependencyEngine::PushAsync(AsyncFn fn, Device device, VariableList reads, VariableList writes,
                                 const PushOptions& options, std::source_location site) {
  PushFunction(std::move(fn), device, reads, writes, options, site);
}

EngineOperator* DependencyEngine::NewOperator(SyncFn fn, VariableList reads, VariableList writes,
                                              const PushOptions& options, std::source_location) {
  return MakeOperator(std::move(fn), reads, writes, options);
}

EngineOperator* DependencyEngine::NewOperator(AsyncFn fn, VariableList reads, VariableList writes,
                                              const PushOptions& options, std::source_location) {
  return MakeOperator(std::move(fn), reads, writes, options);
}

void DependencyEngine::Push(EngineOperator* op, Device device, int priority,
                            std::source_location site) {
  OperatorRecord* record = CheckedOperator(op, state_.id, "Push");
  const std::string_view name = NameOr(record->name);
  CheckAccepting(name);
  devices_.Check(device, record->property, name);
  if (record->deleted.load(std::memory_order_relaxed)) {
    throw InvalidArgument("Engine::Push: operator \"", name, "\" was deleted");
  }
  if (Recording* const recording = Recording::Of(state_.id)) {
    record->references.fetch_add(1, std::memory_order_relaxed);
    recording->Note(record, device, priority, site);
    return;
  }
  Execution* execution = operations_.TakeExecution(device, record->property, priority, site);
  absl::Cleanup give_back = [&] { operations_.GiveExecution(execution); };
  execution->SetEdgeCount(record->edges.size());
  std::move(give_back).Cancel();
  std::copy(record->edges.begin(), record->edges.end(), execution->edges().begin());
  execution->op = record;
  record->references.fetch_add(1, std::memory_order_relaxed);  // the caller's one keeps it alive
  operations_.Submit(execution);
}

void DependencyEngine::DeleteOperator(EngineOperator* op) {
  if (forked()) return;
  OperatorRecord* record = CheckedOperator(op, state_.id, "DeleteOperator");
  if (record->deleted.exchange(true, std::memory_order_relaxed)) {
    throw InvalidArgument("Engine::DeleteOperator: operator \"", NameOr(record->name),
                          "\" was deleted already");
  }
  DropOperator(record);
}

void DependencyEngine::CheckNotForked(std::string_view call) const {
  if (!forked()) return;
  throw FailedPrecondition("Engine: \"", call,
                           "\": the engine was made before a fork, and its threads are in the "
                           "parent process; expected one made in this process, as Engine::Get() "
                           "returns");
}

void DependencyEngine::CheckAccepting(std::string_view operation) const {
  CheckNotForked(operation);
  // Relaxed: of a push that overlaps with Shutdown the counter of pushes decides, when it takes its
  // place. A push inside an operation comes before that one's end, and so before Shutdown's.
  if (!accepting_.load(std::memory_order_relaxed) && ThreadFrame::Current(state_.id) == nullptr) {
    throw PushedAfterShutdown(operation);
  }
}

OperatorRecord* DependencyEngine::MakeOperator(AnyFn fn, VariableList reads, VariableList writes,
                                               const PushOptions& options) {
  const std::string_view name = NameOr(options.name);
  CheckAccepting(name);
  CheckCallable(fn, name);
  auto op = std::make_unique<OperatorRecord>();
  op->edges.resize(reads.size() + writes.size() + options.updates.size());
  op->edges.resize(FillEdges(op->edges, reads, writes, options, state_.id, name));
  for (const Edge& edge : op->edges) {
    CheckAlive(*edge.variable(), name);
    op->variable_ids.push_back(edge.variable()->id);
  }
  op->fn = std::move(fn);
  op->property = options.property;
  op->capturable = options.capturable;
  op->name = options.name;
  op->engine_id = state_.id;
  return op.release();
}

void DependencyEngine::PushFunction(AnyFn fn, Device device, VariableList reads,
                                    VariableList writes, const PushOptions& options,
                                    std::source_location site) {
  const std::string_view name = NameOr(options.name);
  CheckAccepting(name);
  CheckCallable(fn, name);
  devices_.Check(device, options.property, name);
  if (Recording* const recording = Recording::Of(state_.id)) {
    recording->Note(MakeOperator(std::move(fn), reads, writes, options), device, options.priority,
                    site);
    return;
  }
  Execution* execution =
      operations_.TakeExecution(device, options.property, options.priority, site);
  absl::Cleanup give_back = [&] { operations_.GiveExecution(execution); };
  execution->SetEdgeCount(reads.size() + writes.size() + options.updates.size());
  execution->KeepEdges(FillEdges(execution->edges(), reads, writes, options, state_.id, name));
  execution->name = options.name;
  execution->fn = std::move(fn);
  std::move(give_back).Cancel();
  operations_.Submit(execution);
}

void DependencyEngine::AwaitWatchedFence(const FenceRef& fence, Execution* execution) {
  const CompletionScope scope;
  FailureRef failure = devices_.ResolveFence(fence);
  if (state_.trace.on() && fence->issued_ns != kNotTraced) {
    state_.trace.Add(TracedEnd{.sequence = fence->sequence,
                               .issued_ns = fence->issued_ns,
                               .end_ns = state_.trace.Now(),
                               .stream = fence->stream->number()},
                     fence->operation);
  }
  // Captures go before anyone hears of the end, as in Complete.
  if (std::holds_alternative<SyncFn>(execution->fn)) execution->fn.emplace<std::monostate>();
  ReadyList ready;
  for (Execution* blocked : fence->Finish(std::move(failure))) {
    if (blocked->blocked_edges.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      ready.PushBack(blocked);
    }
  }
  // Captures that go below may wait for these, see Complete.
  if (!ready.empty()) state_.scheduler->Dispatch(ready);
  if (execution->kind == ExecutionKind::kGraph) {
    graphs_.End(execution);
  } else if (Operations::DropReference(*execution)) {
    operations_.GiveExecution(execution);
    state_.progress.CountComplete();
  }
  waits_.NotifyInside();
  state_.scheduler->Deactivate();
}

void DependencyEngine::WaitForVar(Variable* variable) {
  CheckNotForked("WaitForVar");
  Recording::CheckNone(state_.id, "WaitForVar");
  waits_.WaitForVar(*Checked(variable, state_.id, "WaitForVar"));
}

void DependencyEngine::WaitForAll() {
  CheckNotForked("WaitForAll");
  Recording::CheckNone(state_.id, "WaitForAll");
  CheckNotInOperation("WaitForAll");
  waits_.WaitForAll();
}

void DependencyEngine::Throw(Variable* variable) {
  DependencyVariable* checked = Checked(variable, state_.id, "Throw");
  if (forked() && !WasWholeAtFork(*checked)) CheckNotForked("Throw");
  CheckAlive(*checked, "Throw");
  FailureRef failure;
  {
    std::lock_guard<FutexLock> hold(checked->lock);
    failure = checked->failure;
    const FenceRef fence = LastIssuedWrite(*checked);
    if (failure == nullptr && fence != nullptr && fence->done.load()) failure = fence->failure;
  }
  waits_.Report(failure);
}

bool DependencyEngine::IsIdle(Variable* variable) {
  DependencyVariable* checked = Checked(variable, state_.id, "IsIdle");
  if (forked()) return WasWholeAtFork(*checked);
  CheckAlive(*checked, "IsIdle");
  std::lock_guard<FutexLock> hold(checked->lock);
  return IsUnused(*checked);
}

void DependencyEngine::CheckNotInOperation(std::string_view call) const {
  const Execution* current = ThreadFrame::Current(state_.id);
  if (current == nullptr && ThreadFrame::IsWorker(state_.id)) {
    throw FailedPrecondition("Engine::", call,
                             ": called inside a parallel loop on the engine's workers, for whose "
                             "operation it would wait; expected a call from outside");
  }
  if (current == nullptr) return;
  throw FailedPrecondition("Engine::", call, ": called inside operation \"",
                           current->display_name(),
                           "\", for whose end it would wait; expected a call from outside");
}

void DependencyEngine::StartTrace() {
  CheckNotForked("StartTrace");
  state_.trace.Start();
}

std::string DependencyEngine::StopTrace() {
  CheckNotForked("StopTrace");
  return TraceToJson(state_.trace.Stop(), state_.id, num_workers(), devices_.StreamNames());
}

std::string DependencyEngine::DebugString() const { return DescribeEngine(state_); }

}  // namespace tessera::engine_internal
