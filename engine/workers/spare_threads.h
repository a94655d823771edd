#ifndef TESSERA_ENGINE_WORKERS_SPARE_THREADS_H_
#define TESSERA_ENGINE_WORKERS_SPARE_THREADS_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

#include "tessera/engine/workers/arena_pool.h"

namespace tessera::engine_internal {

/// Threads that call a function whenever they are told to, made when they are first needed and kept
/// for the next time, up to a thousand. Each has an arena of its own, so that parallel loops find
/// what they find elsewhere; TBB's threads come to it where they are free.
///
/// Threads: every member may be called from any thread, apart from the destructor.
class SpareThreads {
 public:
  SpareThreads(ArenaPool& arenas, uint64_t engine_id, std::function<void()> run);
  /// Waits for calls that are under way.
  ~SpareThreads();
  SpareThreads(const SpareThreads&) = delete;
  SpareThreads& operator=(const SpareThreads&) = delete;

  /// Has `run` called so many times, each time in a thread of its own. Returns for how many there
  /// is a thread: fewer only where the system gives none.
  int Start(int count);

 private:
  using Thread = std::list<std::thread>::iterator;

  static constexpr int kMaxIdle = 1024;

  void AddThread();
  void ThreadLoop(Thread own);

  ArenaPool& arenas_;
  const uint64_t engine_id_;
  const std::function<void()> run_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int calls_ = 0;                     // that nobody has begun; guarded by mutex_
  int idle_ = 0;                      // threads that wait for one; guarded by mutex_
  bool ended_ = false;                // guarded by mutex_
  std::list<std::thread> threads_;    // guarded by mutex_
  std::list<std::thread> last_left_;  // the one that has left last, if any; guarded by mutex_
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_WORKERS_SPARE_THREADS_H_
