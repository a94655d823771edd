#ifndef TESSERA_ENGINE_SCHEDULE_REPLAYS_H_
#define TESSERA_ENGINE_SCHEDULE_REPLAYS_H_

#include <cstdint>
#include <exception>
#include <memory>
#include <source_location>
#include <span>
#include <vector>

#include "tessera/engine/core/engine_state.h"
#include "tessera/engine/core/operations.h"
#include "tessera/engine/schedule.h"
#include "tessera/engine/schedule/replay.h"

namespace tessera::engine_internal {

/// The replays of an engine's schedules: pushes them and runs their operations.
///
/// Threads: every member may be called from any thread.
class Replays {
 public:
  Replays(EngineState& state, Operations& operations) : state_(state), operations_(operations) {}

  /// Pushes a replay, or where that is no single operation to the engine each of its operations.
  /// Throws what Schedule::Replay throws for its options.
  void Submit(ReplayPool& pool, const ReplayOptions& options, std::source_location site);

  /// Runs a replay whose turn has come on all its variables.
  void BeginReplay(Execution* execution, ReadyList& ready);
  /// Runs operations of a replay that has requested another worker.
  void JoinReplay(Execution* join, ReadyList& ready);
  /// Gives up the join of a replay that is over.
  void DropJoin(Execution* join);
  /// Completes an asynchronous operation, in whatever thread does that.
  void CompleteStep(AsyncStep* step, std::exception_ptr error, ReadyList& ready);

  // For replays that a device does as a graph.

  /// Notes the errors that the variables of a replay, whose turn has come, carry.
  void TakeMarks(Replay& replay);
  /// Runs an operation where there are marks to look at or a trace to write.
  void RunWatched(Replay& replay, uint32_t index, const RunContext& context);
  /// Gives up the replay's variables, each with its mark.
  void ReleaseMarked(Replay& replay, ReadyList& ready, Leftovers& leftovers, const FenceRef& fence);
  /// Ends a replay all of whose operations are over.
  void EndReplay(Replay& replay, ReadyList& ready);
  /// Drops a reference to the replay.
  void DropReplay(Replay& replay, ReadyList& ready);

 private:
  enum class VisitEnd { kNothingReady, kYielded, kEnded };

  void BindVariables(Replay& replay, std::span<const VariableBinding> bindings) const;
  void PushOperations(const std::shared_ptr<Replay>& replay);
  Execution* TakeOperation(const std::shared_ptr<Replay>& replay, uint32_t index,
                           std::span<DependencyVariable* const> variables);
  std::vector<TracedPush> TracedReplay(const Replay& replay) const;
  std::vector<TracedPush> TracedGraph(const Replay& replay) const;
  void VisitReplay(Replay& replay, ReadyList& ready);
  VisitEnd RunReady(Replay& replay, VisitExecution& visit);
  bool MustYield(const Replay& replay, int64_t rank, int64_t runs) const;
  FailureRef FailureOfInputs(const Replay& replay, uint32_t index);
  bool Skip(Replay& replay, uint32_t index);
  bool CallStep(Replay& replay, uint32_t index, const RunContext& context);
  void DropStep(AsyncStep* step);
  FailureRef NewFailure(const Replay& replay, uint32_t index, std::exception_ptr error) noexcept;
  void TraceRun(const Replay& replay, uint32_t index, int64_t begin_ns, bool skipped);

  EngineState& state_;
  Operations& operations_;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_SCHEDULE_REPLAYS_H_
