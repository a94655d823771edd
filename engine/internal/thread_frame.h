#ifndef TESSERA_ENGINE_INTERNAL_THREAD_FRAME_H_
#define TESSERA_ENGINE_INTERNAL_THREAD_FRAME_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera::engine_internal {

class DependencyEngine;
struct Execution;

/// While it lives, its thread works for an engine: it runs an operation's function, or (with a null
/// execution) something else inside the engine's arena. Frames of one thread nest, those of several
/// engines too. They are asked for by engines' numbers, because a number is never used again.
class ThreadFrame {
 public:
  ThreadFrame(DependencyEngine* engine, uint64_t engine_id, Execution* execution)
      : engine_(engine), engine_id_(engine_id), execution_(execution), outer_(top_) {
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
    return arena_engine_id_ == engine_id || HasFrame(engine_id);
  }

  /// Whether this thread works for the engine in a frame. A worker of its arena without one is at a
  /// piece of a parallel loop.
  static bool HasFrame(uint64_t engine_id) {
    for (const ThreadFrame* frame = top_; frame != nullptr; frame = frame->outer_) {
      if (frame->engine_id_ == engine_id) return true;
    }
    return false;
  }

  /// Whether this thread is in an operation of any engine.
  static bool InOperation() {
    for (const ThreadFrame* frame = top_; frame != nullptr; frame = frame->outer_) {
      if (frame->execution_ != nullptr) return true;
    }
    return false;
  }

  /// Whether this thread belongs to the engine's arena, and is no guest in it.
  static bool IsWorker(uint64_t engine_id) { return arena_engine_id_ == engine_id; }

  /// Fills `engines` with those that this thread has frames of, the innermost first and each once,
  /// as far as there is room. Returns how many these are. They live at least as long as the frames.
  static size_t Engines(std::span<DependencyEngine*> engines) {
    size_t count = 0;
    for (const ThreadFrame* frame = top_; frame != nullptr; frame = frame->outer_) {
      if (count == engines.size()) break;
      const auto found = engines.first(count);
      if (std::find(found.begin(), found.end(), frame->engine_) != found.end()) continue;
      engines[count++] = frame->engine_;
    }
    return count;
  }

  /// Called when this thread becomes a worker of an engine's arena, and with 0 when it leaves.
  static void SetArena(uint64_t engine_id) { arena_engine_id_ = engine_id; }

 private:
  static inline thread_local ThreadFrame* top_ = nullptr;
  static inline thread_local uint64_t arena_engine_id_ = 0;

  DependencyEngine* const engine_;
  const uint64_t engine_id_;
  Execution* const execution_;
  ThreadFrame* const outer_;
};

/// While it lives, its thread reports that operations are complete. What it runs of a program by
/// the way (destructors of what functions have captured) must not wait for others to be complete.
class CompletionScope {
 public:
  CompletionScope() { ++depth_; }
  ~CompletionScope() { --depth_; }
  CompletionScope(const CompletionScope&) = delete;
  CompletionScope& operator=(const CompletionScope&) = delete;

  static bool IsOpen() { return depth_ > 0; }

 private:
  static inline thread_local int depth_ = 0;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_INTERNAL_THREAD_FRAME_H_
