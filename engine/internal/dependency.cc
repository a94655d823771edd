#include "tessera/engine/internal/dependency.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "tessera/base/error.h"

namespace tessera::engine_internal {
namespace {

// Beyond this many queue entries DemandWhatBlocks stops looking: it is a hint, and not worth more.
constexpr int kMaxDemandVisits = 16384;

/// All edges' variables, locked in order of their addresses.
class LockAll {
 public:
  explicit LockAll(std::span<Edge> edges) : edges_(edges) {
    for (Edge& edge : edges_) edge.variable()->lock.lock();
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

/// The edge takes its turn, or its place in the queue: returns whether it was its turn.
/// Requires the variable's lock.
bool Enter(Edge& edge, Execution& execution) {
  DependencyVariable& variable = *edge.variable();
  edge.execution = &execution;
  edge.next = nullptr;
  if (edge.write()) variable.CountWrite();
  if (variable.head == nullptr && variable.writer == nullptr) {
    if (!edge.write()) {
      ++variable.readers;
      return true;
    }
    if (variable.readers == 0) {
      variable.writer = &execution;
      return true;
    }
  }
  (variable.head == nullptr ? variable.head : variable.tail->next) = &edge;
  variable.tail = &edge;
  return false;
}

/// Requires the variable's lock, as edges leave the queue only under it.
void Grant(DependencyVariable& variable, ReadyList& ready) {
  Edge* edge = variable.head;
  variable.head = edge->next;
  Execution* execution = edge->execution;
  if (edge->write()) {
    variable.writer = execution;
  } else {
    ++variable.readers;
  }
  // Release and acquire: whoever grants the last edge sees what those who granted the others did,
  // and what was done before by those whose turn it was.
  if (execution->blocked_edges.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    ready.PushBack(execution);
  }
}

/// Hands the variable to those at the head of its queue. Requires the variable's lock.
void GrantNext(DependencyVariable& variable, ReadyList& ready) {
  if (variable.head == nullptr) return;
  if (variable.head->write()) {
    if (variable.readers == 0) Grant(variable, ready);
    return;
  }
  while (variable.head != nullptr && !variable.head->write()) Grant(variable, ready);
}

Error DeletedVariable(const Execution& execution, const DependencyVariable& variable) {
  return InvalidArgument("Engine: operation \"", execution.display_name(),
                         "\": ", variable.ToString(), " was deleted; expected a living variable");
}

/// Appends to `blocked` those that wait on `variable` because of `execution`.
void AppendBlockedOn(Edge& own, std::vector<Execution*>& blocked) {
  DependencyVariable& variable = *own.variable();
  std::lock_guard<FutexLock> hold(variable.lock);
  Edge* place = variable.head;
  while (place != nullptr && place != &own) place = place->next;
  // Not in the queue means granted, and then the whole queue is behind it.
  Edge* behind = place == nullptr ? variable.head : place->next;
  if (place != nullptr && !own.write()) {
    // A queued read lets the reads right behind it go along.
    while (behind != nullptr && !behind->write()) behind = behind->next;
  }
  for (; behind != nullptr; behind = behind->next) blocked.push_back(behind->execution);
}

}  // namespace

void SortEdges(std::span<Edge> edges, std::string_view operation) {
  const auto by_variable = [](const Edge& a, const Edge& b) {
    return std::less<>()(a.variable(), b.variable());
  };
  std::sort(edges.begin(), edges.end(), by_variable);
  for (size_t i = 1; i < edges.size(); ++i) {
    if (edges[i - 1].variable() != edges[i].variable()) continue;
    const bool across = edges[i - 1].write() != edges[i].write();
    throw InvalidArgument("Engine: operation \"", operation,
                          "\": ", edges[i].variable()->ToString(),
                          across             ? " is both read and written"
                          : edges[i].write() ? " is written twice"
                                             : " is read twice",
                          "; expected each variable once (one that is updated in place counts as "
                          "written)");
  }
}

bool Acquire(Execution& execution, std::atomic<uint64_t>& sequence_counter) {
  const std::span<Edge> edges = execution.edges();
  const LockAll locked(edges);
  for (Edge& edge : edges) {
    if (!edge.variable()->alive) throw DeletedVariable(execution, *edge.variable());
  }
  if (execution.kind == ExecutionKind::kDelete) edges[0].variable()->alive = false;
  // Relaxed: under the locks of all variables, so it agrees with the order on each of them.
  execution.sequence = sequence_counter.fetch_add(1, std::memory_order_relaxed) + 1;
  int32_t blocked = 0;
  for (Edge& edge : edges) blocked += Enter(edge, execution) ? 0 : 1;
  // Relaxed: nobody can grant an edge before the locks are released, which publishes the count.
  execution.blocked_edges.store(blocked, std::memory_order_relaxed);
  return blocked == 0;
}

void Release(Execution& execution, const FailureRef& failure, ReadyList& ready) {
  for (Edge& edge : execution.edges()) {
    DependencyVariable& variable = *edge.variable();
    FailureRef previous;  // destroyed after the lock is released: it may run a user's destructor
    std::lock_guard<FutexLock> hold(variable.lock);
    if (edge.write()) {
      if (variable.failure != failure) {
        previous = std::move(variable.failure);
        variable.failure = failure;
      }
      variable.writer = nullptr;
      GrantNext(variable, ready);
    } else if (--variable.readers == 0) {
      GrantNext(variable, ready);
    }
  }
}

bool AcquireWait(WaitExecution& wait, DependencyVariable& variable) {
  std::lock_guard<FutexLock> hold(variable.lock);
  if (!variable.alive) {
    throw InvalidArgument("Engine: wait for ", variable.ToString(),
                          ", which was deleted; expected a living variable");
  }
  if (variable.head == nullptr && variable.writer == nullptr) {
    wait.failure = variable.failure;
    return false;
  }
  wait.SetEdgeCount(1);
  wait.inline_edges[0] = Edge(&variable, /*write=*/false);
  wait.blocked_edges.store(1, std::memory_order_relaxed);
  const bool granted = Enter(wait.inline_edges[0], wait);
  TESSERA_DCHECK(!granted);
  static_cast<void>(granted);
  return true;
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
    if (variable.tail == &own) variable.tail = before;
    return true;
  }
  return false;
}

bool NeedsItsOwner(WaitExecution& wait) {
  std::vector<Execution*> blocked = {wait.owner};
  absl::flat_hash_set<Execution*> seen;
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
    for (Edge& edge : execution->edges()) AppendBlockedOn(edge, blocked);
  }
  return false;
}

void DemandWhatBlocks(WaitExecution& wait, const std::function<void(Execution*)>& promote) {
  struct Place {
    DependencyVariable* variable;
    const Execution* execution;  // only compared: it may be complete and reused
  };
  std::vector<Place> places = {{wait.inline_edges[0].variable(), &wait}};
  absl::flat_hash_set<const Execution*> seen;
  std::vector<Execution*> holders;
  int visits = 0;
  while (!places.empty() && visits < kMaxDemandVisits) {
    const Place place = places.back();
    places.pop_back();
    DependencyVariable& variable = *place.variable;
    const auto demand = [&](Execution* execution) {
      if (!seen.insert(execution).second) return;
      execution->demanded.store(true, std::memory_order_relaxed);
      for (Edge& edge : execution->edges()) {
        if (edge.variable() != &variable) places.push_back({edge.variable(), execution});
      }
    };
    // The variable may be deleted by now: its memory and lock are still there, see RecordPool.
    // What stands in its queue or holds it cannot complete while the lock is held.
    std::lock_guard<FutexLock> hold(variable.lock);
    Edge* own = variable.head;
    for (; own != nullptr && own->execution != place.execution; own = own->next) ++visits;
    if (own == nullptr) continue;  // granted: nobody is before it
    for (Edge* edge = variable.head; edge != own; edge = edge->next) {
      if (edge->execution->kind == ExecutionKind::kOperation) demand(edge->execution);
    }
    if (variable.writer != nullptr && variable.writer->kind == ExecutionKind::kOperation) {
      demand(variable.writer);
      holders.push_back(variable.writer);
    }
  }
  for (Execution* holder : holders) promote(holder);
}

}  // namespace tessera::engine_internal
