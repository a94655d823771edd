#include "tessera/engine/core/progress.h"

#include <algorithm>
#include <utility>

#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {
namespace {

// Tries to read the counters between two completions: one does unless they follow each other as
// fast as they are read.
constexpr int kMaxCounterReads = 100;

}  // namespace

Progress::Progress(int64_t max_pending, const ForkWatch& watch, const StallReporter& stall,
                   std::function<bool()> is_stopped)
    : max_pending_(static_cast<uint64_t>(max_pending)),
      stall_(stall),
      is_stopped_(std::move(is_stopped)),
      idle_(watch),
      room_(watch) {
  if (max_pending > 0) throttle_at_ = max_pending_;
}

void Progress::CountComplete(uint64_t operations) {
  // Sequentially consistent throughout: pairs with waiters, who announce themselves and then look
  // at the count. It also carries what the operation did to a thread that waits for all.
  const uint64_t completed = completed_.fetch_add(operations) + operations;
  if (idle_waiters_.load() > 0 && completed == pushed_.count()) {
    std::lock_guard<std::mutex> hold(mutex_);
    idle_->notify_all();
  }
  if (completed >= wake_throttled_at_.load()) {
    std::lock_guard<std::mutex> hold(mutex_);
    wake_throttled_at_.store(UINT64_MAX);
    room_->notify_all();
  }
}

/// Holds a thread that works for no engine until fewer operations pend. A worker is never held: the
/// pending operations may need it.
void Progress::Throttle(uint64_t pushed) {
  // The next look at completed_ is due when the limit could be reached again.
  const auto has_room = [&] {
    const uint64_t completed = completed_.load();
    throttle_at_.store(completed + max_pending_, std::memory_order_relaxed);
    return pushed < completed + max_pending_;
  };
  if (has_room()) return;
  if (ThreadFrame::WorksForAnyEngine() || CompletionScope::IsOpen()) return;
  const uint64_t much = max_pending_ / 4;  // so that pushers wake seldom
  std::unique_lock<std::mutex> lock(mutex_);
  stall_.Sleep(*room_, lock, "a push waits for room",
               [&] { return HasMuchRoom(pushed, much) || is_stopped_(); });
  has_room();
}

/// Returns whether `free` more may pend after `pushed` pushes; if not, the thread is woken when
/// they may. Requires mutex_.
bool Progress::HasMuchRoom(uint64_t pushed, uint64_t free) {
  const uint64_t target = pushed - max_pending_ + free;
  // Announce, then look: pairs with CountComplete, which counts and then looks for the
  // announcement (both sequentially consistent), so one of the two sees the other.
  if (wake_throttled_at_.load() > target) wake_throttled_at_.store(target);
  return completed_.load() >= target;
}

void Progress::WakePushers() {
  std::lock_guard<std::mutex> hold(mutex_);
  room_->notify_all();
}

bool Progress::is_idle() const {
  // In this order: if they are equal, nothing pended when the first was read, as operations are
  // counted as pushed before they are counted as complete.
  const uint64_t completed = completed_.load();
  return completed == pushed_.count();
}

void Progress::AwaitIdle() {
  std::unique_lock<std::mutex> lock(mutex_);
  idle_waiters_.fetch_add(1);
  // Not asked again afterwards: others may push once more by the time that this thread has woken.
  stall_.Sleep(*idle_, lock, "a wait for all operations", [&] { return is_idle(); });
  idle_waiters_.fetch_sub(1);
}

EngineCounters Progress::counters() const {
  EngineCounters counters;
  // In this order: what is pushed is counted before it is skipped, and that before it is complete.
  // So this is at most what has run; of what was seen so far the most is the nearest. Again while
  // something is complete meanwhile: a thread that is held up in between would tell of more that
  // pend than ever did.
  uint64_t completed, skipped;
  int reads = 0;
  do {
    completed = completed_.load();
    skipped = skipped_.load();
    counters.pushed = pushed_.count();
  } while (completed_.load() != completed && ++reads < kMaxCounterReads);
  const uint64_t run = completed - std::min(completed, skipped);
  uint64_t most_run = most_run_.load();
  while (most_run < run && !most_run_.compare_exchange_weak(most_run, run)) {
  }
  // Another thread may have seen later counters.
  counters.run = std::min(std::max(most_run, run), completed);
  counters.skipped = completed - counters.run;
  counters.pending = counters.pushed - completed;
  return counters;
}

}  // namespace tessera::engine_internal
