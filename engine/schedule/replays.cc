#include "tessera/engine/schedule/replays.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "tessera/base/error.h"
#include "tessera/engine/core/variable_queue.h"
#include "tessera/engine/schedule/schedule_plan.h"
#include "tessera/engine/workers/blocking_scope.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {
namespace {

constexpr uint32_t kNone = SchedulePlan::kNone;

// A visitor looks for an operation so often before it leaves; about 5 us, less than it takes to
// wake a thread.
constexpr int kIdleLooks = 100;

// After so many operations a visit lets those of the same priority have their turn.
constexpr int64_t kMaxVisitRuns = 64;

}  // namespace

void Replays::Submit(ReplayPool& pool, const ReplayOptions& options, std::source_location site) {
  const SchedulePlan& plan = pool.plan();
  if (options.slots.size() != plan.slots()) {
    throw InvalidArgument("Schedule::Replay: \"", plan.name(), "\" was given ",
                          options.slots.size(), " slots; expected ", plan.slots(),
                          " as in the recording");
  }
  if (plan.size() == 0) return;
  std::unique_ptr<Replay> replay = pool.Take();
  absl::Cleanup give_replay = [&] { ReplayPool::Give(std::move(replay)); };
  BindVariables(*replay, options.variables);
  replay->slots.assign(options.slots.begin(), options.slots.end());
  replay->rank_offset = options.priority;
  const bool as_graph = plan.is_graph() && !pool.graph().refused.load(std::memory_order_relaxed);
  if (state_.scheduler->is_naive() || (plan.uses_devices() && !as_graph)) {
    std::move(give_replay).Cancel();
    PushOperations(std::shared_ptr<Replay>(
        replay.release(), [](Replay* over) { ReplayPool::Give(std::unique_ptr<Replay>(over)); }));
    return;
  }
  Execution* execution =
      operations_.TakeExecution(plan.push(0).device, FnProperty::kNormal, 0, site);
  execution->kind = as_graph ? ExecutionKind::kGraph : ExecutionKind::kReplay;
  execution->rank = plan.highest_rank() + options.priority;
  replay->execution = execution;
  replay->SwapEdgeBuffer();
  absl::Cleanup give_execution = [&] {
    replay->SwapEdgeBuffer();
    operations_.GiveExecution(execution);
  };
  execution->SetEdgeCount(replay->edges.size());
  std::transform(replay->edges.begin(), replay->edges.end(), execution->edges().begin(),
                 [](const SchedulePlan::VariableEdge& edge) { return edge.edge; });
  execution->name = plan.name();
  execution->replay = replay.get();
  replay->Start();
  std::vector<TracedPush> traced;
  if (state_.trace.on()) traced = as_graph ? TracedGraph(*replay) : TracedReplay(*replay);
  uint64_t sequence;
  const bool ready_now = Acquire(*execution, state_.progress.pushed(), &sequence, plan.size());
  // Nothing throws from here on.
  std::move(give_execution).Cancel();
  std::move(give_replay).Cancel();
  static_cast<void>(replay.release());  // from here on it owns itself, and may be over
  for (size_t i = 0; i < traced.size(); ++i) {
    traced[i].sequence = sequence + i;
    state_.trace.Add(std::move(traced[i]));
  }
  // For the bound on what pends a replay is one operation more: the others take no memory.
  operations_.AfterAcquire(execution, ready_now, sequence);
}

