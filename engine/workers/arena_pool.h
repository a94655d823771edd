#ifndef TESSERA_ENGINE_WORKERS_ARENA_POOL_H_
#define TESSERA_ENGINE_WORKERS_ARENA_POOL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "tbb/task_arena.h"
#include "tessera/engine/workers/tbb_workers.h"

namespace tessera::engine_internal {

/// Arenas of an engine beside its main one, for as many threads: each is for one thread that works
/// for the engine elsewhere, and for those of TBB's that come to its loops. Arenas are kept for the
/// next such thread until the engine ends, because TBB's may still be inside when the one that had
/// it leaves: without its observer they would go on to others' loops with the engine's number.
///
/// Some then go to the next engines of as many threads. TBB, as of 2021.8, keeps an arena that ends
/// soon after a loop until one of its threads has come by once more: where engines follow each
/// other fast these fall behind, and each arena that is left, of 8 KiB, slows TBB down.
///
/// Threads: leases may begin and end in any number of threads.
class ArenaPool {
 public:
  ArenaPool(int threads, uint64_t engine_id) : threads_(threads), engine_id_(engine_id) {}
  ~ArenaPool();
  ArenaPool(const ArenaPool&) = delete;
  ArenaPool& operator=(const ArenaPool&) = delete;

  /// At the end its arenas go to the next engines.
  void KeepForOthers() { keeps_ = true; }

  /// While it lives, an arena is its owner's. Throws where there is no memory.
  class Lease;

 private:
  struct Entry;

  std::unique_ptr<Entry> Take();
  void Give(std::unique_ptr<Entry> entry) noexcept;

  const int threads_;
  const uint64_t engine_id_;
  bool keeps_ = false;
  std::mutex mutex_;
  std::unique_ptr<Entry> free_;  // guarded by mutex_
};

struct ArenaPool::Entry {
  Entry(std::unique_ptr<tbb::task_arena> its_arena, uint64_t engine_id)
      : arena(std::move(its_arena)), observer(std::in_place, Initialized(*arena), engine_id) {}

  std::unique_ptr<tbb::task_arena> arena;
  std::optional<ArenaObserver> observer;
  std::unique_ptr<Entry> next;  // while it is free
};

class ArenaPool::Lease {
 public:
  explicit Lease(ArenaPool& arenas) : arenas_(arenas), entry_(arenas.Take()) {}
  ~Lease() { arenas_.Give(std::move(entry_)); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  /// With a place for this thread alone, whoever else is inside.
  tbb::task_arena& arena() const { return *entry_->arena; }

 private:
  ArenaPool& arenas_;
  std::unique_ptr<Entry> entry_;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_WORKERS_ARENA_POOL_H_
