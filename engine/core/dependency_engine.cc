#include "tessera/engine/core/dependency_engine.h"

#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "tessera/base/error.h"
#include "tessera/engine/core/naive_scheduler.h"
#include "tessera/engine/schedule/recording.h"
#include "tessera/engine/workers/thread_frame.h"
#include "tessera/engine/workers/worker_pool.h"

namespace tessera::engine_internal {
namespace {

uint64_t NextEngineId() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

// A record that has held more edges than this gives their memory back.
constexpr uint32_t kMaxKeptEdges = 32;

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
    : options_(options),
      id_(NextEngineId()),
      trace_(id_),
      stall_(options.stall_report_ms, options.stall_report, [this] { return DebugString(); }),
      progress_(options.max_pending, fork_watch_, stall_, [this] { return scheduler_->stopped(); }),
      scheduler_(NewScheduler(kind)) {}

std::unique_ptr<Scheduler> DependencyEngine::NewScheduler(EngineKind kind) {
  if (kind == EngineKind::kNaive) {
    return std::make_unique<NaiveScheduler>(static_cast<OperationRunner*>(this), fork_watch_,
                                            stall_, id_, [this] { NotifyInside(); });
  }
  return std::make_unique<WorkerPool>(static_cast<OperationRunner*>(this), fork_watch_, stall_, id_,
                                      options_.workers);
}

Variable* DependencyEngine::NewVariable(std::string_view name) {
  CheckNotForked("NewVariable");
  DependencyVariable* variable = variables_.Take();
  Recording* const recording = Recording::Of(id_);
  absl::Cleanup give_back = [&] {
    if (recording != nullptr) recording->made.erase(variable);
    variables_.Give(variable);
  };
  if (recording != nullptr) recording->made.insert(variable);
  std::lock_guard<FutexLock> hold(variable->lock);  // DebugString may be looking at it
  variable->Revive(id_, next_variable_id_.fetch_add(1, std::memory_order_relaxed), name);
  std::move(give_back).Cancel();
  return variable;
}

void DependencyEngine::DeleteVariable(Variable* variable) {
  if (forked()) return;  // destructors call this, and nothing of the engine can be given back
  DependencyVariable* checked = Checked(variable, "DeleteVariable");
  if (Recording* const recording = Recording::Of(id_)) {
    NoteDeletion(*recording, checked);
    return;
  }
  if (Delete(checked, checked->id)) return;
  throw InvalidArgument("Engine: \"DeleteVariable\": ", checked->ToString(),
                        " was deleted already");
}

/// Deletes the variable after its last use. Returns false if that has been asked for before; its
/// record may by then be another variable, with another number than `id`. Where there is no memory
/// for a place behind that use the record is lost to others until the engine ends: destructors call
/// this, and could do nothing about an exception.
bool DependencyEngine::Delete(DependencyVariable* variable, uint64_t id) noexcept {
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
  execution->sequence = progress_.pushes(std::memory_order_relaxed) + 1;
  bool ready_now;
  if (!AcquireDeletion(*execution, id, &ready_now)) {
    GiveExecution(execution);
    return false;
  }
  if (!ready_now) return true;
  ReadyList ready;
  ready.PushBack(execution);
  FinishInline(ready);
  if (!ready.empty()) scheduler_->Dispatch(ready);
  return true;
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
  OperatorRecord* record = CheckedOperator(op, id_, "Push");
  const std::string_view name = NameOr(record->name);
  CheckAccepting(name);
  CheckDevice(device, record->property, name);
  if (record->deleted.load(std::memory_order_relaxed)) {
    throw InvalidArgument("Engine::Push: operator \"", name, "\" was deleted");
  }
  if (Recording* const recording = Recording::Of(id_)) {
    record->references.fetch_add(1, std::memory_order_relaxed);
    Note(*recording, record, device, priority, site);
    return;
  }
  Execution* execution = TakeExecution(device, record->property, priority, site);
  absl::Cleanup give_back = [&] { GiveExecution(execution); };
  execution->SetEdgeCount(record->edges.size());
  std::move(give_back).Cancel();
  std::copy(record->edges.begin(), record->edges.end(), execution->edges().begin());
  execution->op = record;
  record->references.fetch_add(1, std::memory_order_relaxed);  // the caller's one keeps it alive
  Submit(execution);
}

void DependencyEngine::DeleteOperator(EngineOperator* op) {
  if (forked()) return;
  OperatorRecord* record = CheckedOperator(op, id_, "DeleteOperator");
  if (record->deleted.exchange(true, std::memory_order_relaxed)) {
    throw InvalidArgument("Engine::DeleteOperator: operator \"", NameOr(record->name),
                          "\" was deleted already");
  }
  DropOperator(record);
}

DependencyVariable* DependencyEngine::Checked(Variable* variable,
                                              std::string_view operation) const {
  if (variable == nullptr) {
    throw InvalidArgument("Engine: \"", operation,
                          "\": a variable is null; expected one from "
                          "NewVariable");
  }
  auto* own = static_cast<DependencyVariable*>(variable);
  if (own->engine_id != id_) {
    throw InvalidArgument("Engine: \"", operation, "\": ", own->ToString(),
                          " belongs to another engine");
  }
  return own;
}

void DependencyEngine::CheckDevice(Device device, FnProperty property, std::string_view operation) {
  if (device.type != DeviceType::kGpu) return;
  try {
    streams_->For(device, property);
  } catch (const Error& error) {
    throw Error(error.code(),
                absl::StrCat("Engine: operation \"", std::string(operation), "\": ", error.what()));
  }
  uses_devices_.store(true, std::memory_order_relaxed);
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
  // place. What pushes inside an operation comes before that one's end, and so before Shutdown's.
  if (!accepting_.load(std::memory_order_relaxed) && ThreadFrame::Current(id_) == nullptr) {
    throw PushedAfterShutdown(operation);
  }
}

void DependencyEngine::FillEdges(std::span<Edge> edges, VariableList reads, VariableList writes,
                                 VariableList updates, std::string_view operation) const {
  Edge* edge = edges.data();
  const auto fill = [&](VariableList variables, Access access) {
    for (Variable* variable : variables) *edge++ = Edge(Checked(variable, operation), access);
  };
  fill(reads, Access::kRead);
  fill(writes, Access::kWrite);
  fill(updates, Access::kUpdate);
  SortEdges(edges, operation);
}

void DependencyEngine::CheckAlive(DependencyVariable& variable, std::string_view operation) {
  std::lock_guard<FutexLock> hold(variable.lock);
  if (variable.alive) return;
  throw InvalidArgument("Engine: operation \"", operation, "\": ", variable.ToString(),
                        " was deleted; expected a living variable");
}

OperatorRecord* DependencyEngine::MakeOperator(AnyFn fn, VariableList reads, VariableList writes,
                                               const PushOptions& options) {
  const std::string_view name = NameOr(options.name);
  CheckAccepting(name);
  CheckCallable(fn, name);
  auto op = std::make_unique<OperatorRecord>();
  op->edges.resize(reads.size() + writes.size() + options.updates.size());
  FillEdges(op->edges, reads, writes, options.updates, name);
  for (const Edge& edge : op->edges) {
    CheckAlive(*edge.variable(), name);
    op->variable_ids.push_back(edge.variable()->id);
  }
  op->fn = std::move(fn);
  op->property = options.property;
  op->capturable = options.capturable;
  op->name = options.name;
  op->engine_id = id_;
  return op.release();
}

void DependencyEngine::PushFunction(AnyFn fn, Device device, VariableList reads,
                                    VariableList writes, const PushOptions& options,
                                    std::source_location site) {
  const std::string_view name = NameOr(options.name);
  CheckAccepting(name);
  CheckCallable(fn, name);
  CheckDevice(device, options.property, name);
  if (Recording* const recording = Recording::Of(id_)) {
    Note(*recording, MakeOperator(std::move(fn), reads, writes, options), device, options.priority,
         site);
    return;
  }
  Execution* execution = TakeExecution(device, options.property, options.priority, site);
  absl::Cleanup give_back = [&] { GiveExecution(execution); };
  execution->SetEdgeCount(reads.size() + writes.size() + options.updates.size());
  FillEdges(execution->edges(), reads, writes, options.updates, name);
  execution->name = options.name;
  execution->fn = std::move(fn);
  std::move(give_back).Cancel();
  Submit(execution);
}

Execution* DependencyEngine::TakeExecution(Device device, FnProperty property, int priority,
                                           std::source_location site) {
  Execution* execution = executions_.Take();
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

void DependencyEngine::GiveExecution(Execution* execution) {
  EndExecution(execution);
  RecycleExecution(execution);
}

/// Gives up what the execution has of the program's.
void DependencyEngine::EndExecution(Execution* execution) {
  TakeLastUse(*execution);
  execution->fn.emplace<std::monostate>();
}

/// Takes the execution's operator from it, which nobody sees any more. Returns that if this was its
/// last use.
std::unique_ptr<OperatorRecord> DependencyEngine::TakeLastUse(Execution& execution) {
  if (execution.begun) begun_.Leave(execution);
  OperatorRecord* const op = execution.has_op() ? execution.op : nullptr;
  execution.op = nullptr;
  return op == nullptr ? nullptr : DropOperator(op);
}

/// After that, lets the next push have the record.
void DependencyEngine::RecycleExecution(Execution* execution) {
  execution->name.clear();  // keeps its memory for the next name
  execution->below = nullptr;
  // Records take turns, so that a few wide operations would leave each of them with a large buffer.
  if (execution->more_capacity > kMaxKeptEdges) execution->DropBuffer();
  executions_.Give(execution);
}

/// The push of the execution, whose sequence is not known yet.
TracedPush DependencyEngine::Traced(Execution& execution) const {
  TracedPush push;
  push.time_ns = trace_.Now();
  push.name = execution.display_name();
  push.site = execution.site;
  for (const Edge& edge : execution.edges()) {
    push.variables.emplace_back(edge.variable()->id, edge.access());
  }
  return push;
}

void DependencyEngine::Submit(Execution* execution) {
  bool ready_now;
  try {
    if (trace_.on()) {
      TracedPush push = Traced(*execution);
      ready_now = Acquire(*execution, progress_.pushed(), &push.sequence);
      trace_.Add(std::move(push));
    } else {
      ready_now = Acquire(*execution, progress_.pushed());
    }
  } catch (...) {
    GiveExecution(execution);
    throw;
  }
  // Relaxed: the pusher has just advanced the counter itself, and needs no exact figure.
  AfterAcquire(execution, ready_now, progress_.pushes(std::memory_order_relaxed));
}

void DependencyEngine::AfterAcquire(Execution* execution, bool ready_now, uint64_t pushed) {
  if (ready_now) {
    ReadyList ready;
    ready.PushBack(execution);
    scheduler_->Dispatch(ready);
  }
  progress_.AwaitRoom(pushed);
}

}  // namespace tessera::engine_internal
