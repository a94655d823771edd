#ifndef TESSERA_ENGINE_LIFETIME_LIVING_ENGINES_H_
#define TESSERA_ENGINE_LIFETIME_LIVING_ENGINES_H_

#include <cstdint>
#include <functional>

namespace tessera::engine_internal {

class DependencyEngine;

/// An engine that can be found by its number, which is all that a worker of its arena knows of it:
/// a worker may be there for longer than the engine (see ThreadFrame::SetArena).
///
/// Threads: every member may be called from any thread.
class LivingEngine {
 public:
  LivingEngine(uint64_t id, DependencyEngine* engine);
  ~LivingEngine() { End(); }
  LivingEngine(const LivingEngine&) = delete;
  LivingEngine& operator=(const LivingEngine&) = delete;

  /// From here on nobody finds it; returns when nobody looks at it any more.
  void End();

  /// Calls use(engine), during which it stays, and returns true; false if there is none. `use` may
  /// take the engine's queue_lock_ and no other lock. Takes no memory.
  static bool Find(uint64_t id, const std::function<void(DependencyEngine&)>& use);

 private:
  const uint64_t id_;
  DependencyEngine* const engine_;
  // Guarded by the mutex of all.
  bool ended_ = false;
  LivingEngine* next_ = nullptr;
  LivingEngine* previous_ = nullptr;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_LIFETIME_LIVING_ENGINES_H_
