#include "tessera/engine/schedule/replay.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "tessera/engine/core/scheduler.h"
#include "tessera/engine/core/variable_queue.h"

namespace tessera::engine_internal {

Replay::Replay(const SchedulePlan& schedule_plan, uint32_t stacks)
    : plan(schedule_plan),
      marks(plan.variables().size()),
      counters_(std::make_unique<Counter[]>(plan.size())),
      stacks_(static_cast<uint32_t>(plan.size()), stacks) {
  for (uint32_t i = 0; i < plan.size(); ++i) {
    counters_[i].all = plan.predecessors(i);
    counters_[i].waiting_for.store(counters_[i].all, std::memory_order_relaxed);
  }
  if (plan.has_ranks()) heap_.reserve(plan.size());
  edges.reserve(plan.edges().size());
  join.kind = ExecutionKind::kJoin;
  join.replay = this;
}

void Replay::Start() {
  // Relaxed: the ready queue's lock, or the one of a variable, publishes all of this.
  next_root_.store(0, std::memory_order_relaxed);
  unfinished.store(static_cast<int64_t>(plan.size()) + plan.asynchronous(),
                   std::memory_order_relaxed);
  failed.store(false, std::memory_order_relaxed);
  skipped.store(0, std::memory_order_relaxed);
  if (plan.has_ranks()) {
    heap_.clear();  // of a replay that could not begin
    for (const uint32_t root : plan.roots()) AddToHeap(root);
  }
}

uint32_t Replay::TakeRoot() {
  // Relaxed: roots depend on nothing but the beginning, which every visitor has seen. The look
  // before keeps the number from growing without end.
  if (!HasRoots()) return kNone;
  const uint32_t taken = next_root_.fetch_add(1, std::memory_order_relaxed);
  return taken < plan.roots().size() ? plan.roots()[taken] : kNone;
}

uint32_t Replay::Take(uint32_t stack) {
  if (plan.has_ranks()) {
    const auto later = [this](uint32_t a, uint32_t b) { return plan.Before(b, a); };
    std::lock_guard<FutexLock> hold(heap_lock_);
    if (heap_.empty()) return kNone;
    std::pop_heap(heap_.begin(), heap_.end(), later);
    const uint32_t best = heap_.back();
    heap_.pop_back();
    heap_size_.store(heap_.size());
    return best;
  }
  uint32_t taken = stacks_.Pop(stack);
  if (taken == kNone) taken = TakeRoot();
  for (uint32_t other = 0; taken == kNone && other < stacks_.stacks(); ++other) {
    taken = stacks_.Pop(other);
  }
  return taken;
}

void Replay::PutBack(uint32_t stack, uint32_t index) {
  if (plan.has_ranks()) {
    AddToHeap(index);
  } else {
    stacks_.Push(stack, index, index);
  }
}

void Replay::AddToHeap(uint32_t index) {
  const auto later = [this](uint32_t a, uint32_t b) { return plan.Before(b, a); };
  std::lock_guard<FutexLock> hold(heap_lock_);
  heap_.push_back(index);
  std::push_heap(heap_.begin(), heap_.end(), later);
  heap_size_.store(heap_.size());
}

uint32_t Replay::Release(uint32_t stack, uint32_t index) {
  uint32_t next = kNone, second = kNone, last = kNone;
  for (const uint32_t after : plan.successors(index)) {
    Counter& counter = counters_[after];
    if (counter.all > 1) {
      // Acquire and release: the thread that brings it to 0 sees the effects of all that it waited
      // for.
      if (counter.waiting_for.fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
      counter.waiting_for.store(counter.all, std::memory_order_relaxed);
    }
    if (plan.has_ranks()) {
      AddToHeap(after);
    } else if (next == kNone) {
      next = after;
    } else if (second == kNone) {
      second = last = after;
    } else {
      stacks_.Link(last, after);
      last = after;
    }
  }
  if (second != kNone) stacks_.Push(stack, second, last);
  return next;
}

void Replay::Mark(uint32_t index, const FailureRef& failure) {
  for (const SchedulePlan::Use& use : plan.uses(index)) {
    if (use.access != Access::kRead) marks[use.variable] = failure;
  }
  if (failure != nullptr) failed.store(true, std::memory_order_relaxed);
}

void RequestJoin(Replay& replay, int64_t rank, Scheduler& scheduler) {
  if (!replay.gate.Call()) return;
  // Relaxed: the caller has a reference itself.
  replay.references.fetch_add(1, std::memory_order_relaxed);
  // The last worker that joined has answered, hence done with it. It is the replay's own, so that
  // a thread that is about to wait needs no memory for its call.
  Execution* const join = &replay.join;
  join->rank = rank;
  // The join goes first if a wait needs the replay: InheritPriority knows the replay's execution
  // alone.
  join->demanded.store(replay.execution->demanded.load(std::memory_order_relaxed),
                       std::memory_order_relaxed);
  join->sequence = replay.first_sequence;
  ReadyList ready;
  ready.PushBack(join);
  scheduler.Dispatch(ready);
}

void SuspendVisit(Execution* current, Scheduler& scheduler) {
  if (current == nullptr || current->kind != ExecutionKind::kVisit) return;
  Replay& replay = *static_cast<VisitExecution*>(current)->visited;
  replay.gate.Suspend();
  if (replay.HasReady())
    RequestJoin(replay, replay.plan.highest_rank() + replay.rank_offset, scheduler);
}

void ResumeVisit(Execution* current) {
  if (current == nullptr || current->kind != ExecutionKind::kVisit) return;
  static_cast<VisitExecution*>(current)->visited->gate.Resume();
}

AsyncStep::AsyncStep(Replay* its_replay, uint32_t its_index) : of(its_replay), index(its_index) {
  const RecordedPush& push = of->plan.push(index);
  kind = ExecutionKind::kStep;
  op = push.op.get();
  site = push.site;
  device = push.device;
  sequence = of->first_sequence + index;
  references.store(2, std::memory_order_relaxed);  // the function's return and the completion
}

ReplayPool::~ReplayPool() {
  // One by one: each in its predecessor's destructor would take a stack as long as the list.
  while (idle_ != nullptr) idle_ = std::move(idle_->next);
}

std::unique_ptr<Replay> ReplayPool::Take() {
  std::unique_ptr<Replay> replay;
  {
    std::lock_guard<FutexLock> hold(lock_);
    replay = std::move(idle_);
    if (replay != nullptr) idle_ = std::move(replay->next);
  }
  if (replay == nullptr) replay = std::make_unique<Replay>(*plan_, stacks_);
  replay->pool = this;
  owners_.fetch_add(1, std::memory_order_relaxed);  // the caller has it
  replay->references.store(1, std::memory_order_relaxed);
  return replay;
}

std::unique_ptr<ReplayPool> ReplayPool::Give(std::unique_ptr<Replay> replay) {
  ReplayPool* const pool = replay->pool;
  {
    std::lock_guard<FutexLock> hold(pool->lock_);
    replay->next = std::move(pool->idle_);
    pool->idle_ = std::move(replay);
  }
  return Drop(pool);
}

std::unique_ptr<ReplayPool> ReplayPool::Drop(ReplayPool* pool) {
  // Acquire and release: the last one sees what all others did with it.
  const bool last = pool->owners_.fetch_sub(1, std::memory_order_acq_rel) == 1;
  return std::unique_ptr<ReplayPool>(last ? pool : nullptr);
}

}  // namespace tessera::engine_internal
