// How pushes wait where as much pends as may.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "tessera/engine/core/dependency.h"
#include "tessera/engine/core/dependency_engine.h"
#include "tessera/engine/observe/stall_clock.h"
#include "tessera/engine/workers/lent_places.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view kAwaitsRoom = "a push waits for room";
// From so many operations on that wait for room others run what is ready instead.
constexpr size_t kManyRoomWaiters = 16;
// How many operations a thread runs on top of others that push more than the bound: a family of
// them would else pile up on one stack.
constexpr int kMaxPushHelpDepth = 16;
// How long a push inside an operation sleeps before it counts anew what waits for it: twice as long
// each time.
constexpr milliseconds kShortestSleep{1};
constexpr milliseconds kLongestSleep{64};
// When nothing has been complete for so long the push does not wait any more: what pends may wait
// for its operation by means that the engine does not know. Each time twice as many of the next
// pushes go on as well, up to max_pending of them or to this number, whichever is greater.
constexpr std::chrono::seconds kHopelessTime{1};
constexpr uint64_t kHopelessPushes = 64;
// To count what is held back takes a look at each such operation. So it is done anew only where
// this part of their number has been pushed or completed since, and else so many times as rarely as
// it takes time. So many more may pend as well, since whoever pushes behind itself cannot be
// counted at each push.
constexpr uint64_t kUncountedPart = 2;
constexpr int kCountPause = 20;

thread_local int push_help_depth = 0;

}  // namespace

void DependencyEngine::Throttle(uint64_t pushed) {
  const auto limit = static_cast<uint64_t>(options_.max_pending);
  // The next look at completed_ is due when the limit could be reached again.
  const auto has_room = [&] {
    const uint64_t completed = completed_.load();
    throttle_at_.store(completed + limit, std::memory_order_relaxed);
    return pushed < completed + limit;
  };
  if (has_room()) return;
  // What pends may need this thread to complete it.
  if (CompletionScope::IsOpen()) return;
  // A piece of an operation's loop: whatever ran on top of it could wait for that operation, and
  // nobody would know.
  if (ThreadFrame::IsWorker(id_) && !ThreadFrame::HasFrame(id_)) return;
  // In an operation of another engine, or at a piece of its loop, which what pends may need, by a
  // wait for that engine.
  if (ThreadFrame::InOperationOfOther(id_) || AtPiece()) return;
  if (ThreadFrame::Inside(id_)) return AwaitRoomInside(pushed);
  const uint64_t much = limit / 4;  // so that pushers wake seldom
  LentPlaces lent(this, &idle_mutex_, &*room_condition_);
  std::unique_lock<std::mutex> lock(idle_mutex_);
  WaitOn(*room_condition_, lock, lent, kAwaitsRoom, Instead::kAnything,
         [&] { return HasMuchRoom(pushed, much) || stopped_.load() || lent.process_ends(); });
  has_room();
}

/// Whether so much of the room is free for who has pushed so many; if not, they are woken when it
/// is. Requires idle_mutex_.
bool DependencyEngine::HasMuchRoom(uint64_t pushed, uint64_t free) {
  const uint64_t target = pushed - static_cast<uint64_t>(options_.max_pending) + free;
  // Announce, then look: pairs with CountComplete, which counts and then looks for the
  // announcement (both sequentially consistent), so one of the two sees the other.
  if (wake_throttled_at_.load() > target) wake_throttled_at_.store(target);
  return completed_.load() >= target;
}

/// Throttle's wait in an operation or in Execute. What cannot complete before this operation goes
/// on, or others that wait here, is not bounded: so nobody waits for itself. Meanwhile another
/// thread works in this one's place.
void DependencyEngine::AwaitRoomInside(uint64_t pushed) {
  uint64_t& free_until = ThreadFrame::InnermostOf(id_)->free_until();
  if (pushed < free_until || pushed < hopeless_until_.load(std::memory_order_relaxed)) return;
  const PlaceTakenBack place_taken_back(this);
  Execution* const current = ThreadFrame::Current(id_);
  SuspendVisit(current);  // others run what is ready in it
  const absl::Cleanup resume = [&] { ResumeVisit(current); };
  if (!EnterRoomWaiters(current)) return;
  const absl::Cleanup leave = [&] { LeaveRoomWaiters(current); };
  const auto limit = static_cast<uint64_t>(options_.max_pending);
  StallClock stall(options_.stall_report_ms);
  milliseconds sleep = kShortestSleep;
  uint64_t completed = completed_.load();
  Clock::time_point hopeless_at = Clock::now() + kHopelessTime;
  while (!stopped_.load()) {
    if (stall.TakeDue()) ReportStall(kAwaitsRoom, /*waiter=*/nullptr);
    // Each that sleeps may cost a thread. And they may be a family of which each pushes others: a
    // place for one more would only bring more of them to wait.
    if (many_await_room_.load(std::memory_order_relaxed) &&
        (TryHelp() || queue_.best_rank() != ReadyQueue::kEmptyRank)) {
      return;
    }
    const uint64_t beside = CountHeldBack();
    const auto is_free = [&] {
      free_until = completed_.load() + limit + beside;
      return pushed < free_until;
    };
    if (is_free() || !SleepForRoom(pushed - beside, sleep) || is_free()) return;
    const Clock::time_point now = Clock::now();
    if (std::exchange(completed, completed_.load()) != completed) hopeless_at = now + kHopelessTime;
    if (now >= hopeless_at) return LetHopelessPass(pushed);
    sleep = std::min(2 * sleep, kLongestSleep);
  }
}

