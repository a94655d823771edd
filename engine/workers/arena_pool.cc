#include "tessera/engine/workers/arena_pool.h"

#include <algorithm>
#include <array>

namespace tessera::engine_internal {
namespace {

/// Arenas of engines that have ended.
///
/// Threads: every member may be called from any thread.
class KeptArenas {
 public:
  /// Never destroyed: engines may end after static objects.
  static KeptArenas& Get() {
    static auto& kept = *new KeptArenas;
    return kept;
  }

  /// One for as many threads; null if there is none.
  std::unique_ptr<tbb::task_arena> Take(int threads) {
    std::lock_guard<std::mutex> hold(mutex_);
    for (Arena& kept : arenas_) {
      if (kept.arena != nullptr && kept.threads == threads) return std::move(kept.arena);
    }
    return nullptr;
  }

  /// Keeps the arena. Where there are enough, the one that has been kept for longest ends instead:
  /// most likely TBB's threads have left it.
  void Give(int threads, std::unique_ptr<tbb::task_arena> arena) noexcept {
    std::lock_guard<std::mutex> hold(mutex_);
    auto place = std::find_if(arenas_.begin(), arenas_.end(),
                              [](const Arena& kept) { return kept.arena == nullptr; });
    if (place == arenas_.end()) place = arenas_.begin() + replaced_++ % kMaxKept;
    std::swap(place->arena, arena);
    place->threads = threads;
  }

 private:
  // What a few engines at a time have: each that waits inside operations has some.
  static constexpr size_t kMaxKept = 32;

  struct Arena {
    int threads = 0;
    std::unique_ptr<tbb::task_arena> arena;
  };

  std::mutex mutex_;
  std::array<Arena, kMaxKept> arenas_;  // guarded by mutex_
  size_t replaced_ = 0;                 // guarded by mutex_
};

}  // namespace

ArenaPool::~ArenaPool() {
  // One by one: each would otherwise destroy the next one inside its own destructor.
  while (free_ != nullptr) {
    free_->observer.reset();
    if (keeps_) KeptArenas::Get().Give(threads_, std::move(free_->arena));
    free_ = std::move(free_->next);
  }
}

std::unique_ptr<ArenaPool::Entry> ArenaPool::Take() {
  {
    std::lock_guard<std::mutex> hold(mutex_);
    if (free_ != nullptr) {
      std::unique_ptr<Entry> taken = std::move(free_);
      free_ = std::move(taken->next);
      return taken;
    }
  }
  std::unique_ptr<tbb::task_arena> arena = KeptArenas::Get().Take(threads_);
  if (arena == nullptr) {
    arena = std::make_unique<tbb::task_arena>(threads_, /*reserved_for_masters=*/1);
  }
  return std::make_unique<Entry>(std::move(arena), engine_id_);
}

void ArenaPool::Give(std::unique_ptr<Entry> entry) noexcept {
  std::lock_guard<std::mutex> hold(mutex_);
  entry->next = std::move(free_);
  free_ = std::move(entry);
}

}  // namespace tessera::engine_internal
