#ifndef TESSERA_ENGINE_CORE_EXECUTION_H_
#define TESSERA_ENGINE_CORE_EXECUTION_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tessera/engine/core/failure.h"
#include "tessera/engine/core/futex_lock.h"
#include "tessera/engine/device/fence.h"
#include "tessera/engine/engine.h"

namespace tessera::engine_internal {

class DependencyVariable;
struct Execution;
struct Replay;

/// The way in which an operation uses a variable. An update is a write that takes the variable's
/// error on.
enum class Access : uintptr_t { kRead = 0, kWrite = 1, kUpdate = 3 };

/// One variable of one execution: its place in the variable's queue.
struct Edge {
  Edge() = default;
  Edge(DependencyVariable* variable, Access access)
      : variable_and_access(reinterpret_cast<uintptr_t>(variable) |
                            static_cast<uintptr_t>(access)) {}

  DependencyVariable* variable() const {
    return reinterpret_cast<DependencyVariable*>(variable_and_access & ~kAccessBits);
  }
  Access access() const { return static_cast<Access>(variable_and_access & kAccessBits); }
  bool write() const { return access() != Access::kRead; }
  /// Returns whether the operation needs what the variable held before.
  bool input() const { return access() != Access::kWrite; }

  static constexpr uintptr_t kAccessBits = 3;

  uintptr_t variable_and_access = 0;  // a pending operation is memory: two bits need no word
  Execution* execution = nullptr;
  // In the variable's queue, or among those that read it now; guarded by the variable's lock.
  Edge* next = nullptr;
  Edge* previous = nullptr;  // among the readers, who leave in any order; itself while it is queued

  bool queued() const { return previous == this; }
};

/// The function of an operation, in either form.
using AnyFn = std::variant<std::monostate, SyncFn, AsyncFn>;

/// A function with its variables, checked and sorted, for Engine::Push.
class OperatorRecord final : public EngineOperator {
 public:
  AnyFn fn;
  std::vector<Edge> edges;  // sorted by variable; only variable_and_access is used
  /// The variables' numbers: one that took a deleted variable's memory has another.
  std::vector<uint64_t> variable_ids;
  FnProperty property = FnProperty::kNormal;
  bool capturable = false;
  std::string name;
  uint64_t engine_id = 0;
  /// The user's reference and one for each pending push. The last one deletes the record.
  std::atomic<int64_t> references{1};
  std::atomic<bool> deleted{false};
};

/// Gives up a reference. Returns the operator if that was the last one: its owner is the caller.
std::unique_ptr<OperatorRecord> DropOperator(OperatorRecord* op);

enum class ExecutionKind : uint8_t {
  kOperation,
  kWait,    ///< a read that only reports that it was granted
  kDelete,  ///< a write that gives the variable back
  kReplay,  ///< all operations of a schedule together
  kGraph,   ///< the same, as one graph for a device
  kJoin,    ///< on no variable: its worker joins a replay
  kVisit,   ///< on no variable: a thread in a replay
  kStep,    ///< on no variable: an asynchronous operation of a replay
};

/// The part of the ready queue that an execution stands in; guarded by the queue's lock.
enum class QueuePlace : uint8_t { kNone, kFifo, kRanked, kUrgent };

/// One push, from the push until it is complete.
///
/// Fields without a note belong to the pusher until the execution is on its variables' queues, and
/// to the thread that made it ready after that: the locks of the variables pass them on.
struct alignas(64) Execution {
  std::span<Edge> edges() {
    return {edge_count <= kInlineEdges ? inline_edges : more_edges.get(), edge_count};
  }
  /// Makes room for `count` edges.
  void SetEdgeCount(size_t count) {
    edge_count = static_cast<uint32_t>(count);
    if (count <= kInlineEdges || count <= more_capacity) return;
    more_edges = std::make_unique<Edge[]>(count);
    more_capacity = edge_count;
  }
  /// Keeps the first `count` edges.
  void KeepEdges(size_t count) {
    const std::span<Edge> before = edges();
    edge_count = static_cast<uint32_t>(count);
    if (edges().data() != before.data()) std::copy_n(before.begin(), count, inline_edges);
  }
  void DropBuffer() {
    more_edges.reset();
    more_capacity = 0;
  }
  /// Returns the name; for a visit that of the operation that it runs.
  std::string_view display_name() const;

  bool has_op() const { return !is_replay() && kind != ExecutionKind::kJoin && op != nullptr; }
  bool is_replay() const { return kind == ExecutionKind::kReplay || kind == ExecutionKind::kGraph; }

