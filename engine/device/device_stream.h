#ifndef TESSERA_ENGINE_DEVICE_DEVICE_STREAM_H_
#define TESSERA_ENGINE_DEVICE_DEVICE_STREAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "tessera/base/device.h"

namespace tessera::engine_internal {

/// The use of a device's stream. An engine has one of each for a device that it uses.
enum class StreamRole : uint8_t { kCompute, kCopyIn, kCopyOut, kUrgent };
inline constexpr int kStreamRoles = 4;

/// A point on a stream: reached when everything that was enqueued before it is done.
///
/// Threads: every member may be called from any thread; the event may outlive its stream.
class DeviceEvent {
 public:
  virtual ~DeviceEvent() = default;

  /// Blocks the calling thread, asleep, until the point is reached.
  /// Throws Error(kInternal) if the device failed before it.
  virtual void Synchronize() = 0;
};

/// Work of several operations that a device is given at once.
///
/// Threads: one call at a time.
class DeviceGraph {
 public:
  /// Enqueues the work of one node on `stream`, a handle as DeviceStream::handle returns it.
  using EnqueueNode = std::function<void(uint32_t node, void* stream)>;

  virtual ~DeviceGraph() = default;

  /// Calls `enqueue` for node 0, 1, 2, … in turn, with a stream that only notes what comes, and
  /// keeps that, in place of what was there: node i is to be done after predecessors[i], all of
  /// which are smaller. Throws what `enqueue` throws, and Error(kInternal) if the device refuses;
  /// then nothing is kept.
  virtual void Capture(const std::vector<std::vector<uint32_t>>& predecessors,
                       const EnqueueNode& enqueue) = 0;

  /// Enqueues what was captured on the stream that made the graph. Later captures do not change
  /// what is enqueued. Throws Error(kInternal) if the device refuses.
  virtual void Launch() = 0;
};

/// A queue of work that a device does in order, beside its other queues.
///
/// Threads: every member may be called from any thread.
class DeviceStream {
 public:
  virtual ~DeviceStream() = default;

  /// The value of RunContext::stream.
  virtual void* handle() = 0;

  /// Makes the stream's device the current one of the calling thread, and returns the one before.
  virtual int MakeCurrent() = 0;
  /// Makes a device current that MakeCurrent has returned.
  virtual void MakeCurrentAgain(int device) = 0;

  /// The point behind all that is enqueued. Throws Error(kInternal) if the device refuses.
  virtual std::shared_ptr<DeviceEvent> Record() = 0;

  /// Lets all later work on this stream wait for a point on another one of the same back end. The
  /// calling thread does not wait. Throws Error(kInternal) if the device refuses.
  virtual void WaitFor(DeviceEvent& event) = 0;

  /// An empty graph, which must not outlive the stream. Throws Error(kInternal) if the device
  /// refuses.
  virtual std::unique_ptr<DeviceGraph> NewGraph() = 0;
};

/// While it lives, the stream's device is the current one of the thread. Operations run on top of
/// others, and on NaiveEngine inside their pushers, each of which goes on with its own device.
class CurrentDeviceOf {
 public:
  explicit CurrentDeviceOf(DeviceStream& stream)
      : stream_(stream), previous_(stream.MakeCurrent()) {}
  ~CurrentDeviceOf() { stream_.MakeCurrentAgain(previous_); }
  CurrentDeviceOf(const CurrentDeviceOf&) = delete;
  CurrentDeviceOf& operator=(const CurrentDeviceOf&) = delete;

 private:
  DeviceStream& stream_;
  const int previous_;
};

/// Makes streams for devices of one type.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  /// Throws Error: kInvalidArgument if there is no such device, kFailedPrecondition if the machine
  /// has none that can be used.
  virtual std::unique_ptr<DeviceStream> NewStream(Device device, StreamRole role) = 0;
};

/// Makes `backend` the one of a device type, and returns the one before: null if there was none. A
/// back end calls it from a static initializer with an object that is never destroyed; one that is
/// not linked in is absent. Tests put a simulated one in its place while no engine uses the type.
DeviceBackend* SetDeviceBackend(DeviceType type, DeviceBackend* backend);

/// The back end of a device type; null if this build has none.
DeviceBackend* FindDeviceBackend(DeviceType type);

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_DEVICE_DEVICE_STREAM_H_
