#ifndef TESSERA_ENGINE_CORE_VARIABLE_QUEUE_H_
#define TESSERA_ENGINE_CORE_VARIABLE_QUEUE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tessera/base/error.h"
#include "tessera/engine/core/execution.h"
#include "tessera/engine/core/push_counter.h"

namespace tessera::engine_internal {

struct RecordedPush;

// Variables' queues: executions get their turn on variables. Nothing here knows about threads or
// queues of ready work: the caller gets the executions that became ready and sees to them.
//
// The variables of an execution are locked together, in order of their addresses, while it takes
// its place in their queues. So two executions stand in the same order in all queues that they
// share, whichever threads pushed them, and cannot wait for each other. All other functions hold
// one lock at a time.

/// Returns the variable as the engine with that number keeps it. Throws Error(kInvalidArgument),
/// naming `operation`, if it is null or another engine's.
DependencyVariable* Checked(Variable* variable, uint64_t engine_id, std::string_view operation);

/// Throws Error(kInvalidArgument), naming `operation`, if the variable is deleted.
void CheckAlive(DependencyVariable& variable, std::string_view operation);

/// Sorts the edges as Acquire wants them. Throws Error(kInvalidArgument), naming `operation`, if
/// two of them are on the same variable.
void SortEdges(std::span<Edge> edges, std::string_view operation);

/// Fills the edges, of which there are as many as variables, and sorts them. Returns their number,
/// which is lower after PushOptions::merge_duplicates. Throws what Checked and SortEdges throw.
size_t FillEdges(std::span<Edge> edges, VariableList reads, VariableList writes,
                 const PushOptions& options, uint64_t engine_id, std::string_view operation);

/// Puts the execution on the queues of its variables, sorted by SortEdges, and sets its sequence
/// from `pushes`. Returns true if it may run at once; if not, some Release will report it and the
/// caller must not touch it any more: hence `sequence`, where its place in push order goes.
/// Throws Error with nothing changed: kInvalidArgument if a variable is deleted,
/// kFailedPrecondition if `pushes` is closed.
///
/// A replay takes as many places one after another as it has `operations`; `sequence` is the first.
bool Acquire(Execution& execution, PushCounter& pushes, uint64_t* sequence = nullptr,
             uint64_t operations = 1);

/// Acquire for several executions, between whose places nobody else's comes. `variables` has an
/// edge on each variable that any of them uses, sorted by SortEdges. Returns the first one's
/// sequence, on which those of the others follow. Those that may run at once go to `ready`; the
/// caller must not touch the others any more. Throws as Acquire does, naming `operation`.
uint64_t AcquireTogether(std::span<Edge> variables, std::span<Execution* const> executions,
                         std::string_view operation, PushCounter& pushes, ReadyList& ready);

/// The error of a push after Shutdown.
Error PushedAfterShutdown(std::string_view operation);

/// Takes the memory that a Release with a fence of the stream with that number needs. Throws
/// std::bad_alloc; may be called again.
void ReserveForFence(Execution& execution, int stream);

/// The failure and fences that a variable has carried until it was given up. Destroy it without
/// locks.
struct Replaced {
  bool empty() const { return failure == nullptr && device_uses == nullptr; }

  FailureRef failure;
  std::unique_ptr<DeviceUses> device_uses;
};

/// The Replaced of an execution's variables, kept until those that its release makes ready are on
/// their way: errors are a program's objects, and their destructors may wait for those.
class Leftovers {
 public:
  bool empty() const { return kept_.empty(); }
  void Clear() { kept_.clear(); }
  void Keep(Replaced replaced) noexcept;

