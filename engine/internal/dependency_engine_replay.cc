// How DependencyEngine records schedules and replays them.

#include <algorithm>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "tessera/base/error.h"
#include "tessera/engine/internal/dependency_engine.h"
#include "tessera/engine/internal/recording.h"
#include "tessera/engine/internal/replay.h"
#include "tessera/engine/internal/schedule_plan.h"
#include "tessera/engine/internal/thread_frame.h"
#include "tessera/engine/schedule.h"

namespace tessera::engine_internal {
namespace {

constexpr uint32_t kNone = SchedulePlan::kNone;

// How often a visitor looks for an operation before it leaves; about 5 us, less than it takes to
// wake a thread.
constexpr int kIdleLooks = 100;

std::string_view DisplayName(const RecordedPush& push) {
  return push.op->name.empty() ? std::string_view("(unnamed)") : std::string_view(push.op->name);
}

}  // namespace

/// What Record returns.
class DependencyEngine::RecordedSchedule final : public Schedule {
 public:
  RecordedSchedule(DependencyEngine* engine, std::unique_ptr<const SchedulePlan> plan,
                   std::vector<DependencyVariable*> deleted)
      : engine_(engine),
        pool_(std::make_shared<ReplayPool>(std::move(plan))),
        deleted_(std::move(deleted)) {}

  ~RecordedSchedule() override {
    for (DependencyVariable* variable : deleted_) engine_->DeleteVariable(variable);
  }

  void Replay(const ReplayOptions& options, std::source_location site) override {
    engine_->SubmitReplay(*pool_, options, site);
  }
  size_t size() const override { return pool_->plan().size(); }
  std::string Describe() const override { return pool_->plan().Describe(); }
  std::string Graphviz() const override { return pool_->plan().Graphviz(); }

