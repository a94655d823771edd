#include "tessera/engine/internal/ready_queue.h"

#include <algorithm>

#include "tessera/engine/internal/replay.h"

namespace tessera::engine_internal {
namespace {

// How far PopDemanded looks. Whoever finds nothing sleeps, and others run what is there.
constexpr int kMaxLooks = 64;

// std::push_heap keeps the largest in front.
bool RunsLater(const Execution* a, const Execution* b) { return RunsBefore(*b, *a); }

}  // namespace

void ReadyQueue::Fifo::PushBack(Execution* execution) {
  execution->next = nullptr;
  execution->previous = tail_;
  (tail_ == nullptr ? head_ : tail_->next) = execution;
  tail_ = execution;
}

void ReadyQueue::Fifo::Remove(Execution* execution) {
  (execution->previous == nullptr ? head_ : execution->previous->next) = execution->next;
  (execution->next == nullptr ? tail_ : execution->next->previous) = execution->previous;
}

void ReadyQueue::Push(Execution* execution) {
  ++size_;
  if (execution->kind == ExecutionKind::kJoin) ++joins_;
  if (execution->demanded.load(std::memory_order_relaxed) != 0) {
    execution->place = QueuePlace::kUrgent;
    urgent_.PushBack(execution);
  } else if (execution->rank == 0) {
    execution->place = QueuePlace::kFifo;
    plain_.PushBack(execution);
  } else {
    execution->place = QueuePlace::kHeap;
    heap_.push_back(execution);
    std::push_heap(heap_.begin(), heap_.end(), RunsLater);
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
  } else if (!plain_.empty() && (heap_.empty() || heap_.front()->rank < 0)) {
    execution = plain_.front();
    plain_.Remove(execution);
  } else {
    std::pop_heap(heap_.begin(), heap_.end(), RunsLater);
    execution = heap_.back();
    heap_.pop_back();
  }
  if (execution->kind == ExecutionKind::kJoin) --joins_;
  execution->place = QueuePlace::kNone;
  execution->below = nullptr;
  UpdateBestRank();
  return execution;
}

Execution* ReadyQueue::FindDemanded(uint32_t token) const {
  Execution* execution = urgent_.front();
  for (int looks = 0; execution != nullptr && looks < kMaxLooks; ++looks) {
    if (execution->demanded.load(std::memory_order_relaxed) == token) return execution;
    execution = execution->next;
  }
  return nullptr;
}

/// Help for a replay that has become demanded since it was called.
Execution* ReadyQueue::FindDemandedJoin() const {
  if (joins_ == 0) return nullptr;
  const auto demanded = [](const Execution* execution) {
    return execution->kind == ExecutionKind::kJoin &&
           execution->replay->execution->demanded.load(std::memory_order_relaxed) != 0;
  };
  for (Execution* at = plain_.front(); at != nullptr; at = at->next) {
    if (demanded(at)) return at;
  }
  const auto found = std::find_if(heap_.begin(), heap_.end(), demanded);
  return found == heap_.end() ? nullptr : *found;
}

Execution* ReadyQueue::PopDemanded(uint32_t token) {
  Execution* const execution = FindDemanded(token);
  if (execution != nullptr) Remove(execution);
  return execution;
}

Execution* ReadyQueue::PopAnyDemanded() {
  Execution* const execution = urgent_.empty() ? FindDemandedJoin() : urgent_.front();
  if (execution != nullptr) Remove(execution);
  return execution;
}

/// Takes it out of whatever part it stands in.
void ReadyQueue::Remove(Execution* execution) {
  if (execution->place == QueuePlace::kUrgent) {
    urgent_.Remove(execution);
  } else if (execution->place == QueuePlace::kFifo) {
    plain_.Remove(execution);
  } else {
    heap_.erase(std::find(heap_.begin(), heap_.end(), execution));
    std::make_heap(heap_.begin(), heap_.end(), RunsLater);
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
  if (execution->demanded.load(std::memory_order_relaxed) == 0) return;
  Remove(execution);
  ++size_;
  if (execution->kind == ExecutionKind::kJoin) ++joins_;
  execution->place = QueuePlace::kUrgent;
  urgent_.PushBack(execution);
  UpdateBestRank();
}

void ReadyQueue::UpdateBestRank() {
  int64_t rank = kEmptyRank;
  if (!heap_.empty()) rank = heap_.front()->rank;
  if (!plain_.empty()) rank = std::max<int64_t>(rank, 0);
  if (!urgent_.empty()) rank = kUrgentRank;
  best_rank_.store(rank, std::memory_order_relaxed);
}

}  // namespace tessera::engine_internal
