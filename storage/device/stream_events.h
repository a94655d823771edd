#ifndef TESSERA_STORAGE_DEVICE_STREAM_EVENTS_H_
#define TESSERA_STORAGE_DEVICE_STREAM_EVENTS_H_

#include <cstdint>
#include <memory>

#include "tessera/base/device.h"

namespace tessera {

/// How far the streams of one device have come: what Storage needs to reuse memory in stream order.
/// A stream is whatever the device calls one; for CUDA a cudaStream_t. Calls for one device never
/// overlap.
class StreamEvents {
 public:
  virtual ~StreamEvents() = default;

  /// An event that happens when the stream has done all that it was given so far.
  /// Throws Error if there can be none.
  virtual void* Record(void* stream) = 0;

  /// A number for the stream that no other stream has had or will have, also none that gets its
  /// handle after its end. The handle itself does where handles do not come back.
  /// Throws Error if there is no such stream.
  virtual uint64_t Identify(void* stream) { return reinterpret_cast<uintptr_t>(stream); }

  /// True once the event has happened. Does not wait. Where the device has failed and cannot tell,
  /// false: work that was under way may still write.
  virtual bool HasHappened(void* event) noexcept = 0;

  /// Returns true when the event has happened, false where the device has failed and cannot tell.
  virtual bool Wait(void* event) noexcept = 0;

  /// Ends the life of an event, whether it has happened or not.
  virtual void Release(void* event) noexcept = 0;
};

/// Makes the watcher of one device's streams. Throws Error if there is no such device.
using StreamEventsFactory = std::unique_ptr<StreamEvents> (*)(Device device);

/// Says how streams of devices of `type` are watched; as RegisterSystemAllocator.
bool RegisterStreamEvents(DeviceType type, StreamEventsFactory factory);

/// Null where no back end is registered: work on such devices is done when its call returns.
std::unique_ptr<StreamEvents> MakeStreamEvents(Device device);

}  // namespace tessera

#endif  // TESSERA_STORAGE_DEVICE_STREAM_EVENTS_H_