 private:
  DependencyEngine* const engine_;
  const std::shared_ptr<ReplayPool> pool_;
  const std::vector<DependencyVariable*> deleted_;
};

std::unique_ptr<Schedule> DependencyEngine::Record(const std::function<void()>& pushes,
                                                   const RecordOptions& options) {
  const std::string name(options.name.empty() ? "(unnamed)" : options.name);
  CheckAccepting(name);
  CheckNotRecording("Record");
  std::vector<RecordedPush> recorded;
  std::vector<DependencyVariable*> own, deleted;
  // Of a recording that fails nothing stays but what it asked to delete.
  absl::Cleanup give_back = [&] {
    for (DependencyVariable* variable : deleted) DeleteVariable(variable);
  };
  {
    Recording recording(id_);
    absl::Cleanup keep = [&] {
      own = recording.Own();
      recorded = std::move(recording.pushes);
      deleted = std::move(recording.deleted);
    };
    pushes();
  }
  auto plan = std::make_unique<const SchedulePlan>(name, options.slots, std::move(recorded), own);
  auto schedule = std::make_unique<RecordedSchedule>(this, std::move(plan), deleted);
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
  for (const Edge& edge : op->edges) {
    DependencyVariable& variable = *edge.variable();
    const bool deleted = std::find(recording.deleted.begin(), recording.deleted.end(), &variable) !=
                         recording.deleted.end();
    std::lock_guard<FutexLock> hold(variable.lock);
    if (variable.alive && !deleted) continue;
    throw InvalidArgument("Engine: operation \"", op->name, "\": ", variable.ToString(),
                          " was deleted; expected a living variable");
  }
  recording.pushes.push_back(std::move(push));
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
  if (plan.uses_devices() || ReplaysInOrder()) {
    std::move(give_replay).Cancel();
    PushOperations(std::shared_ptr<Replay>(
        replay.release(), [](Replay* over) { ReplayPool::Give(std::unique_ptr<Replay>(over)); }));
    return;
  }
  Execution* execution = TakeExecution(Device::Cpu(), FnProperty::kNormal, 0, site);
  execution->kind = ExecutionKind::kReplay;
  execution->rank = plan.highest_rank() + options.priority;
  absl::Cleanup give_execution = [&] { GiveExecution(execution); };
  execution->SetEdgeCount(replay->edges.size());
  std::transform(replay->edges.begin(), replay->edges.end(), execution->edges().begin(),
                 [](const SchedulePlan::VariableEdge& edge) { return edge.edge; });
  execution->name = plan.name();
  execution->replay = replay.get();
  replay->execution = execution;
  replay->Start();
  const int64_t pushed_ns = trace_.on() ? trace_.Now() : kNotTraced;
  // One reference for the trace, which is written when the replay may be over.
  if (pushed_ns != kNotTraced) replay->references.store(2, std::memory_order_relaxed);
  uint64_t sequence;
  const bool ready_now = Acquire(*execution, pushed_, &sequence, plan.size());
  // Nothing throws from here on.
  std::move(give_execution).Cancel();
  std::move(give_replay).Cancel();
  Replay& under_way = *replay.release();
  if (pushed_ns != kNotTraced) {
    TraceReplay(under_way, sequence, pushed_ns);
    DropReplay(under_way);
  }
  // For the bound on what pends a replay is one operation more: the others take no memory.
  AfterAcquire(execution, ready_now, sequence);
}

/// Sets the replay's edges. Throws if a variable is not there, or twice.
void DependencyEngine::BindVariables(Replay& replay,
                                     std::span<const VariableBinding> bindings) const {
  const SchedulePlan& plan = replay.plan;
  replay.edges = plan.edges();
  for (const VariableBinding& binding : bindings) {
    const DependencyVariable* recorded = Checked(binding.recorded, plan.name());
    const auto place = std::find_if(replay.edges.begin(), replay.edges.end(),
                                    [&](const SchedulePlan::VariableEdge& edge) {
                                      return plan.variables()[edge.variable].variable == recorded;
                                    });
    if (place == replay.edges.end()) {
      throw InvalidArgument("Schedule::Replay: \"", plan.name(), "\" does not use ",
                            recorded->ToString(), "; expected a variable of the recording");
    }
    place->edge = Edge(Checked(binding.actual, plan.name()), place->edge.access());
  }
  for (const SchedulePlan::VariableEdge& edge : replay.edges) {
    const SchedulePlan::VariableUse& use = plan.variables()[edge.variable];
    if (edge.edge.variable() != use.variable || use.variable->id == use.id) continue;
    throw InvalidArgument("Schedule::Replay: \"", plan.name(), "\": ", use.name,
                          " was deleted; expected a living variable");
  }
  if (bindings.empty()) return;
  SortByVariable(replay.edges);
  std::vector<Edge> edges;
  for (const SchedulePlan::VariableEdge& edge : replay.edges) edges.push_back(edge.edge);
  SortEdges(edges, plan.name());  // for its check
}

/// Pushes each operation by itself: what goes to streams must be on its variables alone.
void DependencyEngine::PushOperations(const std::shared_ptr<Replay>& replay) {
  const SchedulePlan& plan = replay->plan;
  std::vector<Variable*> actual;
  for (const SchedulePlan::VariableUse& use : plan.variables()) actual.push_back(use.variable);
  for (const SchedulePlan::VariableEdge& edge : replay->edges) {
    actual[edge.variable] = edge.edge.variable();
  }
  for (uint32_t i = 0; i < plan.size(); ++i) {
    const RecordedPush& push = plan.push(i);
    std::vector<Variable*> lists[3];  // reads, writes, updates
    for (const SchedulePlan::Use& use : plan.uses(i)) {
      lists[use.access == Access::kRead    ? 0
            : use.access == Access::kWrite ? 1
                                           : 2]
          .push_back(actual[use.variable]);
    }
    AnyFn fn;
    if (plan.operation(i).sync != nullptr) {
      fn = SyncFn([replay, i](RunContext context) {
        context.slots = replay->slots;
        (*replay->plan.operation(i).sync)(context);
      });
    } else {
      fn = AsyncFn([replay, i](RunContext context, OnComplete on_complete) {
        context.slots = replay->slots;
        std::get<AsyncFn>(replay->plan.push(i).op->fn)(context, std::move(on_complete));
      });
    }
    const int64_t priority =
        std::clamp<int64_t>(push.priority + replay->rank_offset, std::numeric_limits<int>::min(),
                            std::numeric_limits<int>::max());
    const PushOptions options = {.property = push.op->property,
                                 .priority = static_cast<int>(priority),
                                 .name = push.op->name,
                                 .updates = lists[2]};
    PushFunction(std::move(fn), push.device, lists[0], lists[1], options, push.site);
  }
}

/// Notes the operations of a replay as if each had been pushed.
void DependencyEngine::TraceReplay(const Replay& replay, uint64_t first_sequence,
                                   int64_t pushed_ns) {
  const SchedulePlan& plan = replay.plan;
  std::vector<uint64_t> ids;
  for (const SchedulePlan::VariableUse& use : plan.variables()) ids.push_back(use.id);
  for (const SchedulePlan::VariableEdge& edge : replay.edges) {
    ids[edge.variable] = edge.edge.variable()->id;
  }
  for (uint32_t i = 0; i < plan.size(); ++i) {
    TracedPush push;
    push.time_ns = pushed_ns;
    push.name = DisplayName(plan.push(i));
    push.site = plan.push(i).site;
    push.sequence = first_sequence + i;
    for (const SchedulePlan::Use& use : plan.uses(i)) {
      push.variables.emplace_back(ids[use.variable], use.access);
    }
    trace_.Add(std::move(push));
  }
}

/// The replay's turn has come on all its variables.
void DependencyEngine::BeginReplay(Execution* execution, ReadyList& ready) {
  Replay& replay = *execution->replay;
  replay.first_sequence = execution->sequence;
  const bool among_devices = uses_devices_.load(std::memory_order_relaxed);
  for (const SchedulePlan::VariableEdge& edge : replay.edges) {
    if (!edge.edge.input()) continue;
    DependencyVariable& variable = *edge.edge.variable();
    FailureRef failure = variable.failure;  // no lock: this edge is granted
    if (among_devices) {
      std::lock_guard<FutexLock> hold(variable.lock);
      const FenceRef fence = LastIssuedWrite(variable);
      if (failure == nullptr && fence != nullptr) failure = fence->failure;
    }
    if (failure == nullptr || failure->cleared.load(std::memory_order_relaxed)) continue;
    replay.marks[edge.variable] = std::move(failure);
    replay.failed.store(true, std::memory_order_relaxed);
  }
  replay.references.fetch_add(1, std::memory_order_relaxed);
  VisitReplay(replay, ready);
  DropReplay(replay);
}

/// Called help has come.
void DependencyEngine::JoinReplay(Execution* join, ReadyList& ready) {
  Replay& replay = *std::exchange(join->replay, nullptr);
  GiveExecution(join);
  // Acquire, and an exchange to take part in the order of those that call: this thread sees what
  // anyone had made ready who found help called already.
  replay.help_called.exchange(false, std::memory_order_acquire);
  VisitReplay(replay, ready);
  DropReplay(replay);
}

/// Sees to it that a thread comes for what is ready and nobody's, which has that rank.
void DependencyEngine::CallHelp(Replay& replay, int64_t rank) {
  // Release: pairs with the exchange in JoinReplay.
  if (replay.help_called.exchange(true, std::memory_order_release)) return;
  // Relaxed: the caller has a reference itself.
  replay.references.fetch_add(1, std::memory_order_relaxed);
  Execution* join = TakeExecution(Device::Cpu(), FnProperty::kNormal, 0, {});
  join->kind = ExecutionKind::kJoin;
  join->rank = rank;
  join->sequence = replay.first_sequence;
  join->replay = &replay;
  ReadyList ready;
  ready.PushBack(join);
  Dispatch(ready);
}

void DependencyEngine::VisitReplay(Replay& replay, ReadyList& ready) {
  VisitExecution visit;
  visit.replay_execution = replay.execution;
  visit.below = ThreadFrame::Current(id_);
  replay.visitors.fetch_add(1, std::memory_order_relaxed);
  bool last = false;
  {
    const ThreadFrame frame(id_, &visit);
    CallIsolated([&] { last = RunReady(replay, visit); });
  }
  replay.visitors.fetch_sub(1, std::memory_order_relaxed);
  if (last) EndReplay(replay, ready);
}

/// Runs operations of the replay until none is ready or something else should run first. Returns
/// whether this call has ended the replay.
bool DependencyEngine::RunReady(Replay& replay, VisitExecution& visit) {
  const SchedulePlan& plan = replay.plan;
  const int workers = num_workers();
  RunContext context{Device::Cpu(), nullptr, this, replay.slots};
  uint32_t next = kNone;
  int64_t done = 0;  // counted here at first, since all visitors share the replay's counter
  int looks = 0;
  for (;;) {
    if (next == kNone) next = replay.Take();
    if (next == kNone) {
      if (done > 0 && replay.Finish(std::exchange(done, 0))) return true;
      if (workers == 1 || ++looks > kIdleLooks || replay.unfinished.load() == 0) return false;
      SpinPause();
      continue;
    }
    looks = 0;
    if (MustYield(replay.RankOf(next))) {
      replay.PutBack(next);
      if (done > 0) replay.Finish(done);  // which is not the last
      CallHelp(replay, replay.RankOf(next));
      return false;
    }
    const auto call_help = [&, rank = replay.RankOf(next)](bool more) {
      // Relaxed: this thread will run it all the same if nobody comes.
      if (more && replay.visitors.load(std::memory_order_relaxed) < workers &&
          !replay.help_called.load(std::memory_order_relaxed)) {
        CallHelp(replay, rank);
      }
    };
    call_help(replay.HasRoots());
    const SchedulePlan::Operation& operation = plan.operation(next);
    visit.op = plan.push(next).op.get();
    context.device = plan.push(next).device;
    if (operation.sync == nullptr) {
      if (!CallStep(replay, next, context)) {
        ++done;
        next = kNone;
        continue;
      }
      ++done;  // the function's part: there is none
    } else if (replay.failed.load(std::memory_order_relaxed) || trace_.on()) {
      RunWatched(replay, next, context);
    } else {
      try {
        (*operation.sync)(context);
      } catch (...) {
        replay.Mark(next, NewFailure(replay, next, std::current_exception()));
      }
    }
    ++done;
    bool more;
    next = replay.Release(next, more);
    call_help(more);
  }
}

/// The error that the operation takes on from what it reads; or null.
FailureRef DependencyEngine::FailureOfInputs(const Replay& replay, uint32_t index) {
  if (!replay.failed.load(std::memory_order_relaxed)) return nullptr;
  if (replay.plan.push(index).op->property == FnProperty::kNoSkip) return nullptr;
  const FailureRef* earliest = nullptr;
  for (const SchedulePlan::Use& use : replay.plan.uses(index)) {
    if (use.access != Access::kWrite) Consider(replay.marks[use.variable], earliest);
  }
  return earliest == nullptr ? nullptr : Inherit(*earliest, replay.first_sequence + index);
}

/// Skips the operation because of what it reads, with its variables marked; or returns false.
bool DependencyEngine::Skip(Replay& replay, uint32_t index) {
  const FailureRef failure = FailureOfInputs(replay, index);
  if (failure == nullptr) return false;
  skipped_.fetch_add(1, std::memory_order_relaxed);
  replay.Mark(index, failure);
  if (trace_.on()) TraceRun(replay, index, trace_.Now(), /*skipped=*/true);
  return true;
}

/// Runs an operation where there are marks to look at or a trace to write.
void DependencyEngine::RunWatched(Replay& replay, uint32_t index, const RunContext& context) {
  if (Skip(replay, index)) return;
  const int64_t begin_ns = trace_.on() ? trace_.Now() : kNotTraced;
  FailureRef failure;
  try {
    (*replay.plan.operation(index).sync)(context);
  } catch (...) {
    failure = NewFailure(replay, index, std::current_exception());
  }
  replay.Mark(index, failure);
  if (begin_ns != kNotTraced) TraceRun(replay, index, begin_ns, /*skipped=*/false);
}

/// Calls an asynchronous operation's function. Returns true if the operation was skipped instead.
bool DependencyEngine::CallStep(Replay& replay, uint32_t index, const RunContext& context) {
  if (Skip(replay, index)) return true;
  auto* const step = new AsyncStep(&replay, index);
  CompletionListener* const listener = this;
  auto completion = std::make_shared<Completion>(listener, step);
  const int64_t begin_ns = trace_.on() ? trace_.Now() : kNotTraced;
  try {
    std::get<AsyncFn>(replay.plan.push(index).op->fn)(context, OnComplete(completion));
  } catch (...) {
    // If it was complete before it threw, the error marks no variable; WaitForAll reports it.
    if (!completion->TryComplete(std::current_exception())) {
      NewFailure(replay, index, std::current_exception());
    }
  }
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
    trace_.Add(TracedEnd{.sequence = step->sequence,
                         .end_ns = trace_.Now(),
                         .name = std::string(step->display_name())});
  }
  DropStep(step);
  if (failure != nullptr || replay.failed.load(std::memory_order_relaxed)) {
    replay.Mark(index, failure);
  }
  bool more;
  const uint32_t next = replay.Release(index, more);
  if (next != kNone) replay.PutBack(next);
  if (next != kNone || more) CallHelp(replay, replay.plan.highest_rank() + replay.rank_offset);
  // What is not over yet keeps the replay up to here.
  replay.references.fetch_add(1, std::memory_order_relaxed);
  if (replay.Finish(1)) EndReplay(replay, ready);
  DropReplay(replay);
}

