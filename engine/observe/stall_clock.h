#ifndef TESSERA_ENGINE_OBSERVE_STALL_CLOCK_H_
#define TESSERA_ENGINE_OBSERVE_STALL_CLOCK_H_

#include <chrono>
#include <cstdint>

#include "tessera/engine/core/dependency_engine.h"

namespace tessera::engine_internal {

/// When a wait is to be reported, which happens once.
class DependencyEngine::StallClock {
 public:
  explicit StallClock(int64_t limit_ms) : pending_(limit_ms > 0) {
    if (pending_) due_ = std::chrono::steady_clock::now() + std::chrono::milliseconds(limit_ms);
  }

  bool pending() const { return pending_; }
  std::chrono::steady_clock::time_point due() const { return due_; }
  /// Whether it is to be reported now. True once.
  bool TakeDue() {
    if (!pending_ || std::chrono::steady_clock::now() < due_) return false;
    pending_ = false;
    return true;
  }

 private:
  bool pending_;
  std::chrono::steady_clock::time_point due_;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_OBSERVE_STALL_CLOCK_H_
