#ifndef TESSERA_ENGINE_WORKERS_THREAD_FRAME_H_
#define TESSERA_ENGINE_WORKERS_THREAD_FRAME_H_

#include <cstdint>

namespace tessera::engine_internal {

struct Execution;

/// While it lives, its thread works for an engine: it runs an operation's function, or (with a null
/// execution) looks for operations to run. Frames of one thread nest, those of several
/// engines too. They are asked for by engines' numbers, because a number is never used again.
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

  /// The innermost frame of any engine; null if there is none.
  static ThreadFrame* Innermost() { return top_; }
  /// The innermost frame of that engine; null if there is none.
  static ThreadFrame* InnermostOf(uint64_t engine_id) {
    ThreadFrame* frame = top_;
    while (frame != nullptr && frame->engine_id_ != engine_id) frame = frame->outer_;
    return frame;
  }
  Execution* execution() const { return execution_; }

  /// Returns whether a BlockingScope of the operation has a compensating thread.
  bool blocks() const { return blocks_; }
  void set_blocks(bool blocks) { blocks_ = blocks; }

  /// Returns whether this thread works for the engine in a frame. A worker of its arena without one
  /// is at a piece of a parallel loop.
  static bool HasFrame(uint64_t engine_id) { return InnermostOf(engine_id) != nullptr; }

  /// Returns whether this thread is in an operation of any engine, or a worker of its arena. (One
  /// of TBB's threads that was in the arena at the engine's end keeps its number, and counts, until
  /// it leaves another engine's arena.)
  static bool WorksForAnyEngine() { return top_ != nullptr || arena_engine_id_ != 0; }

  /// Returns whether this thread belongs to the engine's arena.
  static bool IsWorker(uint64_t engine_id) { return arena_engine_id_ == engine_id; }

  /// The engine to whose arena this thread belongs; 0 if it does to none. The engine may be gone:
  /// TBB's threads that are in the arena at its end keep the number until they leave another one.
  static uint64_t Arena() { return arena_engine_id_; }

  /// Called when this thread becomes a worker of an engine's arena, and with 0 when it leaves.
  /// (Where the engine ends first nobody calls it: so this is a number, and no pointer.)
  static void SetArena(uint64_t engine_id) { arena_engine_id_ = engine_id; }

 private:
  static inline thread_local ThreadFrame* top_ = nullptr;
  static inline thread_local uint64_t arena_engine_id_ = 0;

  const uint64_t engine_id_;
  Execution* const execution_;
  ThreadFrame* const outer_;
  bool blocks_ = false;
};

/// While it lives, its thread reports that operations are complete. Destructors of captures that
/// run there must not wait for other operations to be complete.
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

#endif  // TESSERA_ENGINE_WORKERS_THREAD_FRAME_H_
