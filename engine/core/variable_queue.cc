#include "tessera/engine/core/variable_queue.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tessera/base/error.h"
#include "tessera/engine/core/out_of_memory.h"
#include "tessera/engine/schedule/replay.h"

namespace tessera::engine_internal {
namespace {

/// Prefetches a later variable, so that its memory arrives while earlier ones are at work.
void FetchAhead(std::span<Edge> edges, size_t i) {
  constexpr size_t kAhead = 8;
  if (i + kAhead < edges.size()) __builtin_prefetch(edges[i + kAhead].variable(), /*rw=*/1);
}

/// All edges' variables, locked in order of their addresses.
class LockAll {
 public:
  explicit LockAll(std::span<Edge> edges) : edges_(edges) {
    for (size_t i = 0; i < edges_.size(); ++i) {
      FetchAhead(edges_, i);
      edges_[i].variable()->lock.lock();
    }
  }
  ~LockAll() {
    for (Edge& edge : edges_) edge.variable()->lock.unlock();
  }
  LockAll(const LockAll&) = delete;
  LockAll& operator=(const LockAll&) = delete;

 private:
  // The execution may begin to run as soon as one variable is unlocked, but it cannot complete and
  // take its edges along before it has locked each variable once more: the edges outlive the walk.
  std::span<Edge> edges_;
};

/// Returns whether its turn on all variables makes it run something.
bool IsWork(const Execution& execution) {
  return execution.kind == ExecutionKind::kOperation || execution.is_replay();
}

/// Requires the variable's lock, as does RemoveReader.
void AddReader(DependencyVariable& variable, Edge& edge) {
  edge.previous = nullptr;
  edge.next = variable.readers;
  if (edge.next != nullptr) edge.next->previous = &edge;
  variable.readers = &edge;
}

void RemoveReader(DependencyVariable& variable, Edge& edge) {
  (edge.previous == nullptr ? variable.readers : edge.previous->next) = edge.next;
  if (edge.next != nullptr) edge.next->previous = edge.previous;
}

/// The edge takes its turn, or its place in the queue: returns whether it was its turn.
/// Requires the variable's lock.
bool Enter(Edge& edge, Execution& execution) {
  DependencyVariable& variable = *edge.variable();
  edge.execution = &execution;
  edge.next = edge.previous = nullptr;
  if (edge.write()) variable.CountWrite();
  if (variable.head == nullptr && variable.writer == nullptr) {
    if (!edge.write()) {
      AddReader(variable, edge);
      return true;
    }
    if (variable.readers == nullptr) {
      variable.writer = &execution;
      return true;
    }
  }
  edge.previous = &edge;
  (variable.head == nullptr ? variable.head : variable.tail->next) = &edge;
  variable.tail = &edge;
  return false;
}

/// The execution takes its place on all its variables: returns whether it may run at once. Requires
/// their locks.
bool EnterAll(Execution& execution) {
  int32_t blocked = 0;
  for (Edge& edge : execution.edges()) blocked += Enter(edge, execution) ? 0 : 1;
  // Relaxed: nobody can grant an edge before the locks are released, which publishes the count.
  execution.blocked_edges.store(blocked, std::memory_order_relaxed);
  return blocked == 0;
}

/// Requires the variable's lock, as edges leave the queue only under it.
void Grant(DependencyVariable& variable, ReadyList& ready) {
  Edge* edge = variable.head;
  variable.head = edge->next;
  Execution* execution = edge->execution;
  if (edge->write()) {
    edge->previous = nullptr;
    variable.writer = execution;
  } else {
    AddReader(variable, *edge);
  }
  // Release and acquire: the thread that grants the last edge sees what those that granted the
  // others did, and what was done before by those whose turn it was.
  if (execution->blocked_edges.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    ready.PushBack(execution);
  }
}

/// The operation that has just used the variable is issued: the next one comes after `fence`.
/// Returns what is to be destroyed without the lock. Takes no memory after ReserveForFence.
/// Requires the variable's lock.
std::unique_ptr<DeviceUses> AddUse(DependencyVariable& variable, bool write,
                                   const FenceRef& fence) {
  if (write) {  // it comes after all of them itself
    std::unique_ptr<DeviceUses> past = std::move(variable.device_uses);
    variable.device_uses = std::move(past->after_write);
    variable.device_uses->write = fence;
    return past;
  }
  DeviceUses& uses = *variable.device_uses;
  for (FenceRef& read : uses.reads) {
    if (read->stream != fence->stream) continue;
    if (read->position < fence->position) read = fence;
    return nullptr;
  }
  uses.reads.push_back(fence);
  return nullptr;
}

/// Hands the variable to those at the head of its queue. Requires the variable's lock.
void GrantNext(DependencyVariable& variable, ReadyList& ready) {
  if (variable.head == nullptr) return;
  if (variable.head->write()) {
    if (variable.readers == nullptr) Grant(variable, ready);
    return;
  }
  while (variable.head != nullptr && !variable.head->write()) Grant(variable, ready);
}

/// Returns whether `a` counts, and comes before `b`, which may be null.
bool IsEarlierFailure(const FailureRef& a, const FailureRef& b) {
  if (a == nullptr || a->cleared.load(std::memory_order_relaxed)) return false;
  return b == nullptr || a->sequence < b->sequence;
}

Error DeletedVariable(std::string_view operation, const DependencyVariable& variable) {
  return InvalidArgument("Engine: operation \"", operation, "\": ", variable.ToString(),
                         " was deleted; expected a living variable");
}

std::string NamedTwice(Access a, Access b) {
  const auto participle = [](Access access) {
    return access == Access::kRead ? "read" : access == Access::kWrite ? "written" : "updated";
  };
  if (a == b) return absl::StrCat(participle(a), " twice");
  return absl::StrCat("both ", participle(std::min(a, b)), " and ", participle(std::max(a, b)));
}

void SortByVariable(std::span<Edge> edges) {
  std::sort(edges.begin(), edges.end(),
            [](const Edge& a, const Edge& b) { return std::less<>()(a.variable(), b.variable()); });
}

/// Sorts the edges, and leaves one for each variable. Returns their number.
size_t SortAndMerge(std::span<Edge> edges) {
  SortByVariable(edges);
  size_t count = 0;
  for (const Edge& edge : edges) {
    if (count == 0 || edges[count - 1].variable() != edge.variable()) {
      edges[count++] = edge;
    } else if (edges[count - 1].access() != edge.access()) {
      edges[count - 1] = Edge(edge.variable(), Access::kUpdate);
    }
  }
  return count;
}

// Sets of the standard library, here and in recordings: Abseil's cannot be destroyed after they
// have found no memory.

/// Which edges WouldDeadlock has come past.
struct Passed {
  std::unordered_set<const Edge*> appended;  ///< with all that are behind them
  std::unordered_set<const Edge*> followed;  ///< what they hold back has been appended
};

/// Appends to `blocked` those that wait on the edge's variable because of its execution, except
/// those that have been appended before.
void AppendBlockedOn(Edge& own, Passed& passed, std::vector<Execution*>& blocked) {
  DependencyVariable& variable = *own.variable();
  std::lock_guard<FutexLock> hold(variable.lock);
  if (own.execution == nullptr) return;  // it is released
  if (passed.appended.contains(&own) || !passed.followed.insert(&own).second) return;
  // Not in the queue means granted, and then the whole queue is behind it.
  Edge* behind = own.queued() ? own.next : variable.head;
  if (own.queued() && !own.write()) {
    // A queued read lets the reads right behind it go along; what they hold back it does too.
    for (; behind != nullptr && !behind->write(); behind = behind->next) {
      if (passed.appended.contains(behind) || !passed.followed.insert(behind).second) return;
    }
  }
  for (; behind != nullptr && passed.appended.insert(behind).second; behind = behind->next) {
    blocked.push_back(behind->execution);
  }
}

}  // namespace

DependencyVariable* Checked(Variable* variable, uint64_t engine_id, std::string_view operation) {
  if (variable == nullptr) {
    throw InvalidArgument("Engine: \"", operation,
                          "\": a variable is null; expected one from "
                          "NewVariable");
  }
  auto* own = static_cast<DependencyVariable*>(variable);
  if (own->engine_id != engine_id) {
    throw InvalidArgument("Engine: \"", operation, "\": ", own->ToString(),
                          " belongs to another engine");
  }
  return own;
}

void CheckAlive(DependencyVariable& variable, std::string_view operation) {
  std::lock_guard<FutexLock> hold(variable.lock);
  if (variable.alive) return;
  throw DeletedVariable(operation, variable);
}

void SortEdges(std::span<Edge> edges, std::string_view operation) {
  SortByVariable(edges);
  for (size_t i = 1; i < edges.size(); ++i) {
    if (edges[i - 1].variable() != edges[i].variable()) continue;
    throw InvalidArgument("Engine: operation \"", operation,
                          "\": ", edges[i].variable()->ToString(), " is ",
                          NamedTwice(edges[i - 1].access(), edges[i].access()),
                          "; expected each variable once, and what is read and written in place "
                          "among the updates alone");
  }
}

size_t FillEdges(std::span<Edge> edges, VariableList reads, VariableList writes,
                 const PushOptions& options, uint64_t engine_id, std::string_view operation) {
  Edge* edge = edges.data();
  const auto fill = [&](VariableList variables, Access access) {
    for (Variable* variable : variables)
      *edge++ = Edge(Checked(variable, engine_id, operation), access);
  };
  fill(reads, Access::kRead);
  fill(writes, Access::kWrite);
  fill(options.updates, Access::kUpdate);
  if (options.merge_duplicates) return SortAndMerge(edges);
  SortEdges(edges, operation);
  return edges.size();
}

bool Acquire(Execution& execution, PushCounter& pushes, uint64_t* sequence, uint64_t operations) {
  const std::span<Edge> edges = execution.edges();
  const LockAll locked(edges);
  for (size_t i = 0; i < edges.size(); ++i) {
    const DependencyVariable& variable = *edges[i].variable();
    if (variable.alive && (!execution.has_op() || execution.op->variable_ids[i] == variable.id)) {
      continue;
    }
    throw DeletedVariable(execution.display_name(), variable);
  }
  // Under the locks of all variables, so it agrees with the order on each of them.
  const uint64_t first = pushes.Take(operations);
  if (first == 0) throw PushedAfterShutdown(execution.display_name());
  execution.sequence = first;
  if (sequence != nullptr) *sequence = first;
  return EnterAll(execution);
}

uint64_t AcquireTogether(std::span<Edge> variables, std::span<Execution* const> executions,
                         std::string_view operation, PushCounter& pushes, ReadyList& ready) {
  const LockAll locked(variables);
  for (const Edge& edge : variables) {
    if (!edge.variable()->alive) throw DeletedVariable(operation, *edge.variable());
  }
  const uint64_t first = pushes.Take(executions.size());
  if (first == 0) throw PushedAfterShutdown(operation);
  for (size_t i = 0; i < executions.size(); ++i) {
    executions[i]->sequence = first + i;
    if (EnterAll(*executions[i])) ready.PushBack(executions[i]);
  }
  return first;
}

Error PushedAfterShutdown(std::string_view operation) {
  return FailedPrecondition("Engine: operation \"", operation,
                            "\" was pushed after Shutdown; expected a running engine");
}

bool AcquireDeletion(Execution& execution, uint64_t id, bool* ready_now) {
  Edge& edge = execution.edges()[0];
  DependencyVariable& variable = *edge.variable();
  std::lock_guard<FutexLock> hold(variable.lock);
  if (!variable.alive || variable.id != id) return false;
  variable.alive = false;
  *ready_now = Enter(edge, execution);
  // Relaxed: as in EnterAll.
  execution.blocked_edges.store(*ready_now ? 0 : 1, std::memory_order_relaxed);
  return true;
}

void ReserveForFence(Execution& execution, int stream) {
  for (Edge& edge : execution.edges()) {
    DependencyVariable& variable = *edge.variable();
    // Other readers, whose turn it is as well, may be adding their fences.
    std::lock_guard<FutexLock> hold(variable.lock);
    if (variable.device_uses == nullptr) variable.device_uses = std::make_unique<DeviceUses>();
    DeviceUses& uses = *variable.device_uses;
    if (!edge.write()) {
      // Room for all streams with lower numbers too, which may come in between.
      uses.reads.reserve(static_cast<size_t>(stream) + 1);
    } else if (uses.after_write == nullptr) {
      uses.after_write = std::make_unique<DeviceUses>();
    }
  }
}

void Leftovers::Keep(Replaced replaced) noexcept {
  if (replaced.empty()) return;
  OrTerminate([&] { kept_.push_back(std::move(replaced)); });
}

void Release(Execution& execution, const FailureRef& failure, ReadyList& ready,
             Leftovers& leftovers, const FenceRef& fence) {
  const size_t count = execution.edges().size();
  for (size_t i = 0; i < count; ++i) {
    leftovers.Keep(ReleaseOne(execution, i, failure, ready, fence));
  }
}

Replaced ReleaseOne(Execution& execution, size_t i, const FailureRef& failure, ReadyList& ready,
                    const FenceRef& fence) {
  FetchAhead(execution.edges(), i);
  Edge& edge = execution.edges()[i];
  DependencyVariable& variable = *edge.variable();
  Replaced replaced;
  std::lock_guard<FutexLock> hold(variable.lock);
  const bool on_device = edge.execution->on_device();
  edge.execution = nullptr;  // from here on it holds nobody back
  if (fence != nullptr) {
    replaced.device_uses = AddUse(variable, edge.write(), fence);
  } else if (edge.write() && !on_device && variable.device_uses != nullptr) {
    replaced.device_uses = std::move(variable.device_uses);  // the host has come after all of these
  }
  if (!edge.write()) {
    RemoveReader(variable, edge);
    if (variable.readers == nullptr) GrantNext(variable, ready);
    return replaced;
  }
  if (variable.failure != failure) {
    replaced.failure = std::move(variable.failure);
    variable.failure = failure;
  }
  variable.writer = nullptr;
  GrantNext(variable, ready);
  return replaced;
}

IssuedBefore FencesBefore(Execution& execution) {
  IssuedBefore before;
  for (Edge& edge : execution.edges()) {
    DependencyVariable& variable = *edge.variable();
    // Other readers, whose turn it is as well, may be adding their fences.
    std::lock_guard<FutexLock> hold(variable.lock);
    if (variable.device_uses == nullptr) continue;
    const FenceRef& write = variable.device_uses->write;
    if (write != nullptr && !write->done.load()) {
      before.pending.push_back(write);
      if (edge.input()) before.inputs.push_back(write);
    } else if (write != nullptr && edge.input() &&
               IsEarlierFailure(write->failure, before.failure)) {
      before.failure = write->failure;
    }
    if (!edge.write()) continue;
    for (const FenceRef& read : variable.device_uses->reads) {
      if (!read->done.load()) before.pending.push_back(read);
    }
  }
  return before;
}

FenceRef LastIssuedWrite(const DependencyVariable& variable) {
  return variable.device_uses == nullptr ? nullptr : variable.device_uses->write;
}

bool IsUnused(const DependencyVariable& variable) {
  if (variable.readers != nullptr || variable.writer != nullptr || variable.head != nullptr) {
    return false;
  }
  if (variable.device_uses == nullptr) return true;
  const auto is_done = [](const FenceRef& fence) { return fence == nullptr || fence->done.load(); };
  const DeviceUses& uses = *variable.device_uses;
  return is_done(uses.write) && std::all_of(uses.reads.begin(), uses.reads.end(), is_done);
}

bool WasWholeAtFork(DependencyVariable& variable) {
  std::unique_lock<FutexLock> lock(variable.lock, std::try_to_lock);
  // Threads of this process hold it for moments only.
  for (int looks = 0; looks < 1000 && !lock.owns_lock(); ++looks) {
    std::this_thread::yield();
    static_cast<void>(lock.try_lock());
  }
  // The first in a queue is a write, or stands behind one that runs.
  if (!lock.owns_lock() || variable.writer != nullptr || variable.head != nullptr) return false;
  const FenceRef write = LastIssuedWrite(variable);
  return write == nullptr || write->done.load();
}

bool AcquireWait(WaitExecution& wait, DependencyVariable& variable) {
  std::lock_guard<FutexLock> hold(variable.lock);
  if (!variable.alive) {
    throw InvalidArgument("Engine: wait for ", variable.ToString(),
                          ", which was deleted; expected a living variable");
  }
  if (variable.head == nullptr && variable.writer == nullptr) {
    wait.failure = variable.failure;
    wait.fence = LastIssuedWrite(variable);
    return false;
  }
  wait.SetEdgeCount(1);
  wait.inline_edges[0] = Edge(&variable, Access::kRead);
  wait.blocked_edges.store(1, std::memory_order_relaxed);
  const bool granted = Enter(wait.inline_edges[0], wait);
  TESSERA_DCHECK(!granted);
  static_cast<void>(granted);
  return true;
}

bool AwaitedWriteRuns(WaitExecution& wait) {
  Edge& own = wait.inline_edges[0];
  DependencyVariable& variable = *own.variable();
  std::lock_guard<FutexLock> hold(variable.lock);
  if (!own.queued()) return true;
  for (Edge* edge = variable.head; edge != &own; edge = edge->next) {
    if (edge->write()) return false;
  }
  // Relaxed: seen late, the wait throws where the write has just begun.
  return variable.writer != nullptr && variable.writer->running.load(std::memory_order_relaxed);
}

bool CancelWait(WaitExecution& wait) {
  Edge& own = wait.inline_edges[0];
  DependencyVariable& variable = *own.variable();
  std::lock_guard<FutexLock> hold(variable.lock);
  Edge* before = nullptr;
  for (Edge* edge = variable.head; edge != nullptr; before = edge, edge = edge->next) {
    if (edge != &own) continue;
    // Nobody gets a turn by its leaving: a read is the first in the queue only behind a writer.
    (before == nullptr ? variable.head : before->next) = own.next;
    own.previous = nullptr;
    if (variable.tail == &own) variable.tail = before;
    return true;
  }
  return false;
}

bool WouldDeadlock(WaitExecution& wait) {
  std::vector<Execution*> blocked = {wait.owner};
  std::unordered_set<Execution*> seen;
  Passed passed;
  while (!blocked.empty()) {
    Execution* execution = blocked.back();
    blocked.pop_back();
    if (execution == nullptr || !seen.insert(execution).second) continue;
    if (execution == &wait) return true;
    if (execution->kind == ExecutionKind::kWait) {
      blocked.push_back(static_cast<WaitExecution*>(execution)->owner);
      continue;
    }
    blocked.push_back(execution->below);
    if (execution->kind == ExecutionKind::kVisit) {
      blocked.push_back(static_cast<VisitExecution*>(execution)->replay_execution);
    }
    for (Edge& edge : execution->edges()) AppendBlockedOn(edge, passed, blocked);
  }
  return false;
}

void InheritPriority(WaitExecution& wait, int64_t max_visits,
                     const std::function<void(Execution*)>& promote) {
  struct Place {
    DependencyVariable* variable;
    const Execution* execution;  // only compared: it may be complete and reused
    uint64_t sequence;
    bool operator<(const Place& other) const { return sequence < other.sequence; }
  };
  // A heap of the latest: what comes to it later was pushed before.
  std::vector<Place> places = {{wait.inline_edges[0].variable(), &wait, UINT64_MAX}};
  std::unordered_set<const Execution*> seen;
  // Executions before one of these in the variable's queue are demanded already. A queue is walked
  // once, since its last one comes first.
  std::set<std::pair<const DependencyVariable*, const Execution*>> passed;
  std::vector<Execution*> holders;
  int64_t visits = 0;
  while (!places.empty() && visits < max_visits) {
    std::pop_heap(places.begin(), places.end());
    const Place place = places.back();
    places.pop_back();
    if (passed.contains({place.variable, place.execution})) continue;
    DependencyVariable& variable = *place.variable;
    const auto demand = [&](Execution* execution) {
      if (!seen.insert(execution).second) return;
      execution->demanded.store(true, std::memory_order_relaxed);
      for (Edge& edge : execution->edges()) {
        if (edge.variable() == &variable) continue;
        places.push_back({edge.variable(), execution, execution->sequence});
        std::push_heap(places.begin(), places.end());
      }
    };
    // The variable may be deleted by now: its memory and lock are still there, see RecordPool.
    // Executions in its queue, and those that hold it, cannot complete while the lock is held.
    std::lock_guard<FutexLock> hold(variable.lock);
    Edge* own = variable.head;
    for (; own != nullptr && own->execution != place.execution; own = own->next) ++visits;
    if (own == nullptr) continue;  // granted: nobody is before it
    for (Edge* edge = variable.head; edge != own; edge = edge->next) {
      passed.insert({&variable, edge->execution});
      if (IsWork(*edge->execution)) demand(edge->execution);
    }
    const auto demand_holder = [&](Execution* holder) {
      if (!IsWork(*holder)) return;
      demand(holder);
      holders.push_back(holder);
    };
    if (variable.writer != nullptr) {
      demand_holder(variable.writer);
    } else {
      for (Edge* reader = variable.readers; reader != nullptr; reader = reader->next, ++visits) {
        demand_holder(reader->execution);
      }
    }
  }
  for (Execution* holder : holders) promote(holder);
}

}  // namespace tessera::engine_internal
