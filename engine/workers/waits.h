#ifndef TESSERA_ENGINE_WORKERS_WAITS_H_
#define TESSERA_ENGINE_WORKERS_WAITS_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <mutex>
#include <string_view>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "tessera/base/error.h"
#include "tessera/engine/core/engine_state.h"
#include "tessera/engine/core/variable_queue.h"

namespace tessera::engine_internal {

/// The waits of an engine: for variables, for all operations, and for devices.
///
/// A wait outside of operations sleeps. A wait inside an operation opens a BlockingScope; with a
/// naive scheduler it runs ready operations on top.
///
/// Threads: every member may be called from any thread.
class Waits {
 public:
  explicit Waits(EngineState& state) : state_(state) {}

  /// Does what Engine::WaitForVar does.
  void WaitForVar(DependencyVariable& variable);
  /// Does what Engine::WaitForAll does, outside of operations.
  void WaitForAll();
  /// Throws the failure's error, unless it is null or was reported or cleared.
  void Report(const FailureRef& failure);

  /// Finishes a wait whose turn has come, and appends those that become ready by that.
  void Finish(WaitExecution* wait, ReadyList& ready);

  /// Gives up the variables of an operation that is complete, maybe before its function has
  /// returned: see Release in variable_queue.h.
  void ReleaseVariables(Execution& execution, const FailureRef& failure, ReadyList& ready,
                        Leftovers& leftovers, const FenceRef& fence, BegunList& begun);

  /// Has waits inside operations look again. Cheap if there are none.
  void NotifyInside();

  /// Breaks off the waits inside operations: the process ends, in this thread.
  void EndWithProcess();
  /// Returns whether this thread ends the process, and so may not sleep on. In other threads an
  /// exception would turn the end into a crash.
  bool ends_process() const {
    return abandoned_.load() && std::this_thread::get_id() == ending_thread_;
  }

 private:
  struct Waiter;
  /// The end of a wait inside an operation.
  enum class WaitEnd { kDone, kStopped, kRefused, kProcessEnds };

  void AwaitFence(Fence& fence, bool inside);
  void AwaitTurn(Waiter& waiter);
  void InheritPriority(Waiter& waiter);
  bool LeaveQueue(Waiter& waiter);
  bool LeaveIfDeadlocked(Waiter& waiter);
  void BlockOutside(Waiter& waiter);
  bool MayNotSleep() const;
  Error BrokenOff(WaitEnd end, std::string_view call, std::string_view what) const;
  WaitEnd WaitInside(absl::FunctionRef<bool()> done, Waiter* waiter);
  bool SleepInside(absl::FunctionRef<bool()> done, StallClock& clock, Waiter* waiter, WaitEnd& end);

  EngineState& state_;
  // Held while WouldDeadlock looks around, and while edges leave queues that it must not miss.
  std::mutex graph_mutex_;
  std::mutex inside_mutex_;
  std::atomic<int64_t> waits_inside_{0};  // those that sleepers_ has, for a look without the mutex
  std::list<std::condition_variable*> sleepers_ ABSL_GUARDED_BY(inside_mutex_);
  std::thread::id ending_thread_;       // set before abandoned_
  std::atomic<bool> abandoned_{false};  // the process ends
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_WORKERS_WAITS_H_
