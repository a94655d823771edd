#include "tessera/engine/workers/spare_threads.h"

#include <exception>
#include <optional>
#include <utility>

#include "tbb/task_arena.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {

SpareThreads::SpareThreads(ArenaPool& arenas, uint64_t engine_id, std::function<void()> run)
    : arenas_(arenas), engine_id_(engine_id), run_(std::move(run)) {}

SpareThreads::~SpareThreads() {
  {
    std::lock_guard<std::mutex> hold(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  // From here on none leaves.
  for (auto* const threads : {&threads_, &last_left_}) {
    for (std::thread& thread : *threads) thread.join();
  }
}

int SpareThreads::Start(int count) {
  std::lock_guard<std::mutex> hold(mutex_);
  for (int started = 0; started < count; ++started) {
    try {
      if (calls_ >= idle_) AddThread();
    } catch (const std::exception&) {  // no thread, or no memory for it
      return started;
    }
    ++calls_;
    changed_.notify_one();
  }
  return count;
}

/// Requires mutex_. Throws where there is no thread, or no memory.
void SpareThreads::AddThread() {
  std::list<std::thread> added(1);
  const Thread own = added.begin();
  *own = std::thread([this, own] { ThreadLoop(own); });
  threads_.splice(threads_.end(), added);
}

void SpareThreads::ThreadLoop(Thread own) {
  std::optional<ArenaPool::Lease> lease;
  try {
    lease.emplace(arenas_);
  } catch (const std::exception&) {  // no memory: it works without an arena of its own
  }
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    if (idle_ >= kMaxIdle && calls_ == 0 && !ended_) break;
    ++idle_;
    changed_.wait(lock, [this] { return calls_ > 0 || ended_; });
    --idle_;
    if (calls_ == 0) return;
    --calls_;
    lock.unlock();
    ThreadFrame::SetArena(engine_id_);
    lease.has_value() ? lease->arena().execute(run_) : run_();
    ThreadFrame::SetArena(0);
    lock.lock();
  }
  // Each that leaves sees the one before it off.
  std::list<std::thread> before = std::move(last_left_);
  last_left_.splice(last_left_.begin(), threads_, own);
  lock.unlock();
  for (std::thread& thread : before) thread.join();
}

}  // namespace tessera::engine_internal
