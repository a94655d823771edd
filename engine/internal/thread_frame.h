#ifndef TESSERA_ENGINE_INTERNAL_THREAD_FRAME_H_
#define TESSERA_ENGINE_INTERNAL_THREAD_FRAME_H_

#include <cstdint>

namespace tessera::engine_internal {

struct Execution;

/// While it lives, its thread works for an engine: it runs an operation's function, or (with a null
/// execution) something else inside the engine's arena. Frames of one thread nest, those of several
/// engines too. They hold engines by number, because a number is never used again.
class ThreadFrame {
 public:
  ThreadFrame(uint64_t engine_id, Execution* execution)
      : engine_id_(engine_id), execution_(execution), outer_(top_) {
    top_ = this;
  }
  ~ThreadFrame() { top_ = outer_; }
  ThreadFrame(const ThreadFrame&) = delete;
  ThreadFrame& operator=(const ThreadFrame&) = delete;

  /// The innermost operation of the engine on this thread; null if there is none.
  static Execution* Current(uint64_t engine_id) {
    for (const ThreadFrame* frame = top_; frame != nullptr; frame = frame->outer_) {
      if (frame->engine_id_ == engine_id && frame->execution_ != nullptr) return frame->execution_;
    }
    return nullptr;
  }

  /// The innermost frame of any engine; null if there is none. Only to compare.
  static const ThreadFrame* Innermost() { return top_; }

  /// Whether this thread works for the engine, in a frame or as a worker of its arena.
  static bool Inside(uint64_t engine_id) {
    if (arena_engine_id_ == engine_id) return true;
    for (const ThreadFrame* frame = top_; frame != nullptr; frame = frame->outer_) {
      if (frame->engine_id_ == engine_id) return true;
    }
    return false;
  }

  /// Called when this thread becomes a worker of an engine's arena, and with 0 when it leaves.
  static void SetArena(uint64_t engine_id) { arena_engine_id_ = engine_id; }

 private:
  static inline thread_local ThreadFrame* top_ = nullptr;
  static inline thread_local uint64_t arena_engine_id_ = 0;

  const uint64_t engine_id_;
  Execution* const execution_;
  ThreadFrame* const outer_;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_INTERNAL_THREAD_FRAME_H_
