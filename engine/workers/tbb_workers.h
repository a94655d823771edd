#ifndef TESSERA_ENGINE_WORKERS_TBB_WORKERS_H_
#define TESSERA_ENGINE_WORKERS_TBB_WORKERS_H_

#include <atomic>
#include <cstdint>
#include <functional>

#include "tbb/task_arena.h"
#include "tbb/task_scheduler_observer.h"

namespace tessera::engine_internal {

/// Sees to it that TBB has threads enough for every engine of the process.
///
/// TBB makes one thread less than the machine has, as it counts on the caller's; the threads that
/// call an engine do not work for it, so each engine asks for as many as it has workers. While
/// engines live, TBB's limit is its own plus the sum of what they ask for: a program whose own
/// parallel loops push and wait on all of TBB's threads leaves an engine its workers. A lower limit
/// that the program sets (tbb::global_control) is respected.
///
/// Asks the system for the threads first, all at once, since TBB ends the process or hangs where it
/// is refused one: throws Error(kResourceExhausted) if there are not so many. Later TBB has the
/// threads, and is not asked for again.
class WorkerReservation {
 public:
  explicit WorkerReservation(int workers);
  ~WorkerReservation();
  WorkerReservation(const WorkerReservation&) = delete;
  WorkerReservation& operator=(const WorkerReservation&) = delete;

 private:
  const int workers_;
};

/// The arena, in which TBB has what it needs of memory. Throws where there is none.
inline tbb::task_arena& Initialized(tbb::task_arena& arena) {
  arena.initialize();
  return arena;
}

/// Marks the threads that work in an arena as being inside its engine, see ThreadFrame::SetArena.
class ArenaObserver final : public tbb::task_scheduler_observer {
 public:
  /// Requires an arena that is initialized: without memory TBB throws there, and crashes here.
  ArenaObserver(tbb::task_arena& arena, uint64_t engine_id);
  ~ArenaObserver();

  void on_scheduler_entry(bool is_worker) override;
  void on_scheduler_exit(bool is_worker) override;

 private:
  const uint64_t engine_id_;
};

/// Calls `fn` on the calling thread. If the thread is in a TBB task, `fn` runs in a TBB context of
/// its own: the loops inside it run completely even if the task's group is cancelled, or if another
/// task of the group throws. Rethrows the exceptions of `fn`.
void CallInOwnContext(const std::function<void()>& fn);

// The rest explains to ThreadSanitizer, and does nothing in other builds, that an uninstrumented
// TBB passes on the one thing that an engine gives to it: an address. All else is ordered by the
// engine's locks and atomics.

/// While it lives, ThreadSanitizer takes no notice of what this thread reads and writes: for the
/// moments in which a TBB task is filled or read. TBB recycles tasks between threads unseen.
class HiddenFromTsan {
 public:
  HiddenFromTsan();
  ~HiddenFromTsan();
  HiddenFromTsan(const HiddenFromTsan&) = delete;
  HiddenFromTsan& operator=(const HiddenFromTsan&) = delete;
};

/// Called when `object` is complete, before TBB may give its address to another thread.
void PublishThroughTbb(const void* object);

/// Called in a thread that has received the address of `object` through TBB.
void ReceiveThroughTbb(const void* object);

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_WORKERS_TBB_WORKERS_H_
