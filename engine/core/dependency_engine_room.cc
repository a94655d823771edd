// Back-pressure: pushes wait while as many operations pend as may.

#include <atomic>
#include <cstdint>
#include <mutex>

#include "tessera/engine/core/dependency_engine.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {

/// Holds a thread that works for no engine until fewer operations pend. A worker is never held:
/// what pends may need it.
void DependencyEngine::Throttle(uint64_t pushed) {
  const auto limit = static_cast<uint64_t>(options_.max_pending);
  // The next look at completed_ is due when the limit could be reached again.
  const auto has_room = [&] {
    const uint64_t completed = completed_.load();
    throttle_at_.store(completed + limit, std::memory_order_relaxed);
    return pushed < completed + limit;
  };
  if (has_room()) return;
  if (ThreadFrame::WorksForAnyEngine() || CompletionScope::IsOpen()) return;
  const uint64_t much = limit / 4;  // so that pushers wake seldom
  std::unique_lock<std::mutex> lock(idle_mutex_);
  stall_.Sleep(*room_condition_, lock, "a push waits for room",
               [&] { return HasMuchRoom(pushed, much) || scheduler_->stopped(); });
  has_room();
}

/// Whether so much of the room is free for a thread that has pushed so many; if not, it is woken
/// when it is. Requires idle_mutex_.
bool DependencyEngine::HasMuchRoom(uint64_t pushed, uint64_t free) {
  const uint64_t target = pushed - static_cast<uint64_t>(options_.max_pending) + free;
  // Announce, then look: pairs with CountComplete, which counts and then looks for the
  // announcement (both sequentially consistent), so one of the two sees the other.
  if (wake_throttled_at_.load() > target) wake_throttled_at_.store(target);
  return completed_.load() >= target;
}

}  // namespace tessera::engine_internal
