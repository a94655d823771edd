#ifndef TESSERA_ENGINE_DEVICE_STREAM_SET_H_
#define TESSERA_ENGINE_DEVICE_STREAM_SET_H_

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/engine/device/device_stream.h"
#include "tessera/engine/device/fence.h"
#include "tessera/engine/engine.h"

namespace tessera::engine_internal {

/// Who hears that a stream has come to a fence.
class FenceListener {
 public:
  /// Called once for each watched fence, in the stream's watching thread, to wait until the device
  /// has come to it.
  virtual void AwaitWatchedFence(const FenceRef& fence, Execution* execution) = 0;

 protected:
  ~FenceListener() = default;
};

/// A stream that an engine uses, with the thread that sleeps until its events are reached. No other
/// thread waits for the device on the engine's behalf.
class WatchedStream {
 public:
  WatchedStream(std::unique_ptr<DeviceStream> stream, Device device, StreamRole role, int number,
                FenceListener* listener);
  /// Returns when every fence was reached.
  ~WatchedStream();
  WatchedStream(const WatchedStream&) = delete;
  WatchedStream& operator=(const WatchedStream&) = delete;

  DeviceStream& stream() { return *stream_; }
  Device device() const { return device_; }
  StreamRole role() const { return role_; }
  /// 0, 1, 2, … in the order in which the engine came to use them.
  int number() const { return number_; }
  /// "gpu(0) copy-in"
  std::string name() const;

  /// A fence behind all that is enqueued now, for an operation that has enqueued its work.
  /// Throws what DeviceStream::Record throws.
  FenceRef NewFence(const Execution& execution);

  /// Reports the fence, which is one of this stream's, when it is reached. Takes no memory.
  void Watch(FenceRef fence, Execution* execution);

 private:
  void WatchLoop();

  const std::unique_ptr<DeviceStream> stream_;
  const Device device_;
  const StreamRole role_;
  const int number_;
  FenceListener* const listener_;
  std::mutex record_mutex_;  // positions are in the order of the events
  uint64_t position_ ABSL_GUARDED_BY(record_mutex_) = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  FenceRef first_watched_ ABSL_GUARDED_BY(mutex_);  // of a list
  Fence* last_watched_ ABSL_GUARDED_BY(mutex_) = nullptr;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

/// The streams of one engine, made when they are first needed. Safe from any thread.
class StreamSet {
 public:
  explicit StreamSet(FenceListener* listener) : listener_(listener) {}

  /// The stream of `device` for an operation of that kind; it lives as long as the set.
  /// Throws Error(kUnimplemented) if this build has no back end for the device, and what
  /// DeviceBackend::NewStream throws.
  WatchedStream& For(Device device, FnProperty property);

  std::vector<std::string> Names() const;

 private:
  FenceListener* const listener_;
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<WatchedStream>> streams_ ABSL_GUARDED_BY(mutex_);  // only grows
};

}  // namespace tessera::engine_internal

#endif  // TESSERA_ENGINE_DEVICE_STREAM_SET_H_
