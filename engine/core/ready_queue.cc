#include "tessera/engine/core/ready_queue.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "tessera/engine/schedule/replay.h"

namespace tessera::engine_internal {
namespace {

/// Orders like RunsBefore, and definitely for any two: an order to search by.
bool StandsBefore(const Execution& a, const Execution& b) {
  if (a.rank != b.rank) return a.rank > b.rank;
  if (a.sequence != b.sequence) return a.sequence < b.sequence;
  return std::less<const Execution*>()(&a, &b);
}

/// The height of the execution in the tree. Addresses follow on each other, so they are mixed, as
/// at the end of MurmurHash3 (A. Appleby, 2011).
uint64_t HeightOf(const Execution* execution) {
  uint64_t bits = reinterpret_cast<uintptr_t>(execution);
  bits = (bits ^ (bits >> 33)) * 0xff51afd7ed558ccd;
  bits = (bits ^ (bits >> 33)) * 0xc4ceb9fe1a85ec53;
  return bits ^ (bits >> 33);
}

}  // namespace

void ReadyQueue::Fifo::PushBack(Execution* execution) {
  execution->next = nullptr;
  execution->previous = tail_;
  (tail_ == nullptr ? head_ : tail_->next) = execution;
  tail_ = execution;
  ++size_;
}

void ReadyQueue::Fifo::Remove(Execution* execution) {
  (execution->previous == nullptr ? head_ : execution->previous->next) = execution->next;
  (execution->next == nullptr ? tail_ : execution->next->previous) = execution->previous;
  --size_;
}

void ReadyQueue::Ranked::Insert(Execution* execution) {
  const uint64_t height = HeightOf(execution);
  Execution** place = &root_;
  while (*place != nullptr && HeightOf(*place) >= height) {
    place = StandsBefore(*execution, **place) ? &(*place)->previous : &(*place)->next;
  }
  // The rest goes to its two sides.
  Execution* rest = std::exchange(*place, execution);
  Execution** before = &execution->previous;
  Execution** after = &execution->next;
  while (rest != nullptr) {
    if (StandsBefore(*rest, *execution)) {
      *before = rest;
      before = &rest->next;
      rest = *before;
    } else {
      *after = rest;
      after = &rest->previous;
      rest = *after;
    }
  }
  *before = *after = nullptr;
}

void ReadyQueue::Ranked::Remove(Execution* execution) {
  Execution** place = &root_;
  while (*place != execution) {
    place = StandsBefore(*execution, **place) ? &(*place)->previous : &(*place)->next;
  }
  // Its two sides become one, in its place.
  Execution* before = execution->previous;
  Execution* after = execution->next;
  while (before != nullptr && after != nullptr) {
    if (HeightOf(before) >= HeightOf(after)) {
      *place = before;
      place = &before->next;
      before = *place;
    } else {
      *place = after;
      place = &after->previous;
      after = *place;
    }
  }
  *place = before != nullptr ? before : after;
}

Execution* ReadyQueue::Ranked::front() const {
  Execution* front = root_;
  while (front != nullptr && front->previous != nullptr) front = front->previous;
  return front;
}

void ReadyQueue::Push(Execution* execution) {
  ++size_;
  if (execution->kind == ExecutionKind::kJoin) ++joins_;
  if (execution->demanded.load(std::memory_order_relaxed)) {
    execution->place = QueuePlace::kUrgent;
    urgent_.PushBack(execution);
  } else if (execution->rank == 0) {
    execution->place = QueuePlace::kFifo;
    plain_.PushBack(execution);
  } else {
    execution->place = QueuePlace::kRanked;
    ranked_.Insert(execution);
  }
  UpdateBestRank();
}

Execution* ReadyQueue::Pop() {
  if (size_ == 0) return nullptr;
  --size_;
  Execution* execution;
  if (!urgent_.empty()) {
    execution = urgent_.front();
    urgent_.Remove(execution);
  } else if (!plain_.empty() && (ranked_.empty() || ranked_.front()->rank < 0)) {
    execution = plain_.front();
    plain_.Remove(execution);
  } else {
    execution = ranked_.front();
    ranked_.Remove(execution);
  }
  if (execution->kind == ExecutionKind::kJoin) --joins_;
  execution->place = QueuePlace::kNone;
  execution->below = nullptr;
  UpdateBestRank();
  return execution;
}

/// The join of a replay that has become demanded since it was requested.
Execution* ReadyQueue::FindDemandedJoin() const {
  if (joins_ == 0) return nullptr;
  const auto demanded = [](const Execution& execution) {
    return execution.kind == ExecutionKind::kJoin &&
           execution.replay->execution->demanded.load(std::memory_order_relaxed);
  };
  for (Execution* at = plain_.front(); at != nullptr; at = at->next) {
    if (demanded(*at)) return at;
  }
  return ranked_.Find(demanded);
}

Execution* ReadyQueue::PopDemanded() {
  Execution* const execution = urgent_.front();
  if (execution != nullptr) Remove(execution);
  return execution;
}

void ReadyQueue::PromoteJoins() {
  while (Execution* const join = FindDemandedJoin()) {
    join->demanded.store(true, std::memory_order_relaxed);
    Promote(join);
  }
}

/// Takes it out of whatever part it stands in.
void ReadyQueue::Remove(Execution* execution) {
  if (execution->place == QueuePlace::kUrgent) {
    urgent_.Remove(execution);
  } else if (execution->place == QueuePlace::kFifo) {
    plain_.Remove(execution);
  } else {
    ranked_.Remove(execution);
  }
  --size_;
  if (execution->kind == ExecutionKind::kJoin) --joins_;
  execution->place = QueuePlace::kNone;
  execution->below = nullptr;
  UpdateBestRank();
}

void ReadyQueue::Promote(Execution* execution) {
  if (execution->place == QueuePlace::kNone || execution->place == QueuePlace::kUrgent) return;
  // Complete since it was found, and another operation by now.
  if (!execution->demanded.load(std::memory_order_relaxed)) return;
  Remove(execution);
  ++size_;
  if (execution->kind == ExecutionKind::kJoin) ++joins_;
  execution->place = QueuePlace::kUrgent;
  urgent_.PushBack(execution);
  UpdateBestRank();
}

void ReadyQueue::UpdateBestRank() {
  int64_t rank = kEmptyRank;
  if (!ranked_.empty()) rank = ranked_.front()->rank;
  if (!plain_.empty()) rank = std::max<int64_t>(rank, 0);
  if (!urgent_.empty()) rank = kUrgentRank;
  best_rank_.store(rank, std::memory_order_relaxed);
}

}  // namespace tessera::engine_internal
