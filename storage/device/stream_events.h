#ifndef TESSERA_STORAGE_DEVICE_STREAM_EVENTS_H_
#define TESSERA_STORAGE_DEVICE_STREAM_EVENTS_H_

#include <cstdint>
#include <memory>

#include "tessera/base/device.h"

namespace tessera {

/// The events of one device's streams, by which Storage reuses memory in stream order. A stream is
/// a handle of the device's own kind, for CUDA a cudaStream_t. Calls for one device never overlap.
class StreamEvents {
 public:
  virtual ~StreamEvents() = default;

  /// Records an event that happens when the stream has done all work submitted to it so far.
  /// Throws Error if the event cannot be recorded.
  virtual void* Record(void* stream) = 0;

  /// Returns a number that identifies the stream. No other stream ever has it, not even one that
  /// reuses the handle of a destroyed stream. The default, the handle itself, serves devices that
  /// never reuse handles.
  /// Throws Error if the stream does not exist.
  virtual uint64_t Identify(void* stream) { return reinterpret_cast<uintptr_t>(stream); }

  /// Returns true if the event has happened. Does not wait. Returns false if the device has failed
  /// and cannot tell, because running work may still write.
  virtual bool HasHappened(void* event) noexcept = 0;

  /// Waits for the event and returns true. Returns false if the device has failed and cannot tell.
  virtual bool Wait(void* event) noexcept = 0;

  /// Destroys an event, even if it has not happened.
  virtual void Release(void* event) noexcept = 0;
};

/// A function that makes the events of one device's streams. It throws Error if the device does not
/// exist.
using StreamEventsFactory = std::unique_ptr<StreamEvents> (*)(Device device);

/// Registers the factory for devices of `type`, in the way of RegisterSystemAllocator.
bool RegisterStreamEvents(DeviceType type, StreamEventsFactory factory);

/// Makes the events of a device's streams. Returns null if no back end is registered: work on such
/// devices is done when its call returns.
std::unique_ptr<StreamEvents> MakeStreamEvents(Device device);

}  // namespace tessera

#endif  // TESSERA_STORAGE_DEVICE_STREAM_EVENTS_H_
