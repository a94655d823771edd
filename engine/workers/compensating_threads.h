#ifndef TESSERA_ENGINE_WORKERS_COMPENSATING_THREADS_H_
#define TESSERA_ENGINE_WORKERS_COMPENSATING_THREADS_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "tbb/task_arena.h"
#include "tessera/engine/workers/tbb_workers.h"

namespace tessera::engine_internal {

/// Threads that work while workers sleep or block: TBB knows of no sleep, and might have neither a
/// thread nor a place in its arena for them. Each has an arena of its own, in which parallel loops
/// find TBB's threads. A thread is made when it is first reserved, and kept until the engine ends.
///
/// Threads: every member may be called from any thread, except the destructor.
class CompensatingThreads {
 public:
  /// `run` is called for each Start, in one of the threads; their loops have as many threads as
  /// `loop_threads` says.
  CompensatingThreads(int loop_threads, uint64_t engine_id, std::function<void()> run);
  /// Waits for calls of `run`.
  ~CompensatingThreads();
  CompensatingThreads(const CompensatingThreads&) = delete;
  CompensatingThreads& operator=(const CompensatingThreads&) = delete;

  /// Reserves one thread more. Returns false if 1,024 are reserved, or if the system refuses one.
  bool Reserve() ABSL_LOCKS_EXCLUDED(mutex_);
  /// Gives a reservation back.
  void Release() ABSL_LOCKS_EXCLUDED(mutex_);

  /// Has one of the threads call `run`. Requires that fewer calls are under way than threads were
  /// reserved at some time.
  void Start() ABSL_LOCKS_EXCLUDED(mutex_);

  static constexpr size_t kMaxThreads = 1024;

 private:
  struct Worker {
    Worker(int loop_threads, uint64_t engine_id)
        : arena(loop_threads, /*reserved_for_masters=*/1),
          observer(Initialized(arena), engine_id) {}

    tbb::task_arena arena;
    ArenaObserver observer;
    std::thread thread;
  };

  void WorkerLoop(Worker& worker) ABSL_LOCKS_EXCLUDED(mutex_);

  const int loop_threads_;
  const uint64_t engine_id_;
  const std::function<void()> run_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Worker> workers_ ABSL_GUARDED_BY(mutex_);
  size_t reserved_ ABSL_GUARDED_BY(mutex_) = 0;
  int calls_ ABSL_GUARDED_BY(mutex_) = 0;  // not begun
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_WORKERS_COMPENSATING_THREADS_H_
