#ifndef TESSERA_NDARRAY_MEMORY_DEVICE_RUNTIME_H_
#define TESSERA_NDARRAY_MEMORY_DEVICE_RUNTIME_H_

#include <cstdint>

#include "tessera/base/device.h"
#include "tessera/base/number.h"
#include "tessera/tensor/tblob.h"

namespace tessera {

/// The functions of a device other than the host that arrays and executors need: streams, and work
/// on memory that the host cannot access. Each back end implements it once, in its own file.
///
/// Threads: every member may be called from any thread.
class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;

  /// Lends a stream of the device that has no other user, and makes the device the calling thread's
  /// current one. The result is a Stream<gpu>*. Throws Error(kInvalidArgument) if there is no such
  /// device, and Error(kFailedPrecondition) if the device refuses.
  virtual void* AcquireStream(Device device) = 0;

  /// Blocks until the work on a stream is done. Throws Error(kInternal) if any of it failed.
  virtual void Wait(void* stream) = 0;

  /// Returns a lent stream. Requires: no work is left on it.
  virtual void ReleaseStream(void* stream) noexcept = 0;

  /// Enqueues a copy. Each side may be host or device memory, and both must stay valid until the
  /// stream has made the copy.
  virtual void CopyBytes(void* dst, const void* src, int64_t size_bytes, void* stream) = 0;

  /// Enqueues setting every element to `value`, converted to the blob's type.
  virtual void Fill(const TBlob& dst, const Number& value, void* stream) = 0;
};

/// Registers the runtime of a device type, and returns true so that a constant can be initialized
/// with the call. Each back end calls it once, from a static initializer, with an object that is
/// never destroyed. A back end that is not linked in is absent.
bool RegisterDeviceRuntime(DeviceType type, DeviceRuntime* runtime);

/// Returns whether this build has a runtime for devices of a type.
bool HasDeviceRuntime(DeviceType type);

/// Returns the runtime of a device. Throws Error(kUnimplemented) that names the build configuration
/// if this build has none.
DeviceRuntime& RuntimeFor(Device device);

namespace ndarray_internal {

/// A stream that is lent for a scope. All work on it must be done when the scope ends.
class ScopedStream {
 public:
  explicit ScopedStream(Device device)
      : runtime_(RuntimeFor(device)), stream_(runtime_.AcquireStream(device)) {}
  ~ScopedStream();
  ScopedStream(const ScopedStream&) = delete;
  ScopedStream& operator=(const ScopedStream&) = delete;

  void* get() const { return stream_; }
  /// Waits for the work enqueued so far. Throws what DeviceRuntime::Wait throws.
  void Wait();

 private:
  DeviceRuntime& runtime_;
  void* stream_;
  bool waited_ = false;
};

}  // namespace ndarray_internal

/// Calls `fn(void* stream)` for work on a device, and returns when that work is done. The stream is
/// null for the host and a Stream<gpu>* for a GPU, as OpContext::stream is. Functions of engine
/// operations call it.
///
/// Throws what fn throws, after waiting for the work that it had enqueued. Throws
/// Error(kUnimplemented) for a device without a runtime in this build.
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

/// Copies bytes between any two devices, and returns when the copy is made. Throws
/// Error(kUnimplemented) for a device without a runtime in this build.
void CopyBytes(void* dst, Device dst_device, const void* src, Device src_device,
               int64_t size_bytes);

/// Returns the device on which operators for memory on `device` run: the host for every kind of
/// host memory.
constexpr Device ComputeDevice(Device device) {
  return device.dev_mask() == cpu::kDevMask ? Device::Cpu() : device;
}

}  // namespace tessera

#endif  // TESSERA_NDARRAY_MEMORY_DEVICE_RUNTIME_H_