  /// Returns whether its function only enqueues work on a stream.
  bool on_device() const { return device.type == DeviceType::kGpu; }

  static constexpr size_t kInlineEdges = 3;  // most operations; others keep a buffer for reuse

  ExecutionKind kind = ExecutionKind::kOperation;
  FnProperty property = FnProperty::kNormal;
  QueuePlace place = QueuePlace::kNone;
  bool begun = false;  // it is in the engine's BegunList
  /// A wait inside an operation needs this one: it goes first. A hint, hence relaxed everywhere.
  std::atomic<bool> demanded{false};
  /// The operation's function has been called. Relaxed everywhere.
  std::atomic<bool> running{false};
  uint32_t edge_count = 0;
  /// Edges that are not granted yet; the thread that brings it to 0 owns the execution.
  std::atomic<int32_t> blocked_edges{0};
  /// The users of the record: its function's call and its completion.
  std::atomic<int32_t> references{0};
  uint32_t more_capacity = 0;
  Edge inline_edges[kInlineEdges];
  std::unique_ptr<Edge[]> more_edges;

  AnyFn fn;  // or that of `op`
  union {
    OperatorRecord* op = nullptr;
    Replay* replay;  // of a kReplay, kGraph or kJoin, which have no operator
  };
  std::string name;
  std::source_location site;
  Device device;
  uint64_t sequence = 0;  // place in push order
  int64_t rank = 0;       // higher runs first

  Execution* next = nullptr;  // in the ready queue, a ready list or the pool
  union {
    Execution* below = nullptr;  // the operation on top of whose wait this one runs; null before
    Execution* previous;         // only in the ready queue
  };
};
// A program may have very many of them: the bound on what pends is 65536 unless someone sets it.
static_assert(sizeof(Execution) <= 256);

/// A variable as the engine keeps it: a first-come queue of edges behind those that are granted,
/// which are either one write or any number of reads.
class alignas(64) DependencyVariable final : public Variable {
 public:
  void CountWrite() {
    // Only under `lock`, hence no read-modify-write.
    version_.store(version_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  /// Makes a recycled variable a new one. Requires `lock`. Nothing is done if it throws.
  void Revive(uint64_t new_engine_id, uint64_t new_id, std::string_view new_name) {
    name = new_name;
    engine_id = new_engine_id;
    id = new_id;
    alive = true;
    version_.store(0, std::memory_order_relaxed);
  }
  std::string ToString() const;

  FutexLock lock;  // guards all below, where nothing else is said
  bool alive = false;
  Edge* readers = nullptr;  // those whose turn it is
  Execution* writer = nullptr;
  Edge* head = nullptr;  // a write while there are readers, anything while there is a writer
  Edge* tail = nullptr;
  /// Written by the granted writer under `lock`; may be read without it by whom a grant protects.
  FailureRef failure;
  /// Null until an operation of a device uses the variable.
  std::unique_ptr<DeviceUses> device_uses;

  uint64_t engine_id = 0;  // never changes once the variable has been handed out
  uint64_t id = 0;
  std::string name;
  DependencyVariable* next = nullptr;  // in the pool
};

/// A list of executions that became ready, linked by Execution::next.
class ReadyList {
 public:
  bool empty() const { return head_ == nullptr; }
  void PushBack(Execution* execution) {
    execution->next = nullptr;
    (head_ == nullptr ? head_ : tail_->next) = execution;
    tail_ = execution;
  }
  Execution* PopFront() {
    Execution* front = head_;
    head_ = front->next;
    return front;
  }
  /// Removes and returns the one that should run first; null if there is none.
  Execution* PopBest();

 private:
  Execution* head_ = nullptr;
  Execution* tail_ = nullptr;
};

/// The place of a priority among all, those of other properties too: higher runs first.
inline int64_t RankOf(FnProperty property, int priority) {
  constexpr int64_t kPrioritizedRank = int64_t{1} << 33;  // above every priority without it
  const bool prioritized =
      property == FnProperty::kCpuPrioritized || property == FnProperty::kGpuPrioritized;
  return priority + (prioritized ? kPrioritizedRank : 0);
}

/// Returns whether an operation runs even if its inputs carry an error, and does not take that on.
inline bool RunsInAnyCase(FnProperty property) {
  return property == FnProperty::kNoSkip || property == FnProperty::kDeleteVariable;
}

/// Returns whether `a` should run before `b`.
inline bool RunsBefore(const Execution& a, const Execution& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.sequence < b.sequence;
}

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_CORE_EXECUTION_H_
