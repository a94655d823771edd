#ifndef TESSERA_ENGINE_DEVICE_GRAPH_REPLAYS_H_
#define TESSERA_ENGINE_DEVICE_GRAPH_REPLAYS_H_

#include <vector>

#include "tessera/engine/core/engine_state.h"
#include "tessera/engine/core/operations.h"
#include "tessera/engine/device/devices.h"
#include "tessera/engine/schedule/replays.h"

namespace tessera::engine_internal {

/// Replays of schedules that are graphs of a device.
///
/// Threads: every member may be called from any thread.
class GraphReplays {
 public:
  GraphReplays(EngineState& state, Operations& operations, Devices& devices, Replays& replays)
      : state_(state), operations_(operations), devices_(devices), replays_(replays) {}

  /// Runs a replay whose turn has come on all its variables; `before` is issued on these.
  void Run(Execution* execution, IssuedBefore before, ReadyList& ready);
  /// Ends a replay whose work the device has done.
  void End(Execution* execution);

 private:
  enum class GraphLaunch { kDone, kTaken, kRefused };

  void EnqueueReplay(Replay& replay, DeviceStream& stream);
  GraphLaunch LaunchGraph(Replay& replay, DeviceStream& stream);
  void MarkAll(Replay& replay, const FailureRef& failure);
  void Issue(Replay& replay, WatchedStream& stream, std::vector<FenceRef> inputs, ReadyList& ready);

  EngineState& state_;
  Operations& operations_;
  Devices& devices_;
  Replays& replays_;
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_DEVICE_GRAPH_REPLAYS_H_
