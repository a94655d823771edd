#ifndef TESSERA_ENGINE_CORE_BEGUN_LIST_H_
#define TESSERA_ENGINE_CORE_BEGUN_LIST_H_

#include <mutex>

#include "tessera/engine/core/execution.h"
#include "tessera/engine/core/futex_lock.h"

namespace tessera::engine_internal {

/// Executions that have begun, are not over and stand on no variable, so that people find them.
/// Takes no memory: the links are the first edge of an execution, which such a one does not need.
///
/// All calls may overlap, except those with the same execution. Under the lock nothing else is
/// locked.
class BegunList {
 public:
  /// Until Leave the execution must have no edges, and what `ForEach` reads of it must not change.
  void Enter(Execution& execution) {
    Edge& link = execution.inline_edges[0];
    link = Edge();
    link.execution = &execution;
    execution.begun = true;
    std::lock_guard<FutexLock> hold(lock_);
    link.next = first_;
    if (first_ != nullptr) first_->previous = &link;
    first_ = &link;
  }

  void Leave(Execution& execution) {
    Edge& link = execution.inline_edges[0];
    execution.begun = false;
    std::lock_guard<FutexLock> hold(lock_);
    (link.previous == nullptr ? first_ : link.previous->next) = link.next;
    if (link.next != nullptr) link.next->previous = link.previous;
  }

  /// Calls fn(execution) for each, the latest first. They cannot leave meanwhile.
  template <typename Fn>
  void ForEach(Fn&& fn) const {
    std::lock_guard<FutexLock> hold(lock_);
    for (const Edge* link = first_; link != nullptr; link = link->next) fn(*link->execution);
  }

 private:
  mutable FutexLock lock_;
  Edge* first_ = nullptr;  // guarded by lock_
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_CORE_BEGUN_LIST_H_
