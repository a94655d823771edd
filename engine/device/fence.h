#ifndef TESSERA_ENGINE_DEVICE_FENCE_H_
#define TESSERA_ENGINE_DEVICE_FENCE_H_

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <source_location>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/engine/core/failure.h"
#include "tessera/engine/device/device_stream.h"

namespace tessera::engine_internal {

struct Execution;
class WatchedStream;

/// The end of an operation that is issued to a device's stream: its function has returned, what it
/// enqueued goes on. Variables that the operation used hold its fence instead of the operation.
///
/// Threads: the constant members are free; `failure` may be read by whom `done` was true for.
struct Fence {
  Fence(const WatchedStream* stream_in, uint64_t position_in, std::shared_ptr<DeviceEvent> event_in,
        std::string operation_in, std::source_location site_in, uint64_t sequence_in)
      : stream(stream_in),
        position(position_in),
        event(std::move(event_in)),
        operation(std::move(operation_in)),
        site(site_in),
        sequence(sequence_in) {}

  /// Counts `execution` among those that Finish returns. Returns false if the fence is done.
  bool AddBlocked(Execution* execution) {
    std::lock_guard<std::mutex> hold(mutex);
    if (done.load(std::memory_order_relaxed)) return false;
    blocked.push_back(execution);
    return true;
  }

  /// The device has come here. Returns the executions that were blocked. Called once.
  std::vector<Execution*> Finish(FailureRef device_failure) {
    std::lock_guard<std::mutex> hold(mutex);
    failure = std::move(device_failure);
    // Sequentially consistent, as `done` of other waits: those who park look at it again after
    // they have announced themselves.
    done.store(true);
    condition.notify_all();
    return std::move(blocked);
  }

  const WatchedStream* const stream;
  const uint64_t position;  ///< on its stream: a fence that is passed implies all lower ones
  const std::shared_ptr<DeviceEvent> event;
  const std::string operation;  // for DebugString; the record of the operation may be gone
  const std::source_location site;
  const uint64_t sequence;
  int64_t issued_ns = -1;  ///< for the trace; set before anyone else has the fence

  /// Nothing was enqueued, for an error that the variables carry: what the device reports here is
  /// another's. Set before anyone else has the fence.
  bool skipped = false;

  /// The inputs that were not done when the operation was issued: their errors are its own. Set
  /// before anyone else has the fence, then guarded by resolve_mutex.
  std::vector<std::shared_ptr<Fence>> inputs;
  std::mutex resolve_mutex;  ///< taken before that of an input, never after it
  bool resolved ABSL_GUARDED_BY(resolve_mutex) = false;
  FailureRef resolution ABSL_GUARDED_BY(resolve_mutex);

  // The stream's.
  Execution* watched = nullptr;         ///< told when the fence is reached
  std::shared_ptr<Fence> next_watched;  ///< the one after it on the stream

  std::atomic<bool> done{false};
  FailureRef failure;  ///< what the device reported; written before `done`
  std::mutex mutex;
  std::condition_variable condition;  ///< `done` changes
  std::vector<Execution*> blocked ABSL_GUARDED_BY(mutex);
};

using FenceRef = std::shared_ptr<Fence>;

/// The operations that are issued on a variable and may not be done: the last write, and the reads
/// after it (for each stream the last one, since a stream keeps its order).
struct DeviceUses {
  FenceRef write;
  std::vector<FenceRef> reads;
  std::unique_ptr<DeviceUses> after_write;  ///< empty, for what is issued after the next write
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_DEVICE_FENCE_H_