/// Sets the replay's edges. Throws if a variable is not there, or twice.
void Replays::BindVariables(Replay& replay, std::span<const VariableBinding> bindings) const {
  const SchedulePlan& plan = replay.plan;
  replay.edges = plan.edges();
  std::vector<bool> bound(bindings.empty() ? 0 : replay.edges.size());
  for (const VariableBinding& binding : bindings) {
    const DependencyVariable* recorded = Checked(binding.recorded, state_.id, plan.name());
    // By what was recorded, which another binding may have replaced by now.
    size_t place = 0;
    while (place < bound.size() && plan.edges()[place].edge.variable() != recorded) ++place;
    if (place == bound.size() || bound[place]) {
      throw InvalidArgument("Schedule::Replay: \"", plan.name(), "\" ",
                            place == bound.size() ? "does not use " : "was given two bindings for ",
                            recorded->ToString(),
                            "; expected variables of the recording, once each");
    }
    bound[place] = true;
    Edge& edge = replay.edges[place].edge;
    edge = Edge(Checked(binding.actual, state_.id, plan.name()), edge.access());
  }
  for (size_t i = 0; i < replay.edges.size(); ++i) {
    const SchedulePlan::VariableUse& use = plan.variables()[replay.edges[i].variable];
    if ((!bindings.empty() && bound[i]) || use.variable->id == use.id) continue;
    throw InvalidArgument("Schedule::Replay: \"", plan.name(), "\": ", use.name,
                          " was deleted; expected a living variable");
  }
  if (bindings.empty()) return;
  SortByVariable(replay.edges);
  std::vector<Edge> edges;
  for (const SchedulePlan::VariableEdge& edge : replay.edges) edges.push_back(edge.edge);
  SortEdges(edges, plan.name());  // for its check
}

/// Pushes each operation by itself: what goes to streams must be on its variables alone. Nobody
/// else's push comes in between, but on NaiveEngine, where each runs before the next is pushed.
void Replays::PushOperations(const std::shared_ptr<Replay>& replay) {
  const SchedulePlan& plan = replay->plan;
  std::vector<DependencyVariable*> actual;
  for (const SchedulePlan::VariableUse& use : plan.variables()) actual.push_back(use.variable);
  for (const SchedulePlan::VariableEdge& edge : replay->edges) {
    actual[edge.variable] = edge.edge.variable();
  }
  std::vector<Execution*> executions;
  executions.reserve(plan.size());
  absl::Cleanup give_back = [&] {
    for (Execution* execution : executions) operations_.GiveExecution(execution);
  };
  for (uint32_t i = 0; i < plan.size(); ++i) {
    executions.push_back(TakeOperation(replay, i, actual));
  }
  if (state_.scheduler->is_naive()) {
    // Shutdown waits until all are pushed. Once it has begun it takes replays of operations alone,
    // which it waits for anyway: so it comes to an end.
    if (!state_.scheduler->BeginPushes(/*in_operation=*/ThreadFrame::Current(state_.id) !=
                                       nullptr)) {
      throw PushedAfterShutdown(plan.name());
    }
    const absl::Cleanup end_pushes = [this] { state_.scheduler->EndPushes(); };
    // Here rather than at its own push, before which others would have run.
    for (DependencyVariable* variable : actual) CheckAlive(*variable, plan.name());
    std::reverse(executions.begin(), executions.end());
    while (!executions.empty()) {
      Execution* const execution = executions.back();
      executions.pop_back();
      operations_.Submit(execution);
    }
    return;
  }
  std::vector<Edge> edges;
  for (DependencyVariable* variable : actual) edges.emplace_back(variable, Access::kWrite);
  SortEdges(edges, plan.name());
  std::vector<TracedPush> traced;
  if (state_.trace.on()) {
    for (Execution* execution : executions) traced.push_back(operations_.Traced(*execution));
  }
  ReadyList ready;
  const uint64_t sequence =
      AcquireTogether(edges, executions, plan.name(), state_.progress.pushed(), ready);
  // Nothing throws from here on.
  std::move(give_back).Cancel();
  for (size_t i = 0; i < traced.size(); ++i) {
    traced[i].sequence = sequence + i;
    state_.trace.Add(std::move(traced[i]));
  }
  if (!ready.empty()) state_.scheduler->Dispatch(ready);
  const uint64_t pushed = sequence + plan.size() - 1;
  state_.progress.AwaitRoom(pushed);
}

