#ifndef TESSERA_ENGINE_WORKERS_WAITER_H_
#define TESSERA_ENGINE_WORKERS_WAITER_H_

#include <atomic>
#include <condition_variable>
#include <mutex>

#include "tessera/engine/core/dependency.h"
#include "tessera/engine/core/dependency_engine.h"

namespace tessera::engine_internal {

/// A call of WaitForVar, on the caller's stack. `done` is set under the mutex, and the waiter takes
/// the mutex once more before it returns: so it cannot vanish while it is being woken.
struct DependencyEngine::Waiter final : WaitExecution {
  bool inside = false;  // it parks with the engine instead of on its own condition
  std::condition_variable* sleeping = nullptr;  // what it sleeps on then; guarded by park_mutex_
  std::atomic<bool> done{false};
  std::mutex mutex;
  std::condition_variable condition;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_WORKERS_WAITER_H_
