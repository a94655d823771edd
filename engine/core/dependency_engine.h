#ifndef TESSERA_ENGINE_CORE_DEPENDENCY_ENGINE_H_
#define TESSERA_ENGINE_CORE_DEPENDENCY_ENGINE_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "tessera/base/error.h"
#include "tessera/engine/core/begun_list.h"
#include "tessera/engine/core/completion.h"
#include "tessera/engine/core/dependency.h"
#include "tessera/engine/core/execution.h"
#include "tessera/engine/core/failure.h"
#include "tessera/engine/core/futex_lock.h"
#include "tessera/engine/core/progress.h"
#include "tessera/engine/core/record_pool.h"
#include "tessera/engine/core/scheduler.h"
#include "tessera/engine/device/stream_set.h"
#include "tessera/engine/engine.h"
#include "tessera/engine/lifetime/process_life.h"
#include "tessera/engine/observe/stall_report.h"
#include "tessera/engine/observe/trace_recorder.h"
#include "tessera/engine/workers/thread_frame.h"

namespace tessera::engine_internal {

class Recording;
class ReplayPool;
struct RecordedDeletion;
struct AsyncStep;

/// EngineOptions with every default filled in.
struct ResolvedOptions {
  int workers = 1;
  int64_t max_pending = 0;
  int64_t stall_report_ms = 0;
  std::function<void(const std::string&)> stall_report;
};

/// An engine.
///
/// How an operation passes through: Push takes a record from a pool, fills it and lets it take its
/// place on its variables (Acquire). When its turn has come on all of them it goes to the
/// scheduler, and from there to Run in some thread. Run calls the function; Complete gives up the
/// variables and collects those whose turn has come, and so on. Waits and deletions stand in the
/// same queues but are never dispatched: Complete finishes them on the spot.
///
/// An operation of a device passes through in two steps. When its function has returned it is
/// issued: it gives up its variables and leaves its fence with them. When the device comes to the
/// fence it is complete. Those who get their turn meanwhile go on at once if they are on the same
/// stream, make their stream wait if they are on another, and else are put aside until the fence.
///
/// The order that this makes (and that ThreadSanitizer sees, since all of it is in our own code):
/// a variable's lock orders what ran before on the variable, the ready queue's lock hands an
/// operation from thread to thread, and a wait's mutex or `completed_` takes results to the waiter.
class DependencyEngine final : public Engine,
                               private CompletionListener,
                               private FenceListener,
                               private OperationRunner {
 public:
  Variable* NewVariable(std::string_view name) final;
  void DeleteVariable(Variable* variable) final;
  void PushSync(SyncFn fn, Device device, VariableList reads, VariableList writes,
                const PushOptions& options, std::source_location site) final;
  void PushAsync(AsyncFn fn, Device device, VariableList reads, VariableList writes,
                 const PushOptions& options, std::source_location site) final;
  EngineOperator* NewOperator(SyncFn fn, VariableList reads, VariableList writes,
                              const PushOptions& options, std::source_location site) final;
  EngineOperator* NewOperator(AsyncFn fn, VariableList reads, VariableList writes,
                              const PushOptions& options, std::source_location site) final;
  void Push(EngineOperator* op, Device device, int priority, std::source_location site) final;
  void DeleteOperator(EngineOperator* op) final;
  std::unique_ptr<Schedule> Record(const std::function<void()>& pushes,
                                   const RecordOptions& options) final;
  void WaitForVar(Variable* variable) final;
  void WaitForAll() final;
  void Throw(Variable* variable) final;
  bool IsIdle(Variable* variable) final;
  void Stop() final;
  void Start() final;
  void Shutdown() final;
  EngineCounters counters() const final { return progress_.counters(); }
  std::string DebugString() const final;
  void StartTrace() final;
  std::string StopTrace() final;

  /// Whether `kind` is kThreaded or kNaive.
  DependencyEngine(EngineKind kind, const ResolvedOptions& options);
  ~DependencyEngine() override { Shutdown(); }

  int num_workers() const override { return scheduler_->num_workers(); }

  /// Whether it was made before a fork that began this process.
  bool forked() const { return fork_watch_.forked(); }

  /// Stop, for the last time: waits inside operations end with an error.
  void EndWithProcess();

 private:
  class BlockingScope;
  class RecordedSchedule;
  enum class VisitEnd { kNothingReady, kYielded, kEnded };
  enum class GraphLaunch { kDone, kTaken, kRefused };
  struct Waiter;
  /// How a wait inside an operation ends.
  enum class WaitEnd { kDone, kStopped, kRefused, kProcessEnds };

  std::unique_ptr<Scheduler> NewScheduler(EngineKind kind);

  // Pushing (dependency_engine.cc).
  void CheckDevice(Device device, FnProperty property, std::string_view operation);
  DependencyVariable* Checked(Variable* variable, std::string_view operation) const;
  void CheckAccepting(std::string_view operation) const;
  void FillEdges(std::span<Edge> edges, VariableList reads, VariableList writes,
                 VariableList updates, std::string_view operation) const;
  static void CheckAlive(DependencyVariable& variable, std::string_view operation);
  OperatorRecord* MakeOperator(AnyFn fn, VariableList reads, VariableList writes,
                               const PushOptions& options);
  void PushFunction(AnyFn fn, Device device, VariableList reads, VariableList writes,
                    const PushOptions& options, std::source_location site);
  Execution* TakeExecution(Device device, FnProperty property, int priority,
                           std::source_location site);
  void GiveExecution(Execution* execution);
  void EndExecution(Execution* execution);
  std::unique_ptr<OperatorRecord> TakeLastUse(Execution& execution);
  void RecycleExecution(Execution* execution);
  bool Delete(DependencyVariable* variable, uint64_t id) noexcept;
  void Submit(Execution* execution);
  void AfterAcquire(Execution* execution, bool ready_now, uint64_t pushed);
  TracedPush Traced(Execution& execution) const;

  void CheckNotForked(std::string_view call) const;

  // Running (dependency_engine_run.cc).
  void Run(Execution* execution, ReadyList& ready) final;
  void RunOnHost(Execution* execution, const FailureRef& input_failure, ReadyList& ready);
  FailureRef FailureOfInputs(Execution& execution, const FailureRef& device_failure);
  FailureRef NewFailure(const Execution& execution, std::exception_ptr error) noexcept;
  std::shared_ptr<Completion> NewCompletion(Execution* execution);
  void RunAsync(Execution* execution, std::shared_ptr<Completion> completion, const AsyncFn& fn,
                const RunContext& context);
  void OnExecutionComplete(Execution* execution, std::exception_ptr error) final;
  void CompleteAsync(Execution* execution, std::exception_ptr error, ReadyList& ready);
  void Complete(Execution* execution, const FailureRef& failure, ReadyList& ready);
  void ReleaseVariables(Execution& execution, const FailureRef& failure, ReadyList& ready,
                        Leftovers& leftovers, const FenceRef& fence);
  void DispatchAll(ReadyList& ready);
  void FinishInline(ReadyList& ready);
  void FinishWait(WaitExecution* wait, ReadyList& ready);
  void FinishDelete(Execution* execution, ReadyList& operations);
  static bool DropReference(Execution& execution);
  void TraceRun(const Execution& execution, int64_t begin_ns, bool skipped);
  void TraceRun(uint64_t sequence, std::string_view name, int64_t begin_ns, bool skipped);

  // Schedules (dependency_engine_replay.cc).
  void CheckNotRecording(std::string_view call) const;
  void Note(Recording& recording, OperatorRecord* op, Device device, int priority,
            std::source_location site);
  void NoteDeletion(Recording& recording, DependencyVariable* variable);
  void DeleteRecorded(std::span<const RecordedDeletion> deletions);
  void SubmitReplay(ReplayPool& pool, const ReplayOptions& options, std::source_location site);
  void BindVariables(Replay& replay, std::span<const VariableBinding> bindings) const;
  void PushOperations(const std::shared_ptr<Replay>& replay);
  Execution* TakeOperation(const std::shared_ptr<Replay>& replay, uint32_t index,
                           std::span<DependencyVariable* const> variables);
  std::vector<TracedPush> TracedReplay(const Replay& replay) const;
  void TakeMarks(Replay& replay);
  void BeginReplay(Execution* execution, ReadyList& ready);
  void JoinReplay(Execution* join, ReadyList& ready);
  void CallHelp(Replay& replay, int64_t rank);
  void VisitReplay(Replay& replay, ReadyList& ready);
  void SuspendVisit(Execution* current);
  void ResumeVisit(Execution* current);
  VisitEnd RunReady(Replay& replay, VisitExecution& visit);
  bool MustYield(const Replay& replay, int64_t rank, int64_t runs) const;
  FailureRef FailureOfInputs(const Replay& replay, uint32_t index);
  bool Skip(Replay& replay, uint32_t index);
  void RunWatched(Replay& replay, uint32_t index, const RunContext& context);
  bool CallStep(Replay& replay, uint32_t index, const RunContext& context);
  void CompleteStep(AsyncStep* step, std::exception_ptr error, ReadyList& ready);
  void DropStep(AsyncStep* step);
  void ReleaseMarked(Replay& replay, ReadyList& ready, Leftovers& leftovers, const FenceRef& fence);
  void EndReplay(Replay& replay, ReadyList& ready);
  void DropReplay(Replay& replay, ReadyList& ready);
  void DropJoin(Execution* join);
  FailureRef NewFailure(const Replay& replay, uint32_t index, std::exception_ptr error) noexcept;
  void TraceRun(const Replay& replay, uint32_t index, int64_t begin_ns, bool skipped);

  // Operations of devices, and those that come after them (dependency_engine_device.cc).
  void RunAmongDevices(Execution* execution, ReadyList& ready);
  bool PutAside(Execution* execution, const std::vector<FenceRef>& fences);
  void RunOnDevice(Execution* execution, IssuedBefore before, ReadyList& ready);
  FenceRef NewFence(WatchedStream& stream, Execution& execution);
  void Issue(Execution* execution, std::vector<FenceRef> inputs, FailureRef failure, bool skipped,
             ReadyList& ready);
  FailureRef ResolveFence(const FenceRef& last);
  static bool AppendUnresolved(const std::vector<FenceRef>& fences, std::vector<FenceRef>& path);
  void ResolveAfterInputs(Fence& fence);
  void AwaitWatchedFence(const FenceRef& fence, Execution* execution) final;

  // Schedules that are graphs of a device (dependency_engine_graph.cc).
  std::vector<TracedPush> TracedGraph(const Replay& replay) const;
  void RunGraph(Execution* execution, IssuedBefore before, ReadyList& ready);
  void EnqueueReplay(Replay& replay, DeviceStream& stream);
  GraphLaunch LaunchGraph(Replay& replay, DeviceStream& stream);
  void MarkAll(Replay& replay, const FailureRef& failure);
  void IssueGraph(Replay& replay, WatchedStream& stream, std::vector<FenceRef> inputs,
                  ReadyList& ready);
  void EndGraph(Execution* execution);

  // Waiting (dependency_engine_wait.cc).
  void AwaitFence(Fence& fence, bool inside);
  void AwaitTurn(Waiter& waiter);
  void Demand(Waiter& waiter);
  bool LeaveQueue(Waiter& waiter);
  bool LeaveIfDeadlocked(Waiter& waiter);
  void BlockOutside(Waiter& waiter);
  Error BrokenOff(WaitEnd end, std::string_view call, std::string_view what) const;
  WaitEnd WaitInside(absl::FunctionRef<bool()> done, Waiter* waiter);
  bool SleepInside(absl::FunctionRef<bool()> done, StallClock& clock, Waiter* waiter, WaitEnd& end);
  void Report(const FailureRef& failure);
  bool MustReturnAtExit() const;
  void NotifyInside();
  void CheckNotInOperation(std::string_view call) const;

  // Stopping and ending (dependency_engine_stop.cc).
  void HoldOperations(bool at_end);
  void LetOperationsBegin();
  bool BeginShutdown();
  void EndShutdown(bool shut_down);
  void DropJoins();

  const ForkWatch fork_watch_;
  const ResolvedOptions options_;
  const uint64_t id_;
  TraceRecorder trace_;
  const StallReporter stall_;
  Progress progress_;
  const std::unique_ptr<Scheduler> scheduler_;

  // Mutable, because DebugString looks at records under their locks.
  mutable RecordPool<DependencyVariable> variables_;
  RecordPool<Execution> executions_;
  /// Operations and replays without variables, the visits and the asynchronous operations of
  /// replays, and operations that are complete before their functions have returned.
  BegunList begun_;
  std::atomic<uint64_t> next_variable_id_{1};
  FailureLog failures_;
  std::atomic<bool> accepting_{true};
  std::atomic<bool> abandoned_{false};  // the process ends
  std::thread::id ending_thread_;       // where the process ends; set before abandoned_
  /// Threads in OnExecutionComplete, which may come from anywhere and outlast the last operation.
  std::atomic<int64_t> completing_{0};
  /// Set by the first push for a device. Relaxed everywhere: what such an operation leaves with a
  /// variable is seen through the variable's lock, and the flag with it.
  std::atomic<bool> uses_devices_{false};
  DroppedAfterFork<StreamSet> streams_{fork_watch_, static_cast<FenceListener*>(this)};

  // While WouldDeadlock looks around, and while what these must not see happens.
  std::mutex wait_graph_mutex_;
  // Waits inside operations. Who has something for them looks at the number.
  std::mutex inside_mutex_;
  std::atomic<int64_t> waits_inside_{0};
  std::list<std::condition_variable*> sleepers_;  // guarded by inside_mutex_
  // Who waits for another thread's Shutdown.
  std::mutex shutdown_mutex_;
  DroppedAfterFork<std::condition_variable> shutdown_condition_{fork_watch_};
  bool shutting_down_ ABSL_GUARDED_BY(shutdown_mutex_) = false;  // a thread is in Shutdown
  bool shut_down_ ABSL_GUARDED_BY(shutdown_mutex_) = false;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_CORE_DEPENDENCY_ENGINE_H_
