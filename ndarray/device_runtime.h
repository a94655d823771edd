#ifndef TESSERA_NDARRAY_DEVICE_RUNTIME_H_
#define TESSERA_NDARRAY_DEVICE_RUNTIME_H_

#include <cstdint>

#include "tessera/base/device.h"
#include "tessera/tensor/tblob.h"

namespace tessera {

/// What arrays and executors need of devices other than the host: streams, and work on memory that
/// the host cannot touch. A back end implements it once, in a file of its own.
///
/// Threads: every member may be called from any thread.
class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;

  /// Lends a stream of the device, on which nobody else has work, and makes the device the calling
  /// thread's current one. The result is a Stream<gpu>*.
  /// Throws Error: kInvalidArgument if there is no such device, kFailedPrecondition if it refuses.
  virtual void* AcquireStream(Device device) = 0;

  /// Blocks until the work on a stream is done. Throws Error(kInternal) if any of it failed.
  virtual void Wait(void* stream) = 0;

  /// Takes a stream back, on which no work may be left.
  virtual void ReleaseStream(void* stream) noexcept = 0;

  /// Enqueues a copy; each side may be host or device memory, and both must stay valid until the
  /// stream gets there.
  virtual void CopyBytes(void* dst, const void* src, int64_t size_bytes, void* stream) = 0;

  /// Enqueues setting every element to `value`, converted to the blob's type.
  virtual void Fill(const TBlob& dst, double value, void* stream) = 0;
};

/// Makes the runtime of a device type known. Each back end calls it once, from a static
/// initializer, with an object that is never destroyed; one that is not linked in is simply absent.
/// The result is true, so that a constant can be initialized with it.
bool RegisterDeviceRuntime(DeviceType type, DeviceRuntime* runtime);

/// The runtime of a device.
/// Throws Error(kUnimplemented) that names the build configuration if this build has none.
DeviceRuntime& RuntimeFor(Device device);

namespace ndarray_internal {

/// A stream lent for the time of a scope, in which all work is done when the scope ends.
class ScopedStream {
 public:
  explicit ScopedStream(Device device)
      : runtime_(RuntimeFor(device)), stream_(runtime_.AcquireStream(device)) {}
  ~ScopedStream();
  ScopedStream(const ScopedStream&) = delete;
  ScopedStream& operator=(const ScopedStream&) = delete;

  void* get() const { return stream_; }
  /// Waits for the work so far. Throws what DeviceRuntime::Wait throws.
  void Wait();

 private:
  DeviceRuntime& runtime_;
  void* stream_;
  bool waited_ = false;
};

}  // namespace ndarray_internal

/// Calls `fn(void* stream)` for work on a device, and returns when that work is done: with null for
/// the host, with a Stream<gpu>* for a GPU. What an engine operation's function calls; the result
/// is what OpContext::stream takes.
///
/// Throws what fn throws, after waiting for what it had enqueued; Error(kUnimplemented) for a
/// device that this build has no runtime for.
template <typename Fn>
void RunOnDevice(Device device, const Fn& fn) {
  if (device.dev_mask() == cpu::kDevMask) {
    fn(static_cast<void*>(nullptr));
    return;
  }
  ndarray_internal::ScopedStream stream(device);
  fn(stream.get());
  stream.Wait();
}

/// Copies bytes between any two devices, and returns when they are there.
/// Throws Error(kUnimplemented) for a device that this build has no runtime for.
void CopyBytes(void* dst, Device dst_device, const void* src, Device src_device,
               int64_t size_bytes);

/// Where operators for memory on `device` run: the host for every kind of host memory.
constexpr Device ComputeDevice(Device device) {
  return device.dev_mask() == cpu::kDevMask ? Device::Cpu() : device;
}

}  // namespace tessera

#endif  // TESSERA_NDARRAY_DEVICE_RUNTIME_H_
