#include "tessera/engine/internal/arena_pool.h"

namespace tessera::engine_internal {

ArenaPool::~ArenaPool() {
  // One by one: each would otherwise destroy the next one inside its own destructor.
  while (free_ != nullptr) free_ = std::move(free_->next);
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
  return std::make_unique<Entry>(threads_, engine_id_);
}

void ArenaPool::Give(std::unique_ptr<Entry> entry) noexcept {
  std::lock_guard<std::mutex> hold(mutex_);
  entry->next = std::move(free_);
  free_ = std::move(entry);
}

void CallAlone(const std::function<void()>& fn) {
  tbb::task_arena(1, /*reserved_for_masters=*/1).execute(fn);
}

}  // namespace tessera::engine_internal