 private:
  std::vector<Replaced> kept_;
};

/// Gives up all variables of a complete execution. Its written variables are marked with `failure`,
/// or unmarked if that is null. Appends those who became ready to `ready`, and what its variables
/// carried to `leftovers`.
///
/// If `fence` is not null the execution is issued to a device, and those that get their turn must
/// see to it that they come after the fence: see FencesBefore. Takes no memory: see
/// ReserveForFence.
void Release(Execution& execution, const FailureRef& failure, ReadyList& ready,
             Leftovers& leftovers, const FenceRef& fence = nullptr);

/// Gives up the variable of one edge, with a mark of its own. Called for edge 0, 1, 2, ... in turn.
Replaced ReleaseOne(Execution& execution, size_t edge, const FailureRef& failure, ReadyList& ready,
                    const FenceRef& fence = nullptr);

/// The fences on an execution's variables, as seen when its turn has come on all of them.
struct IssuedBefore {
  std::vector<FenceRef> pending;  ///< it must come after these
  std::vector<FenceRef> inputs;   ///< those of them that wrote what it reads
  FailureRef failure;             ///< the earliest error of those that are done, from its inputs
};
/// Throws std::bad_alloc.
IssuedBefore FencesBefore(Execution& execution);

/// The fence of the last write of a variable, if that was issued to a device; or null. Requires the
/// variable's lock.
FenceRef LastIssuedWrite(const DependencyVariable& variable);

/// Returns whether nobody has or awaits a turn on the variable, nor a device has work on it to do.
/// Requires the variable's lock.
bool IsUnused(const DependencyVariable& variable);

/// Returns whether no write pended on the variable at the fork that began this process. Requires a
/// variable from before the fork. Its lock is held for ever if a thread held it then; the variable
/// was changing, and the answer is false.
bool WasWholeAtFork(DependencyVariable& variable);

/// A wait for the pending writes of a variable, as an execution in its queue.
struct WaitExecution : Execution {
  WaitExecution() { kind = ExecutionKind::kWait; }

  Execution* owner = nullptr;  ///< the operation that waits; null for a thread outside
  uint32_t token = 0;          ///< tells waits inside operations apart
  FailureRef failure;          ///< the mark that the variable had at the wait's turn
  FenceRef fence;              ///< of the last write, if a device may still work on it
};

/// A thread's visit to a replay, in the place of an execution on that thread.
struct VisitExecution : Execution {
  VisitExecution() { kind = ExecutionKind::kVisit; }

  Replay* visited = nullptr;
  /// The operation that it runs; null while it looks for one. Relaxed everywhere: it points into
  /// the plan, which never changes.
  std::atomic<const RecordedPush*> push{nullptr};
  Execution* replay_execution = nullptr;  ///< on whose variables the replay stands
  uint32_t stack = 0;                     ///< where it leaves what it makes ready
};

/// Does what Acquire does for an execution that deletes its one variable. Returns false, with
/// nothing done, if the variable with that number is deleted already.
bool AcquireDeletion(Execution& execution, uint64_t id, bool* ready_now);

/// Queues `wait` for the variable if writes pend on it, and returns true. If none does, sets
/// wait.failure and wait.fence and returns false. Throws Error(kInvalidArgument) if the variable is
/// deleted.
bool AcquireWait(WaitExecution& wait, DependencyVariable& variable);

/// Takes a wait out of its queue. Returns false if its turn has come already.
bool CancelWait(WaitExecution& wait);

/// Returns whether the write that a wait needs has begun, and needs nothing else to begin. True
/// also if the wait's turn has come.
bool AwaitedWriteRuns(WaitExecution& wait);

/// Returns whether `wait`, queued by AcquireWait, can never get its turn because it needs its own
/// owner, or an operation suspended beneath the owner, to complete first.
///
/// Follows what is blocked by the owner: operations behind it in queues, those behind these, the
/// owners of waits among them. None of these can complete before the owner goes on, so they hold
/// still while other threads push and run, and an answer of true stays true. Exceptions are waits
/// that are cancelled, and an asynchronous owner that is complete before its function has returned:
/// the caller sees to it that neither happens meanwhile. Takes time in proportion to what is
/// blocked.
bool WouldDeadlock(WaitExecution& wait);

/// Marks those pending executions that the wait needs as demanded, and calls promote(execution) for
/// those of them that may be ready. Stops after so many queue entries. Changes meanwhile may be
/// missed, and an execution may be complete and reused by the time it is promoted.
void InheritPriority(WaitExecution& wait, int64_t max_visits,
                     const std::function<void(Execution*)>& promote);

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_CORE_VARIABLE_QUEUE_H_
