#include "tessera/engine/workers/compensating_threads.h"

#include <exception>
#include <utility>

#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {

CompensatingThreads::CompensatingThreads(int loop_threads, uint64_t engine_id,
                                         std::function<void()> run)
    : loop_threads_(loop_threads), engine_id_(engine_id), run_(std::move(run)) {}

CompensatingThreads::~CompensatingThreads() {
  {
    std::lock_guard<std::mutex> hold(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  for (Worker& worker : workers_) worker.thread.join();
}

bool CompensatingThreads::Reserve() {
  std::lock_guard<std::mutex> hold(mutex_);
  if (reserved_ == kMaxThreads) return false;
  if (reserved_ == workers_.size()) {
    try {
      Worker& added = workers_.emplace_back(loop_threads_, engine_id_);
      added.thread = std::thread([this, &added] { WorkerLoop(added); });
    } catch (const std::exception&) {  // no thread, or no memory for one
      if (reserved_ != workers_.size()) workers_.pop_back();
      return false;
    }
  }
  ++reserved_;
  return true;
}

void CompensatingThreads::Release() {
  std::lock_guard<std::mutex> hold(mutex_);
  --reserved_;
}

void CompensatingThreads::Start() {
  std::lock_guard<std::mutex> hold(mutex_);
  ++calls_;
  changed_.notify_one();
}

void CompensatingThreads::WorkerLoop(Worker& worker) {
  ThreadFrame::SetArena(engine_id_);
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return calls_ > 0 || ended_; });
    if (calls_ == 0) return;
    --calls_;
    lock.unlock();
    worker.arena.execute(run_);
    lock.lock();
  }
}

}  // namespace tessera::engine_internal