/// Nothing has made room for that push: it goes on, and more of the next ones each time.
void DependencyEngine::LetHopelessPass(uint64_t pushed) {
  const uint64_t most = std::max(kHopelessPushes, static_cast<uint64_t>(options_.max_pending));
  std::lock_guard<std::mutex> hold(wait_graph_mutex_);
  const uint64_t completed = completed_.load();
  const bool again = std::exchange(hopeless_at_, completed) == completed;
  hopeless_pushes_ = again ? std::min(2 * hopeless_pushes_, most) : 1;
  hopeless_until_.store(std::max(hopeless_until_.load(), pushed + 1 + hopeless_pushes_));
}

/// Runs one ready operation: the oldest, for with the newest those before it would have no turn
/// while others push. Returns false if there is none, or this thread has run too many on top of
/// each other.
bool DependencyEngine::TryHelp() {
  if (push_help_depth >= kMaxPushHelpDepth) return false;
  ++push_help_depth;
  const bool ran = TryRunOne();
  --push_help_depth;
  return ran;
}

/// Sleeps so long, or until there is room. Where there is no thread for this one's place it runs
/// something first. Returns false if the process ends.
bool DependencyEngine::SleepForRoom(uint64_t pushed, milliseconds time) {
  const bool lent = LendPlace(Lender::kWait);
  const absl::Cleanup take_back = [&] {
    if (lent) TakeBackPlace(Lender::kWait);
  };
  if (!lent && TryHelp()) return true;
  const auto limit = static_cast<uint64_t>(options_.max_pending);
  const uint64_t much = std::max<uint64_t>(limit / 4, 1);  // that of AwaitRoomInside at least
  const LentPlaces others(this, &idle_mutex_, &*room_condition_);
  std::unique_lock<std::mutex> lock(idle_mutex_);
  room_condition_->wait_for(lock, time, [&] {
    return HasMuchRoom(pushed, much) || stopped_.load() || others.process_ends();
  });
  return !others.process_ends();
}

/// Takes the calling thread's operation, null in Execute, among those that wait for room. Returns
/// false where there is no memory for it.
bool DependencyEngine::EnterRoomWaiters(Execution* current) noexcept {
  std::lock_guard<std::mutex> hold(wait_graph_mutex_);
  try {
    if (current != nullptr) room_waiters_.push_back(current);
  } catch (const std::bad_alloc&) {
    return false;
  }
  many_await_room_.store(room_waiters_.size() >= kManyRoomWaiters, std::memory_order_relaxed);
  return true;
}

/// How many operations may pend beside the bound: those that cannot complete before the operations
/// go on that wait for room, as they were counted last, and a part of that more. All that pend
/// where that is not to be known, or there is no memory to count.
uint64_t DependencyEngine::CountHeldBack() noexcept {
  std::lock_guard<std::mutex> hold(wait_graph_mutex_);
  const Clock::time_point begin = Clock::now();
  const uint64_t completed = completed_.load();
  const uint64_t pushed = pushed_.count();
  const uint64_t happened = pushed + completed;
  if (happened - held_back_at_ >= held_back_ / kUncountedPart || begin >= count_held_back_at_) {
    std::optional<uint64_t> count;
    try {
      count = CountBlocked(room_waiters_);
    } catch (const std::bad_alloc&) {
    }
    held_back_ = count.value_or(pushed - completed);
    held_back_at_ = happened;
    const Clock::time_point end = Clock::now();
    count_held_back_at_ =
        end + std::min<Clock::duration>(kCountPause * (end - begin), kHopelessTime / 2);
  }
  return held_back_ + held_back_ / kUncountedPart;
}

void DependencyEngine::LeaveRoomWaiters(Execution* current) {
  std::lock_guard<std::mutex> hold(wait_graph_mutex_);
  const auto found = std::find(room_waiters_.begin(), room_waiters_.end(), current);
  if (found != room_waiters_.end()) room_waiters_.erase(found);
  many_await_room_.store(room_waiters_.size() >= kManyRoomWaiters, std::memory_order_relaxed);
}

}  // namespace tessera::engine_internal
