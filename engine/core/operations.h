#ifndef TESSERA_ENGINE_CORE_OPERATIONS_H_
#define TESSERA_ENGINE_CORE_OPERATIONS_H_

#include <cstdint>
#include <exception>
#include <memory>
#include <source_location>
#include <string_view>

#include "tessera/engine/core/completion.h"
#include "tessera/engine/core/engine_state.h"
#include "tessera/engine/core/variable_queue.h"
#include "tessera/engine/workers/waits.h"

namespace tessera::engine_internal {

/// The operations of an engine from their push to their end: takes records from a pool, pushes them
/// on their variables, calls functions, and collects those that a completion makes ready.
///
/// Threads: every member may be called from any thread.
class Operations {
 public:
  Operations(EngineState& state, Waits& waits, CompletionListener* listener)
      : state_(state), waits_(waits), listener_(listener) {}

  /// Takes a record for one push.
  Execution* TakeExecution(Device device, FnProperty property, int priority,
                           std::source_location site);
  /// Gives it back.
  void GiveExecution(Execution* execution);
  /// Pushes the operation. Throws, with the record given back, what Acquire throws.
  void Submit(Execution* execution);
  /// Goes on after Acquire: dispatches what is ready, and waits for room after `pushed` pushes.
  void AfterAcquire(Execution* execution, bool ready_now, uint64_t pushed);
  /// Notes the push of the execution, whose sequence is not known yet.
  TracedPush Traced(Execution& execution) const;

  /// Deletes the variable after its last use. Returns false if that has been asked for before; its
  /// record may by then be another variable, with another number than `id`. If there is no memory
  /// for a place behind that use, the record is lost to others until the engine ends: destructors
  /// call this, and could do nothing about an exception.
  bool Delete(DependencyVariable* variable, uint64_t id) noexcept;

  /// Runs an operation of the host, or skips it because of `input_failure`, and appends those that
  /// become ready by that.
  void RunOnHost(Execution* execution, const FailureRef& input_failure, ReadyList& ready);
  /// Calls an asynchronous operation's function.
  void RunAsync(Execution* execution, std::shared_ptr<Completion> completion, const AsyncFn& fn,
                const RunContext& context);
  /// Completes an asynchronous operation of the host.
  void CompleteAsync(Execution* execution, std::exception_ptr error, ReadyList& ready);
  /// Ends an operation that is complete.
  void Complete(Execution* execution, const FailureRef& failure, ReadyList& ready);
  /// Finishes those of `ready` that are waits and deletions.
  void FinishInline(ReadyList& ready);
  /// Finishes or dispatches all that is ready.
  void DispatchAll(ReadyList& ready);

  std::shared_ptr<Completion> NewCompletion(Execution* execution);
  /// Returns the error that the execution takes on from its inputs, `device_failure` among them; or
  /// null.
  FailureRef FailureOfInputs(Execution& execution, const FailureRef& device_failure);
  FailureRef NewFailure(const Execution& execution, std::exception_ptr error) noexcept;
  void TraceRun(const Execution& execution, int64_t begin_ns, bool skipped);
  void TraceRun(uint64_t sequence, std::string_view name, int64_t begin_ns, bool skipped);
  /// Returns whether it was the last reference.
  static bool DropReference(Execution& execution);
  void ReleaseVariables(Execution& execution, const FailureRef& failure, ReadyList& ready,
                        Leftovers& leftovers, const FenceRef& fence) {
    waits_.ReleaseVariables(execution, failure, ready, leftovers, fence, state_.begun);
  }

 private:
  void EndExecution(Execution* execution);
  std::unique_ptr<OperatorRecord> TakeLastUse(Execution& execution);
  void RecycleExecution(Execution* execution);
  void FinishDelete(Execution* execution, ReadyList& operations);

  EngineState& state_;
  Waits& waits_;
  CompletionListener* const listener_;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_CORE_OPERATIONS_H_