/// An operation of the replay as an execution of its own, on the variables that stand in this
/// replay for the plan's.
Execution* Replays::TakeOperation(const std::shared_ptr<Replay>& replay, uint32_t index,
                                  std::span<DependencyVariable* const> variables) {
  const SchedulePlan& plan = replay->plan;
  const RecordedPush& push = plan.push(index);
  Execution* execution =
      operations_.TakeExecution(push.device, push.op->property, push.priority, push.site);
  absl::Cleanup give_back = [&] { operations_.GiveExecution(execution); };
  execution->rank += replay->rank_offset;
  const auto uses = plan.uses(index);
  execution->SetEdgeCount(uses.size());
  std::transform(
      uses.begin(), uses.end(), execution->edges().begin(),
      [&](const SchedulePlan::Use& use) { return Edge(variables[use.variable], use.access); });
  SortEdges(execution->edges(), push.op->name);
  execution->name = push.op->name;
  if (plan.operation(index).sync != nullptr) {
    execution->fn = SyncFn([replay, index](RunContext context) {
      context.slots = replay->slots;
      (*replay->plan.operation(index).sync)(context);
    });
  } else {
    execution->fn = AsyncFn([replay, index](RunContext context, OnComplete on_complete) {
      context.slots = replay->slots;
      std::get<AsyncFn>(replay->plan.push(index).op->fn)(context, std::move(on_complete));
    });
  }
  std::move(give_back).Cancel();
  return execution;
}

/// The operations of a replay, as if each were pushed now; their sequences are missing.
std::vector<TracedPush> Replays::TracedReplay(const Replay& replay) const {
  const SchedulePlan& plan = replay.plan;
  std::vector<TracedPush> pushes;
  std::vector<uint64_t> ids;
  for (const SchedulePlan::VariableUse& use : plan.variables()) ids.push_back(use.id);
  for (const SchedulePlan::VariableEdge& edge : replay.edges) {
    ids[edge.variable] = edge.edge.variable()->id;
  }
  for (uint32_t i = 0; i < plan.size(); ++i) {
    TracedPush& push = pushes.emplace_back();
    push.time_ns = state_.trace.Now();
    push.name = plan.push(i).display_name();
    push.site = plan.push(i).site;
    for (const SchedulePlan::Use& use : plan.uses(i)) {
      push.variables.emplace_back(ids[use.variable], use.access);
    }
  }
  return pushes;
}

void Replays::TakeMarks(Replay& replay) {
  const bool among_devices = state_.uses_devices.load(std::memory_order_relaxed);
  for (const SchedulePlan::VariableEdge& edge : replay.edges) {
    if (!edge.edge.input()) continue;
    DependencyVariable& variable = *edge.edge.variable();
    const FailureRef* failure = nullptr;
    Consider(variable.failure, failure);  // no lock: this edge is granted
    FenceRef fence;
    if (among_devices) {
      std::lock_guard<FutexLock> hold(variable.lock);
      fence = LastIssuedWrite(variable);
    }
    // A write that is not done yet may still fail; only a replay that goes to a stream can see one
    // here.
    if (fence != nullptr && fence->done.load()) Consider(fence->failure, failure);
    if (failure == nullptr) continue;
    replay.marks[edge.variable] = *failure;
    replay.failed.store(true, std::memory_order_relaxed);
  }
}

void Replays::BeginReplay(Execution* execution, ReadyList& ready) {
  Replay& replay = *execution->replay;
  replay.first_sequence = execution->sequence;
  TakeMarks(replay);
  replay.references.fetch_add(1, std::memory_order_relaxed);
  VisitReplay(replay, ready);
  DropReplay(replay, ready);
}

void Replays::JoinReplay(Execution* join, ReadyList& ready) {
  Replay& replay = *join->replay;
  replay.gate.Answer();  // from here on `join` may stand in the queue again
  VisitReplay(replay, ready);
  DropReplay(replay, ready);
}

