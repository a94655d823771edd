// How DependencyEngine records schedules and replays them.

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <unordered_set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "tessera/base/error.h"
#include "tessera/engine/core/dependency_engine.h"
#include "tessera/engine/schedule.h"
#include "tessera/engine/schedule/recording.h"
#include "tessera/engine/schedule/replay.h"
#include "tessera/engine/schedule/schedule_plan.h"
#include "tessera/engine/workers/blocking_scope.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {
namespace {

constexpr uint32_t kNone = SchedulePlan::kNone;

// How often a visitor looks for an operation before it leaves; about 5 us, less than it takes to
// wake a thread.
constexpr int kIdleLooks = 100;

// After so many operations a visit lets those of the same priority have their turn.
constexpr int64_t kMaxVisitRuns = 64;

}  // namespace

/// What Record returns.
class DependencyEngine::RecordedSchedule final : public Schedule {
 public:
  RecordedSchedule(DependencyEngine* engine, std::unique_ptr<const SchedulePlan> plan,
                   std::vector<RecordedDeletion> deletions)
      : engine_(engine),
        pool_(new ReplayPool(std::move(plan), engine->num_workers())),
        deletions_(std::move(deletions)) {}

  ~RecordedSchedule() override {
    engine_->DeleteRecorded(deletions_);
    ReplayPool::Drop(pool_);
  }

  void Replay(const ReplayOptions& options, std::source_location site) override {
    engine_->SubmitReplay(*pool_, options, site);
  }
  size_t size() const override { return pool_->plan().size(); }
  std::string Describe() const override { return pool_->plan().Describe(); }
  std::string Graphviz() const override { return pool_->plan().Graphviz(); }

 private:
  DependencyEngine* const engine_;
  ReplayPool* const pool_;
  const std::vector<RecordedDeletion> deletions_;
};

std::unique_ptr<Schedule> DependencyEngine::Record(const std::function<void()>& pushes,
                                                   const RecordOptions& options) {
  const std::string name(options.name.empty() ? "(unnamed)" : options.name);
  CheckAccepting(name);
  CheckNotRecording("Record");
  if (pushes == nullptr) {
    throw InvalidArgument("Engine::Record: \"", name,
                          "\": the function is empty; expected one that can be called");
  }
  std::vector<RecordedPush> recorded;
  std::vector<RecordedDeletion> deletions;
  std::unordered_set<const DependencyVariable*> own;  // nobody else has ever used them
  // Of a recording that fails nothing stays but what it asked to delete.
  absl::Cleanup give_back = [&] { DeleteRecorded(deletions); };
  {
    Recording recording(id_);
    absl::Cleanup keep = [&] {
      recorded = std::move(recording.pushes);
      deletions = std::move(recording.deletions);
      // In place, for in a cleanup nothing may throw.
      std::erase_if(recording.made, [&](const DependencyVariable* variable) {
        return !recording.deleted.contains(variable);
      });
      own = std::move(recording.made);
    };
    pushes();
  }
  auto plan = std::make_unique<const SchedulePlan>(name, options.slots, std::move(recorded), own);
  auto schedule = std::make_unique<RecordedSchedule>(this, std::move(plan), deletions);
  std::move(give_back).Cancel();
  return schedule;
}

void DependencyEngine::CheckNotRecording(std::string_view call) const {
  if (Recording::Of(id_) == nullptr) return;
  throw FailedPrecondition("Engine: ", call,
                           " was called while this thread records a schedule, in which it has no "
                           "place; expected pushes, and new and deleted variables");
}

/// Takes over the caller's reference to `op`.
void DependencyEngine::Note(Recording& recording, OperatorRecord* op, Device device, int priority,
                            std::source_location site) {
  RecordedPush push{OperatorRef(op), device, priority, site};
  for (size_t i = 0; i < op->edges.size(); ++i) {
    DependencyVariable& variable = *op->edges[i].variable();
    const bool deleted = recording.deleted.contains(&variable);
    std::lock_guard<FutexLock> hold(variable.lock);
    if (variable.alive && variable.id == op->variable_ids[i] && !deleted) continue;
    throw InvalidArgument("Engine: operation \"", op->name, "\": ", variable.ToString(),
                          " was deleted; expected a living variable");
  }
  recording.pushes.push_back(std::move(push));
}

