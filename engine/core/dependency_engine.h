#ifndef TESSERA_ENGINE_CORE_DEPENDENCY_ENGINE_H_
#define TESSERA_ENGINE_CORE_DEPENDENCY_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "tessera/engine/core/completion.h"
#include "tessera/engine/core/engine_state.h"
#include "tessera/engine/core/operations.h"
#include "tessera/engine/core/scheduler.h"
#include "tessera/engine/core/variable_queue.h"
#include "tessera/engine/device/devices.h"
#include "tessera/engine/device/graph_replays.h"
#include "tessera/engine/device/stream_set.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/lifetime/shutdown_gate.h"
#include "tessera/engine/schedule/replays.h"
#include "tessera/engine/workers/waits.h"

namespace tessera::engine_internal {

struct RecordedDeletion;

/// An engine: checks what it is called with, and hands it to its parts.
///
/// A push takes a record from a pool, fills it and lets it take its place on its variables
/// (Acquire). When its turn has come on all of them it goes to the scheduler, and from there to Run
/// in some thread. Operations calls the function, gives up the variables and collects those whose
/// turn has come, and so on. Waits and deletions stand in the same queues but are never dispatched:
/// Operations finishes them on the spot.
///
/// The order that this makes (and that ThreadSanitizer sees, since all of it is in our own code):
/// a variable's lock orders what ran before on the variable, the ready queue's lock hands an
/// operation from thread to thread, and a wait's mutex or the count of complete operations takes
/// results to the waiter.
class DependencyEngine final : public Engine,
                               private CompletionListener,
                               private FenceListener,
                               private OperationRunner {
 public:
  /// Requires that `kind` is kThreaded or kNaive.
  DependencyEngine(EngineKind kind, const ResolvedOptions& options);
  ~DependencyEngine() override { Shutdown(); }

  Variable* NewVariable(std::string_view name) override;
  void DeleteVariable(Variable* variable) override;
  void PushSync(SyncFn fn, Device device, VariableList reads, VariableList writes,
                const PushOptions& options, std::source_location site) override;
  void PushAsync(AsyncFn fn, Device device, VariableList reads, VariableList writes,
                 const PushOptions& options, std::source_location site) override;
  EngineOperator* NewOperator(SyncFn fn, VariableList reads, VariableList writes,
                              const PushOptions& options, std::source_location site) override;
  EngineOperator* NewOperator(AsyncFn fn, VariableList reads, VariableList writes,
                              const PushOptions& options, std::source_location site) override;
  void Push(EngineOperator* op, Device device, int priority, std::source_location site) override;
  void DeleteOperator(EngineOperator* op) override;
  std::unique_ptr<Schedule> Record(const std::function<void()>& pushes,
                                   const RecordOptions& options) override;
  void WaitForVar(Variable* variable) override;
  void WaitForAll() override;
  void Throw(Variable* variable) override;
  bool IsIdle(Variable* variable) override;
  void Stop() override;
  void Start() override;
  void Shutdown() override;
  int num_workers() const override { return state_.scheduler->num_workers(); }
  EngineCounters counters() const override { return state_.progress.counters(); }
  std::string DebugString() const override;
  void StartTrace() override;
  std::string StopTrace() override;

  /// Returns whether it was made before a fork that began this process.
  bool forked() const { return state_.fork_watch.forked(); }

  /// Stops for the last time: waits inside operations end with an error.
  void EndWithProcess();

 private:
  class RecordedSchedule;

  void Run(Execution* execution, ReadyList& ready) override;
  void RunAmongDevices(Execution* execution, ReadyList& ready);
  void OnExecutionComplete(Execution* execution, std::exception_ptr error) override;
  void AwaitWatchedFence(const FenceRef& fence, Execution* execution) override;

  void CheckNotForked(std::string_view call) const;
  void CheckAccepting(std::string_view operation) const;
  void CheckNotInOperation(std::string_view call) const;
  OperatorRecord* MakeOperator(AnyFn fn, VariableList reads, VariableList writes,
                               const PushOptions& options);
  void PushFunction(AnyFn fn, Device device, VariableList reads, VariableList writes,
                    const PushOptions& options, std::source_location site);

  // Recording (schedule/record.cc).
  void DeleteRecorded(std::span<const RecordedDeletion> deletions);
  void Replay(ReplayPool& pool, const ReplayOptions& options, std::source_location site);

  // Stopping and ending (lifetime/shutdown.cc).
  void HoldOperations(bool at_end);

  EngineState state_;
  Waits waits_;
  Operations operations_;
  Devices devices_;
  Replays replays_;
  GraphReplays graphs_;
  std::atomic<uint64_t> next_variable_id_{1};
  std::atomic<bool> accepting_{true};
  /// Threads in OnExecutionComplete, which may come from anywhere and outlast the last operation.
  std::atomic<int64_t> completing_{0};
  ShutdownGate shutdown_{state_.fork_watch, state_.stall};
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_CORE_DEPENDENCY_ENGINE_H_