void Replays::VisitReplay(Replay& replay, ReadyList& ready) {
  VisitExecution visit;
  visit.visited = &replay;
  visit.replay_execution = replay.execution;
  visit.below = ThreadFrame::Current(state_.id);
  state_.begun.Enter(visit);
  VisitEnd end = VisitEnd::kNothingReady;
  const auto run = [&] { end = RunReady(replay, visit); };
  replay.gate.Visit(
      [&](int32_t number) {
        visit.stack = replay.StackOf(number);
        const ThreadFrame frame(state_.id, &visit);
        // By reference: a function object of this size would allocate.
        state_.scheduler->CallIsolated(std::ref(run));
        return end == VisitEnd::kNothingReady;
      },
      [&] { return replay.HasReady(); });
  state_.begun.Leave(visit);
  if (end == VisitEnd::kEnded) EndReplay(replay, ready);
}

/// Returns whether the next operation of the queue goes before one of that rank, in a visit that
/// has run so many.
bool Replays::MustYield(const Replay& replay, int64_t rank, int64_t runs) const {
  // Relaxed throughout: a visitor that sees something late runs one operation more.
  if (state_.scheduler->stopped_relaxed()) return true;
  if (replay.execution->demanded.load(std::memory_order_relaxed)) return false;
  const int64_t queued = state_.scheduler->best_rank();
  return queued > rank || (queued == rank && runs >= kMaxVisitRuns);
}

/// Runs operations of the replay until none is ready or something else should run first.
Replays::VisitEnd Replays::RunReady(Replay& replay, VisitExecution& visit) {
  const SchedulePlan& plan = replay.plan;
  Scheduler& scheduler = *state_.scheduler;
  const int workers = scheduler.num_workers();
  RunContext context{Device::Cpu(), nullptr, state_.engine, replay.slots};
  uint32_t next = kNone;
  int64_t done = 0;  // counted here at first, since all visitors share the replay's counter
  const int64_t same_rank = plan.highest_rank() + replay.rank_offset;
  int64_t runs = 0;
  int looks = 0;
  for (;;) {
    if (next == kNone) next = replay.Take(visit.stack);
    if (next == kNone) {
      // Before the replay may be over: what is, nobody names any more.
      visit.push.store(nullptr, std::memory_order_relaxed);
      if (done > 0 && replay.Finish(std::exchange(done, 0))) return VisitEnd::kEnded;
      if (workers == 1 || ++looks > kIdleLooks || replay.unfinished.load() == 0) {
        return VisitEnd::kNothingReady;
      }
      SpinPause();
      continue;
    }
    looks = 0;
    const int64_t rank = plan.has_ranks() ? replay.RankOf(next) : same_rank;
    if (MustYield(replay, rank, runs++)) {
      visit.push.store(nullptr, std::memory_order_relaxed);
      // Not the last to be over, for nobody else can run `next` before it is put back.
      if (done > 0) replay.Finish(done);
      replay.PutBack(visit.stack, next);
      RequestJoin(replay, rank, scheduler);
      return VisitEnd::kYielded;
    }
    // For all that this thread has left behind, and for what others have: each calls one.
    if (replay.gate.visitors() < workers && replay.HasReady()) {
      RequestJoin(replay, rank, scheduler);
    }
    const SchedulePlan::Operation& operation = plan.operation(next);
    visit.push.store(&plan.push(next), std::memory_order_relaxed);
    context.device = operation.device;
    plan.FetchAhead(next);
    if (operation.sync == nullptr) {
      if (!CallStep(replay, next, context)) {
        ++done;
        next = kNone;
        continue;
      }
      ++done;  // the function's part: there is none
    } else if (operation.blocks || replay.failed.load(std::memory_order_relaxed) ||
               state_.trace.on()) {
      RunWatched(replay, next, context);
    } else {
      try {
        (*operation.sync)(context);
      } catch (...) {
        replay.Mark(next, NewFailure(replay, next, std::current_exception()));
      }
    }
    ++done;
    next = replay.Release(visit.stack, next);
  }
}

