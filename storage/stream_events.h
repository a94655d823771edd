#ifndef TESSERA_STORAGE_STREAM_EVENTS_H_
#define TESSERA_STORAGE_STREAM_EVENTS_H_

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

  /// True once the event has happened, also where the stream's work failed. Does not wait.
  virtual bool HasHappened(void* event) noexcept = 0;

  /// Returns when the event has happened, or can happen no more because the stream has failed.
  virtual void Wait(void* event) noexcept = 0;

  /// Ends the life of an event, whether it has happened or not.
  virtual void Release(void* event) noexcept = 0;
};

using StreamEventsFactory = std::unique_ptr<StreamEvents> (*)(Device device);

/// Says how streams of devices of `type` are watched; as RegisterSystemAllocator.
bool RegisterStreamEvents(DeviceType type, StreamEventsFactory factory);

/// Null where no back end is registered: work on such devices is done when its call returns.
std::unique_ptr<StreamEvents> MakeStreamEvents(Device device);

}  // namespace tessera

#endif  // TESSERA_STORAGE_STREAM_EVENTS_H_
