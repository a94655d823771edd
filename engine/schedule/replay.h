#ifndef TESSERA_ENGINE_SCHEDULE_REPLAY_H_
#define TESSERA_ENGINE_SCHEDULE_REPLAY_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/engine/core/completion.h"
#include "tessera/engine/core/execution.h"
#include "tessera/engine/core/failure.h"
#include "tessera/engine/core/futex_lock.h"
#include "tessera/engine/device/device_stream.h"
#include "tessera/engine/lifetime/process_life.h"
#include "tessera/engine/schedule/index_stacks.h"
#include "tessera/engine/schedule/schedule_plan.h"
#include "tessera/engine/schedule/visit_gate.h"

namespace tessera::engine_internal {

class ReplayPool;
class Scheduler;

/// One replay, from Schedule::Replay until nobody looks at it any more.
///
/// Threads visit it: each takes operations that are ready, runs them, counts down what waits for
/// them and keeps one of those that become ready as its next. It leaves those that it cannot run at
/// once where other visitors find them.
///
/// The order that this makes: the counters in Release hand on what an operation did to those that
/// come after it, the stack (or the heap's lock) hands an operation from thread to thread, and
/// `unfinished` takes everything to the thread that ends the replay.
struct Replay {
  static constexpr uint32_t kNone = SchedulePlan::kNone;

  /// Visitors have up to `stacks` stacks of their own.
  Replay(const SchedulePlan& schedule_plan, uint32_t stacks);

  /// Makes all as it is at the beginning. Nobody else may use the replay yet.
  void Start();

  /// An operation that is ready, from the visitor's own stack if it has some; kNone if there is
  /// none just now.
  uint32_t Take(uint32_t stack);

  /// Gives up an operation that this thread has taken, or been left with by Release.
  void PutBack(uint32_t stack, uint32_t index);

  /// The operation is complete, or skipped: returns one of those that become ready by that, kNone
  /// if there is none, and leaves the others to Take.
  uint32_t Release(uint32_t stack, uint32_t index);

  /// Counts operations as over. True for the call that ends the replay: all that the operations did
  /// is visible to it.
  bool Finish(int64_t operations) {
    return unfinished.fetch_sub(operations, std::memory_order_acq_rel) == operations;
  }

  /// Returns whether Take would return something. May be out of date.
  bool HasReady() const {
    if (plan.has_ranks()) return heap_size_.load() > 0;
    if (HasRoots()) return true;
    for (uint32_t i = 0; i < stacks_.stacks(); ++i) {
      if (!stacks_.empty(i)) return true;
    }
    return false;
  }

  /// The stack of the visitor with that number.
  uint32_t StackOf(int32_t visitor) const {
    return static_cast<uint32_t>(visitor) % stacks_.stacks();
  }

  int64_t RankOf(uint32_t index) const { return plan.push(index).rank() + rank_offset; }

  /// Lends the buffer to the execution, or takes it back.
  void SwapEdgeBuffer() {
    std::swap(edge_buffer, execution->more_edges);
    std::swap(edge_capacity, execution->more_capacity);
  }

  /// Marks what the operation writes, and from here on operations look at marks.
  void Mark(uint32_t index, const FailureRef& failure);

  const SchedulePlan& plan;
  ReplayPool* pool = nullptr;      // while the replay is under way
  std::unique_ptr<Replay> next;    // in the pool, else null
  Execution* execution = nullptr;  // by which it stands on its variables' queues
  uint64_t first_sequence = 0;     // operation i has first_sequence + i
  int64_t rank_offset = 0;
  std::vector<void*> slots;
  std::vector<SchedulePlan::VariableEdge> edges;  // those of `execution`
  /// The memory of these while the replay is under way; kept here between replays.
  std::unique_ptr<Edge[]> edge_buffer;
  uint32_t edge_capacity = 0;

  /// By variable; its operations order all access, as they do that to the variable.
  std::vector<FailureRef> marks;
  /// True if marks may hold something. Relaxed: set before the failed operation is released, hence
  /// seen by all that depend on it.
  std::atomic<bool> failed{false};