/// The error that the operation takes on from what it reads; or null.
FailureRef Replays::FailureOfInputs(const Replay& replay, uint32_t index) {
  if (!replay.failed.load(std::memory_order_relaxed)) return nullptr;
  if (RunsInAnyCase(replay.plan.push(index).op->property)) return nullptr;
  const FailureRef* earliest = nullptr;
  for (const SchedulePlan::Use& use : replay.plan.uses(index)) {
    if (use.access != Access::kWrite) Consider(replay.marks[use.variable], earliest);
  }
  return earliest == nullptr ? nullptr
                             : state_.failures.Inherit(*earliest, replay.first_sequence + index);
}

/// Skips the operation because of what it reads, with its variables marked; or returns false.
bool Replays::Skip(Replay& replay, uint32_t index) {
  const FailureRef failure = FailureOfInputs(replay, index);
  if (failure == nullptr) return false;
  replay.skipped.fetch_add(1, std::memory_order_relaxed);
  replay.Mark(index, failure);
  if (state_.trace.on()) TraceRun(replay, index, state_.trace.Now(), /*skipped=*/true);
  return true;
}

void Replays::RunWatched(Replay& replay, uint32_t index, const RunContext& context) {
  if (Skip(replay, index)) return;
  const int64_t begin_ns = state_.trace.on() ? state_.trace.Now() : kNotTraced;
  FailureRef failure;
  std::optional<BlockingScope> blocking;
  if (replay.plan.operation(index).blocks) blocking.emplace(*state_.scheduler, state_.id);
  try {
    (*replay.plan.operation(index).sync)(context);
  } catch (...) {
    failure = NewFailure(replay, index, std::current_exception());
  }
  blocking.reset();
  replay.Mark(index, failure);
  if (begin_ns != kNotTraced) TraceRun(replay, index, begin_ns, /*skipped=*/false);
}

/// Calls an asynchronous operation's function. Returns true if the operation was skipped instead,
/// or has failed for want of memory.
bool Replays::CallStep(Replay& replay, uint32_t index, const RunContext& context) {
  if (Skip(replay, index)) return true;
  AsyncStep* step;
  std::shared_ptr<Completion> completion;
  try {
    auto made = std::make_unique<AsyncStep>(&replay, index);
    completion = operations_.NewCompletion(made.get());
    step = made.release();
  } catch (const std::bad_alloc&) {
    replay.Mark(index, NewFailure(replay, index, std::current_exception()));
    return true;
  }
  state_.begun.Enter(*step);
  const int64_t begin_ns = state_.trace.on() ? state_.trace.Now() : kNotTraced;
  std::optional<BlockingScope> blocking;
  if (replay.plan.push(index).op->property == FnProperty::kAsync)
    blocking.emplace(*state_.scheduler, state_.id);
  try {
    // Isolated from the rest of the visit, in which what it leaves behind has no place.
    state_.scheduler->Call(std::get<AsyncFn>(replay.plan.push(index).op->fn), context,
                           OnComplete(completion));
  } catch (...) {
    // If it was complete before it threw, the error marks no variable; WaitForAll reports it.
    if (!completion->TryComplete(std::current_exception())) {
      NewFailure(replay, index, std::current_exception());
    }
  }
  blocking.reset();
  completion.reset();
  if (begin_ns != kNotTraced) TraceRun(replay, index, begin_ns, /*skipped=*/false);
  DropStep(step);
  return false;
}

void Replays::CompleteStep(AsyncStep* step, std::exception_ptr error, ReadyList& ready) {
  Replay& replay = *step->of;
  const uint32_t index = step->index;
  FailureRef failure;
  if (error != nullptr) failure = NewFailure(replay, index, std::move(error));
  if (state_.trace.on()) {
    state_.trace.Add(TracedEnd{.sequence = step->sequence, .end_ns = state_.trace.Now()},
                     step->display_name());
  }
  DropStep(step);
  if (failure != nullptr || replay.failed.load(std::memory_order_relaxed)) {
    replay.Mark(index, failure);
  }
  // Any stack will do: this thread is no visitor.
  const uint32_t next = replay.Release(/*stack=*/0, index);
  if (next != kNone) replay.PutBack(/*stack=*/0, next);
  if (replay.HasReady())
    RequestJoin(replay, replay.plan.highest_rank() + replay.rank_offset, *state_.scheduler);
  // The operation, which is not over yet, keeps the replay up to here.
  replay.references.fetch_add(1, std::memory_order_relaxed);
  if (replay.Finish(1)) EndReplay(replay, ready);
  DropReplay(replay, ready);
}