void DependencyEngine::DropStep(AsyncStep* step) {
  // Acquire and release: the last one sees the other's use of it.
  if (step->references.fetch_sub(1, std::memory_order_acq_rel) == 1) delete step;
}

/// All operations are over: the replay gives up its variables.
void DependencyEngine::EndReplay(Replay& replay, ReadyList& ready) {
  Execution* const execution = replay.execution;
  const size_t operations = replay.plan.size();
  if (replay.failed.load(std::memory_order_relaxed)) {
    std::vector<FailureRef> failures;
    failures.reserve(replay.edges.size());
    for (const SchedulePlan::VariableEdge& edge : replay.edges) {
      failures.push_back(std::move(replay.marks[edge.variable]));
    }
    std::fill(replay.marks.begin(), replay.marks.end(), nullptr);
    ReleaseEach(*execution, failures, ready);
  } else {
    engine_internal::Release(*execution, nullptr, ready);
  }
  execution->replay = nullptr;
  GiveExecution(execution);
  FinishInline(ready);
  // The reference that the replay has had of its own; the caller has another.
  replay.references.fetch_sub(1, std::memory_order_relaxed);
  CountComplete(operations);
}

void DependencyEngine::DropReplay(Replay& replay) {
  // Acquire and release: whoever takes the replay next sees everyone's last use of it.
  if (replay.references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  ReplayPool::Give(std::unique_ptr<Replay>(&replay));
}

FailureRef DependencyEngine::NewFailure(const Replay& replay, uint32_t index,
                                        std::exception_ptr error) {
  const RecordedPush& push = replay.plan.push(index);
  return NewFailure(DisplayName(push), push.site, replay.first_sequence + index, std::move(error));
}

void DependencyEngine::TraceRun(const Replay& replay, uint32_t index, int64_t begin_ns,
                                bool skipped) {
  TraceRun(replay.first_sequence + index, DisplayName(replay.plan.push(index)), begin_ns, skipped);
}

}  // namespace tessera::engine_internal