  VisitGate<> gate;
  /// Stands in the ready queue from a call of the gate's until a worker takes it out.
  Execution join;
  std::atomic<uint64_t> skipped{0};
  /// The replay itself, each visitor and `join` in the queue; the last one gives it back to the
  /// pool.
  std::atomic<int32_t> references{0};

 private:
  bool HasRoots() const {
    // Relaxed: they only become fewer.
    return next_root_.load(std::memory_order_relaxed) < plan.roots().size();
  }
  uint32_t TakeRoot();
  void AddToHeap(uint32_t index);

  /// Predecessors of an operation that are not complete, used where there are several, and all of
  /// them. The thread that counts down to 0 makes it ready for the next replay.
  struct Counter {
    std::atomic<uint32_t> waiting_for;
    uint32_t all;
  };

  const std::unique_ptr<Counter[]> counters_;  // by operation
  IndexStacks<> stacks_;
  FutexLock heap_lock_;
  std::vector<uint32_t> heap_;  // instead of stack and roots where ranks differ; under its lock
  std::atomic<size_t> heap_size_{0};
  alignas(64) std::atomic<uint32_t> next_root_{0};

 public:
  /// Operations that are not over; of an asynchronous one the function and the completion count.
  alignas(64) std::atomic<int64_t> unfinished{0};
};

/// Sees to it that a thread joins the replay, whose operations that are ready and nobody's have
/// that rank.
void RequestJoin(Replay& replay, int64_t rank, Scheduler& scheduler);

/// Called when the operation that runs on this thread begins to wait: if it belongs to a replay,
/// the visit does not count until ResumeVisit, and others join for what is ready.
void SuspendVisit(Execution* current, Scheduler& scheduler);
void ResumeVisit(Execution* current);

/// An asynchronous operation of a replay, from its call to its completion or, if that comes later,
/// its return.
struct AsyncStep final : Execution {
  AsyncStep(Replay* its_replay, uint32_t its_index);

  Replay* const of;
  const uint32_t index;
};

/// The graph of a schedule on a device.
struct GraphOfSchedule {
  /// A replay uses what is below. Replays that write nothing may run at once, in one thread even if
  /// a function waits: the second one does without.
  std::atomic<bool> taken{false};
  std::unique_ptr<DeviceGraph> graph;
  bool captured = false;     ///< `graph` holds work
  std::vector<void*> slots;  ///< with which it was captured
  /// The device can do the work, but not as a graph. Relaxed: a replay that sees it late falls back
  /// by itself.
  std::atomic<bool> refused{false};
  const uint32_t fork_generation = ForkGeneration();

  ~GraphOfSchedule() {
    // In the child of a fork the device is not to be spoken to.
    if (fork_generation != ForkGeneration()) static_cast<void>(graph.release());
  }
};

/// The replays of one schedule that are not under way, and what they share. The schedule owns it,
/// together with replays that are under way: the last owner deletes it, when the
/// captures of its functions may go.
class ReplayPool {
 public:
  /// For an engine with so many workers; the caller's.
  ReplayPool(std::unique_ptr<const SchedulePlan> plan, int workers)
      : plan_(std::move(plan)), stacks_(static_cast<uint32_t>(std::min(workers, kMaxStacks))) {}

  const SchedulePlan& plan() const { return *plan_; }
  GraphOfSchedule& graph() { return graph_; }

  ~ReplayPool();

  /// Returns a replay with `pool` set and one reference.
  std::unique_ptr<Replay> Take();
  /// Needs no memory: a replay comes to its end on a worker, where nobody would hear of the lack.
  /// Returns the pool if nobody else has it.
  static std::unique_ptr<ReplayPool> Give(std::unique_ptr<Replay> replay);
  /// Gives up the pool; returns it if nobody else has it.
  static std::unique_ptr<ReplayPool> Drop(ReplayPool* pool);

 private:
  // More visitors share them: a replay must not grow with the number of workers.
  static constexpr int kMaxStacks = 16;

  const std::unique_ptr<const SchedulePlan> plan_;
  const uint32_t stacks_;
  GraphOfSchedule graph_;
  std::atomic<int64_t> owners_{1};
  FutexLock lock_;
  std::unique_ptr<Replay> idle_ ABSL_GUARDED_BY(lock_);  // the first of a list
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_SCHEDULE_REPLAY_H_