void DependencyEngine::NoteDeletion(Recording& recording, DependencyVariable* variable) {
  bool alive;
  {
    std::lock_guard<FutexLock> hold(variable->lock);
    alive = variable->alive;
  }
  if (!alive || !recording.deleted.insert(variable).second) {
    throw InvalidArgument("Engine: \"DeleteVariable\": ", variable->ToString(),
                          " was deleted already");
  }
  absl::Cleanup forget = [&] { recording.deleted.erase(variable); };
  recording.deletions.push_back({variable, variable->id});
  std::move(forget).Cancel();
}

/// Deletes what is still there: somebody may have deleted it without waiting for the schedule.
void DependencyEngine::DeleteRecorded(std::span<const RecordedDeletion> deletions) {
  if (forked()) return;
  for (const RecordedDeletion& deletion : deletions) Delete(deletion.variable, deletion.id);
}

/// Queues the replay, or pushes its operations.
void DependencyEngine::SubmitReplay(ReplayPool& pool, const ReplayOptions& options,
                                    std::source_location site) {
  const SchedulePlan& plan = pool.plan();
  CheckAccepting(plan.name());
  CheckNotRecording("Schedule::Replay");
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
  if (scheduler_->is_naive() || (plan.uses_devices() && !as_graph)) {
    std::move(give_replay).Cancel();
    PushOperations(std::shared_ptr<Replay>(
        replay.release(), [](Replay* over) { ReplayPool::Give(std::unique_ptr<Replay>(over)); }));
    return;
  }
  Execution* execution = TakeExecution(plan.push(0).device, FnProperty::kNormal, 0, site);
  execution->kind = as_graph ? ExecutionKind::kGraph : ExecutionKind::kReplay;
  execution->rank = plan.highest_rank() + options.priority;
  replay->execution = execution;
  replay->SwapEdgeBuffer();
  absl::Cleanup give_execution = [&] {
    replay->SwapEdgeBuffer();
    GiveExecution(execution);
  };
  execution->SetEdgeCount(replay->edges.size());
  std::transform(replay->edges.begin(), replay->edges.end(), execution->edges().begin(),
                 [](const SchedulePlan::VariableEdge& edge) { return edge.edge; });
  execution->name = plan.name();
  execution->replay = replay.get();
  replay->Start();
  std::vector<TracedPush> traced;
  if (trace_.on()) traced = as_graph ? TracedGraph(*replay) : TracedReplay(*replay);
  uint64_t sequence;
  const bool ready_now = Acquire(*execution, progress_.pushed(), &sequence, plan.size());
  // Nothing throws from here on.
  std::move(give_execution).Cancel();
  std::move(give_replay).Cancel();
  static_cast<void>(replay.release());  // from here on it owns itself, and may be over
  for (size_t i = 0; i < traced.size(); ++i) {
    traced[i].sequence = sequence + i;
    trace_.Add(std::move(traced[i]));
  }
  // For the bound on what pends a replay is one operation more: the others take no memory.
  AfterAcquire(execution, ready_now, sequence);
}