void Replays::DropStep(AsyncStep* step) {
  // Acquire and release: the last one sees the other's use of it.
  if (step->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  state_.begun.Leave(*step);
  delete step;
}

void Replays::ReleaseMarked(Replay& replay, ReadyList& ready, Leftovers& leftovers,
                            const FenceRef& fence) {
  Execution& execution = *replay.execution;
  if (!replay.failed.load(std::memory_order_relaxed)) {
    engine_internal::Release(execution, nullptr, ready, leftovers, fence);
    return;
  }
  for (size_t i = 0; i < replay.edges.size(); ++i) {
    const FailureRef& mark = replay.marks[replay.edges[i].variable];
    leftovers.Keep(ReleaseOne(execution, i, mark, ready, fence));
  }
  // Those of variables that are the schedule's own are the last of their errors.
  for (FailureRef& mark : replay.marks) leftovers.Keep({std::move(mark), nullptr});
}

void Replays::EndReplay(Replay& replay, ReadyList& ready) {
  Execution* const execution = replay.execution;
  const size_t operations = replay.plan.size();
  const uint64_t skipped = replay.skipped.load(std::memory_order_relaxed);
  Leftovers leftovers;
  ReleaseMarked(replay, ready, leftovers, nullptr);
  if (!leftovers.empty()) {
    operations_.DispatchAll(ready);
    leftovers.Clear();
  }
  replay.SwapEdgeBuffer();
  execution->replay = nullptr;
  operations_.GiveExecution(execution);
  operations_.FinishInline(ready);
  // The reference that the replay has had of its own; the caller has another.
  replay.references.fetch_sub(1, std::memory_order_relaxed);
  // Both at the end, so that what counts as run never becomes less.
  if (skipped > 0) state_.progress.CountSkipped(skipped);
  state_.progress.CountComplete(operations);
}

void Replays::DropJoin(Execution* join) {
  TESSERA_DCHECK(join->kind == ExecutionKind::kJoin && join->replay->unfinished.load() == 0);
  Replay& replay = *join->replay;
  replay.gate.Answer();
  ReadyList none;
  DropReplay(replay, none);
}

void Replays::DropReplay(Replay& replay, ReadyList& ready) {
  // Acquire and release: the thread that takes the replay next sees everyone's last use of it.
  if (replay.references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::unique_ptr<ReplayPool> last = ReplayPool::Give(std::unique_ptr<Replay>(&replay));
  // The schedule is gone: the captures of its functions may wait for what is ready.
  if (last != nullptr) operations_.DispatchAll(ready);
}

FailureRef Replays::NewFailure(const Replay& replay, uint32_t index,
                               std::exception_ptr error) noexcept {
  const RecordedPush& push = replay.plan.push(index);
  return state_.failures.Begin(std::move(error), push.display_name(), push.site,
                               replay.first_sequence + index);
}

void Replays::TraceRun(const Replay& replay, uint32_t index, int64_t begin_ns, bool skipped) {
  operations_.TraceRun(replay.first_sequence + index, replay.plan.push(index).display_name(),
                       begin_ns, skipped);
}

/// The replay as one push, as of now; its sequence is missing.
std::vector<TracedPush> Replays::TracedGraph(const Replay& replay) const {
  TracedPush push;
  push.time_ns = state_.trace.Now();
  push.name = replay.plan.name();
  push.site = replay.plan.push(0).site;
  for (const SchedulePlan::VariableEdge& edge : replay.edges) {
    push.variables.emplace_back(edge.edge.variable()->id, edge.edge.access());
  }
  return {std::move(push)};
}

}  // namespace tessera::engine_internal
