#ifndef TESSERA_ENGINE_DEVICE_DEVICES_H_
#define TESSERA_ENGINE_DEVICE_DEVICES_H_

#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/engine/core/engine_state.h"
#include "tessera/engine/core/operations.h"
#include "tessera/engine/device/stream_set.h"

namespace tessera::engine_internal {

/// The operations of an engine that are for devices.
///
/// When the function of such an operation has returned the operation is issued: it gives up its
/// variables and leaves its fence with them. When the device comes to the fence it is complete.
/// Those that get their turn meanwhile go on at once if they are on the same stream, make their
/// stream wait if they are on another, and else are deferred until the fence.
///
/// Threads: every member may be called from any thread.
class Devices {
 public:
  Devices(EngineState& state, Operations& operations, FenceListener* listener)
      : state_(state), operations_(operations), streams_(state.fork_watch, listener) {}

  /// Throws, naming `operation`, what StreamSet::For throws for the device.
  void Check(Device device, FnProperty property, std::string_view operation);
  std::vector<std::string> StreamNames() const { return streams_->Names(); }
  /// The stream of an execution for a device.
  WatchedStream& StreamOf(const Execution& execution) {
    return streams_->For(execution.device, execution.property);
  }

  /// Leaves the execution with the fences, the last of which dispatches it once more; the caller
  /// must not touch it any more. Returns false if all of them are done by now.
  bool Defer(Execution* execution, const std::vector<FenceRef>& fences);
  /// Calls the function of an operation and issues it.
  void RunOnDevice(Execution* execution, IssuedBefore before, ReadyList& ready);
  /// Issues an asynchronous operation that is complete.
  void CompleteAsync(Execution* execution, std::exception_ptr error, ReadyList& ready);
  /// Returns the fence of what is enqueued, with the memory that its variables need for it. Throws
  /// what the device throws.
  FenceRef NewFence(WatchedStream& stream, Execution& execution);

  /// Waits until the device has come to the fence, and returns what then marks the variables: the
  /// earliest error of what the operation reads, or else what the device reports here; or null.
  FailureRef ResolveFence(const FenceRef& last);

 private:
  void Issue(Execution* execution, std::vector<FenceRef> inputs, FailureRef failure, bool skipped,
             ReadyList& ready);
  static bool AppendUnresolved(const std::vector<FenceRef>& fences, std::vector<FenceRef>& path);
  void ResolveAfterInputs(Fence& fence);

  EngineState& state_;
  Operations& operations_;
  DroppedAfterFork<StreamSet> streams_;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_DEVICE_DEVICES_H_