/// Sets the replay's edges. Throws if a variable is not there, or twice.
void DependencyEngine::BindVariables(Replay& replay,
                                     std::span<const VariableBinding> bindings) const {
  const SchedulePlan& plan = replay.plan;
  replay.edges = plan.edges();
  std::vector<bool> bound(bindings.empty() ? 0 : replay.edges.size());
  for (const VariableBinding& binding : bindings) {
    const DependencyVariable* recorded = Checked(binding.recorded, plan.name());
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
    edge = Edge(Checked(binding.actual, plan.name()), edge.access());
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
void DependencyEngine::PushOperations(const std::shared_ptr<Replay>& replay) {
  const SchedulePlan& plan = replay->plan;
  std::vector<DependencyVariable*> actual;
  for (const SchedulePlan::VariableUse& use : plan.variables()) actual.push_back(use.variable);
  for (const SchedulePlan::VariableEdge& edge : replay->edges) {
    actual[edge.variable] = edge.edge.variable();
  }
  std::vector<Execution*> executions;
  executions.reserve(plan.size());
  absl::Cleanup give_back = [&] {
    for (Execution* execution : executions) GiveExecution(execution);
  };
  for (uint32_t i = 0; i < plan.size(); ++i) {
    executions.push_back(TakeOperation(replay, i, actual));
  }
  if (scheduler_->is_naive()) {
    // Shutdown waits until all are pushed. From its beginning it takes replays of operations alone,
    // which it waits for anyway: so it comes to an end.
    if (!scheduler_->BeginPushes(/*in_operation=*/ThreadFrame::Current(id_) != nullptr)) {
      throw PushedAfterShutdown(plan.name());
    }
    const absl::Cleanup end_pushes = [this] { scheduler_->EndPushes(); };
    // Here rather than at its own push, before which others would have run.
    for (DependencyVariable* variable : actual) CheckAlive(*variable, plan.name());
    std::reverse(executions.begin(), executions.end());
    while (!executions.empty()) {
      Execution* const execution = executions.back();
      executions.pop_back();
      Submit(execution);
    }
    return;
  }
  std::vector<Edge> edges;
  for (DependencyVariable* variable : actual) edges.emplace_back(variable, Access::kWrite);
  SortEdges(edges, plan.name());
  std::vector<TracedPush> traced;
  if (trace_.on()) {
    for (Execution* execution : executions) traced.push_back(Traced(*execution));
  }
  ReadyList ready;
  const uint64_t sequence =
      AcquireTogether(edges, executions, plan.name(), progress_.pushed(), ready);
  // Nothing throws from here on.
  std::move(give_back).Cancel();
  for (size_t i = 0; i < traced.size(); ++i) {
    traced[i].sequence = sequence + i;
    trace_.Add(std::move(traced[i]));
  }
  if (!ready.empty()) scheduler_->Dispatch(ready);
  const uint64_t pushed = sequence + plan.size() - 1;
  progress_.AwaitRoom(pushed);
}

/// An operation of the replay as an execution of its own, on the variables that stand in this
/// replay for the plan's.
Execution* DependencyEngine::TakeOperation(const std::shared_ptr<Replay>& replay, uint32_t index,
                                           std::span<DependencyVariable* const> variables) {
  const SchedulePlan& plan = replay->plan;
  const RecordedPush& push = plan.push(index);
  Execution* execution = TakeExecution(push.device, push.op->property, push.priority, push.site);
  absl::Cleanup give_back = [&] { GiveExecution(execution); };
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
std::vector<TracedPush> DependencyEngine::TracedReplay(const Replay& replay) const {
  const SchedulePlan& plan = replay.plan;
  std::vector<TracedPush> pushes;
  std::vector<uint64_t> ids;
  for (const SchedulePlan::VariableUse& use : plan.variables()) ids.push_back(use.id);
  for (const SchedulePlan::VariableEdge& edge : replay.edges) {
    ids[edge.variable] = edge.edge.variable()->id;
  }
  for (uint32_t i = 0; i < plan.size(); ++i) {
    TracedPush& push = pushes.emplace_back();
    push.time_ns = trace_.Now();
    push.name = plan.push(i).display_name();
    push.site = plan.push(i).site;
    for (const SchedulePlan::Use& use : plan.uses(i)) {
      push.variables.emplace_back(ids[use.variable], use.access);
    }
  }
  return pushes;
}

/// The replay, whose turn has come on all its variables, notes what errors these carry.
void DependencyEngine::TakeMarks(Replay& replay) {
  const bool among_devices = uses_devices_.load(std::memory_order_relaxed);
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
    // What is not done yet, which only what goes to a stream can see here, may still fail.
    if (fence != nullptr && fence->done.load()) Consider(fence->failure, failure);
    if (failure == nullptr) continue;
    replay.marks[edge.variable] = *failure;
    replay.failed.store(true, std::memory_order_relaxed);
  }
}

void DependencyEngine::BeginReplay(Execution* execution, ReadyList& ready) {
  Replay& replay = *execution->replay;
  replay.first_sequence = execution->sequence;
  TakeMarks(replay);
  replay.references.fetch_add(1, std::memory_order_relaxed);
  VisitReplay(replay, ready);
  DropReplay(replay, ready);
}

/// Called help has come.
void DependencyEngine::JoinReplay(Execution* join, ReadyList& ready) {
  Replay& replay = *join->replay;
  replay.gate.Answer();  // from here on `join` may stand in the queue again
  VisitReplay(replay, ready);
  DropReplay(replay, ready);
}

/// Sees to it that a thread comes for what is ready and nobody's, which has that rank.
void DependencyEngine::CallHelp(Replay& replay, int64_t rank) {
  if (!replay.gate.Call()) return;
  // Relaxed: the caller has a reference itself.
  replay.references.fetch_add(1, std::memory_order_relaxed);
  // The last helper has answered, hence done with it. It is the replay's own, so that whoever is
  // about to wait needs no memory for its call.
  Execution* const join = &replay.join;
  join->rank = rank;
  // What a wait needs goes first: see DemandWhatBlocks, which knows the replay's execution alone.
  join->demanded.store(replay.execution->demanded.load(std::memory_order_relaxed),
                       std::memory_order_relaxed);
  join->sequence = replay.first_sequence;
  ReadyList ready;
  ready.PushBack(join);
  scheduler_->Dispatch(ready);
}

void DependencyEngine::VisitReplay(Replay& replay, ReadyList& ready) {
  VisitExecution visit;
  visit.visited = &replay;
  visit.replay_execution = replay.execution;
  visit.below = ThreadFrame::Current(id_);
  begun_.Enter(visit);
  VisitEnd end = VisitEnd::kNothingReady;
  const auto run = [&] { end = RunReady(replay, visit); };
  replay.gate.Visit(
      [&](int32_t number) {
        visit.stack = replay.StackOf(number);
        const ThreadFrame frame(id_, &visit);
        scheduler_->CallIsolated(
            std::ref(run));  // by reference: a function object of this size would allocate
        return end == VisitEnd::kNothingReady;
      },
      [&] { return replay.HasReady(); });
  begun_.Leave(visit);
  if (end == VisitEnd::kEnded) EndReplay(replay, ready);
}

/// Called when the operation that runs on this thread begins to wait: if it belongs to a replay,
/// the visit does not count until ResumeVisit, and others come for what is ready.
void DependencyEngine::SuspendVisit(Execution* current) {
  if (current == nullptr || current->kind != ExecutionKind::kVisit) return;
  Replay& replay = *static_cast<VisitExecution*>(current)->visited;
  replay.gate.Suspend();
  if (replay.HasReady()) CallHelp(replay, replay.plan.highest_rank() + replay.rank_offset);
}

void DependencyEngine::ResumeVisit(Execution* current) {
  if (current == nullptr || current->kind != ExecutionKind::kVisit) return;
  static_cast<VisitExecution*>(current)->visited->gate.Resume();
}

/// Whether what stands in the queue goes before an operation of that rank, in a visit that has run
/// so many.
bool DependencyEngine::MustYield(const Replay& replay, int64_t rank, int64_t runs) const {
  // Relaxed throughout: a visitor that sees something late runs one operation more.
  if (scheduler_->stopped_relaxed()) return true;
  if (replay.execution->demanded.load(std::memory_order_relaxed)) return false;
  const int64_t queued = scheduler_->best_rank();
  return queued > rank || (queued == rank && runs >= kMaxVisitRuns);
}

/// Runs operations of the replay until none is ready or something else should run first.
DependencyEngine::VisitEnd DependencyEngine::RunReady(Replay& replay, VisitExecution& visit) {
  const SchedulePlan& plan = replay.plan;
  const int workers = num_workers();
  RunContext context{Device::Cpu(), nullptr, this, replay.slots};
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
      CallHelp(replay, rank);
      return VisitEnd::kYielded;
    }
    // For all that this thread has left behind, and for what others have: each calls one.
    if (replay.gate.visitors() < workers && replay.HasReady()) CallHelp(replay, rank);
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
    } else if (operation.blocks || replay.failed.load(std::memory_order_relaxed) || trace_.on()) {
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
FailureRef DependencyEngine::FailureOfInputs(const Replay& replay, uint32_t index) {
  if (!replay.failed.load(std::memory_order_relaxed)) return nullptr;
  if (RunsInAnyCase(replay.plan.push(index).op->property)) return nullptr;
  const FailureRef* earliest = nullptr;
  for (const SchedulePlan::Use& use : replay.plan.uses(index)) {
    if (use.access != Access::kWrite) Consider(replay.marks[use.variable], earliest);
  }
  return earliest == nullptr ? nullptr
                             : failures_.Inherit(*earliest, replay.first_sequence + index);
}

/// Skips the operation because of what it reads, with its variables marked; or returns false.
bool DependencyEngine::Skip(Replay& replay, uint32_t index) {
  const FailureRef failure = FailureOfInputs(replay, index);
  if (failure == nullptr) return false;
  replay.skipped.fetch_add(1, std::memory_order_relaxed);
  replay.Mark(index, failure);
  if (trace_.on()) TraceRun(replay, index, trace_.Now(), /*skipped=*/true);
  return true;
}

/// Runs an operation where there are marks to look at or a trace to write.
void DependencyEngine::RunWatched(Replay& replay, uint32_t index, const RunContext& context) {
  if (Skip(replay, index)) return;
  const int64_t begin_ns = trace_.on() ? trace_.Now() : kNotTraced;
  FailureRef failure;
  std::optional<BlockingScope> blocking;
  if (replay.plan.operation(index).blocks) blocking.emplace(this);
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
bool DependencyEngine::CallStep(Replay& replay, uint32_t index, const RunContext& context) {
  if (Skip(replay, index)) return true;
  AsyncStep* step;
  std::shared_ptr<Completion> completion;
  try {
    auto made = std::make_unique<AsyncStep>(&replay, index);
    completion = NewCompletion(made.get());
    step = made.release();
  } catch (const std::bad_alloc&) {
    replay.Mark(index, NewFailure(replay, index, std::current_exception()));
    return true;
  }
  begun_.Enter(*step);
  const int64_t begin_ns = trace_.on() ? trace_.Now() : kNotTraced;
  std::optional<BlockingScope> blocking;
  if (replay.plan.push(index).op->property == FnProperty::kAsync) blocking.emplace(this);
  try {
    // Isolated from the rest of the visit, in which what it leaves behind has no place.
    scheduler_->Call(std::get<AsyncFn>(replay.plan.push(index).op->fn), context,
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

/// In whatever thread completes the operation.
void DependencyEngine::CompleteStep(AsyncStep* step, std::exception_ptr error, ReadyList& ready) {
  Replay& replay = *step->of;
  const uint32_t index = step->index;
  FailureRef failure;
  if (error != nullptr) failure = NewFailure(replay, index, std::move(error));
  if (trace_.on()) {
    trace_.Add(TracedEnd{.sequence = step->sequence, .end_ns = trace_.Now()}, step->display_name());
  }
  DropStep(step);
  if (failure != nullptr || replay.failed.load(std::memory_order_relaxed)) {
    replay.Mark(index, failure);
  }
  // Any stack will do: this thread is no visitor.
  const uint32_t next = replay.Release(/*stack=*/0, index);
  if (next != kNone) replay.PutBack(/*stack=*/0, next);
  if (replay.HasReady()) CallHelp(replay, replay.plan.highest_rank() + replay.rank_offset);
  // What is not over yet keeps the replay up to here.
  replay.references.fetch_add(1, std::memory_order_relaxed);
  if (replay.Finish(1)) EndReplay(replay, ready);
  DropReplay(replay, ready);
}

void DependencyEngine::DropStep(AsyncStep* step) {
  // Acquire and release: the last one sees the other's use of it.
  if (step->references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  begun_.Leave(*step);
  delete step;
}

/// Gives up the replay's variables, each with its mark.
void DependencyEngine::ReleaseMarked(Replay& replay, ReadyList& ready, Leftovers& leftovers,
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

/// All operations are over.
void DependencyEngine::EndReplay(Replay& replay, ReadyList& ready) {
  Execution* const execution = replay.execution;
  const size_t operations = replay.plan.size();
  const uint64_t skipped = replay.skipped.load(std::memory_order_relaxed);
  Leftovers leftovers;
  ReleaseMarked(replay, ready, leftovers, nullptr);
  if (!leftovers.empty()) {
    DispatchAll(ready);
    leftovers.Clear();
  }
  replay.SwapEdgeBuffer();
  execution->replay = nullptr;
  GiveExecution(execution);
  FinishInline(ready);
  // The reference that the replay has had of its own; the caller has another.
  replay.references.fetch_sub(1, std::memory_order_relaxed);
  // Both at the end, so that what counts as run never becomes less.
  if (skipped > 0) progress_.CountSkipped(skipped);
  progress_.CountComplete(operations);
}

/// In the place of a helper, for a replay that is over.
void DependencyEngine::DropJoin(Execution* join) {
  TESSERA_DCHECK(join->kind == ExecutionKind::kJoin && join->replay->unfinished.load() == 0);
  Replay& replay = *join->replay;
  replay.gate.Answer();
  ReadyList none;
  DropReplay(replay, none);
}

void DependencyEngine::DropReplay(Replay& replay, ReadyList& ready) {
  // Acquire and release: whoever takes the replay next sees everyone's last use of it.
  if (replay.references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  const std::unique_ptr<ReplayPool> last = ReplayPool::Give(std::unique_ptr<Replay>(&replay));
  // Of a schedule that is gone: what its functions have captured may wait for what is ready.
  if (last != nullptr) DispatchAll(ready);
}

FailureRef DependencyEngine::NewFailure(const Replay& replay, uint32_t index,
                                        std::exception_ptr error) noexcept {
  const RecordedPush& push = replay.plan.push(index);
  return failures_.Begin(std::move(error), push.display_name(), push.site,
                         replay.first_sequence + index);
}

void DependencyEngine::TraceRun(const Replay& replay, uint32_t index, int64_t begin_ns,
                                bool skipped) {
  TraceRun(replay.first_sequence + index, replay.plan.push(index).display_name(), begin_ns,
           skipped);
}

}  // namespace tessera::engine_internal
