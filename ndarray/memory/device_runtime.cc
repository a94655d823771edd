#include "tessera/ndarray/memory/device_runtime.h"

#include <atomic>
#include <cstring>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// Constant-initialized, so that it is ready before the static initializers of back ends run.
constexpr int kNumTypes = 8;
constinit std::atomic<DeviceRuntime*> runtimes[kNumTypes];

bool IsType(DeviceType type) {
  return static_cast<int>(type) >= 0 && static_cast<int>(type) < kNumTypes;
}

}  // namespace

bool RegisterDeviceRuntime(DeviceType type, DeviceRuntime* runtime) {
  TESSERA_DCHECK(IsType(type));
  runtimes[static_cast<int>(type)].store(runtime);
  return true;
}

namespace {

/// Returns null if there is none.
DeviceRuntime* FindRuntime(DeviceType type) {
  return IsType(type) ? runtimes[static_cast<int>(type)].load() : nullptr;
}

}  // namespace

bool HasDeviceRuntime(DeviceType type) { return FindRuntime(type) != nullptr; }

DeviceRuntime& RuntimeFor(Device device) {
  DeviceRuntime* const runtime = FindRuntime(device.type);
  if (runtime == nullptr) {
    throw Unimplemented("NDArray: this build has no runtime for ", device,
                        "; GPU code is built by --config=cuda");
  }
  return *runtime;
}

namespace ndarray_internal {

ScopedStream::~ScopedStream() {
  if (!waited_) {
    // An exception is being thrown. Work that was enqueued before it must not outlive the
    // operation, whose memory may be reused at once. A second error is ignored.
    try {
      runtime_.Wait(stream_);
    } catch (...) {
    }
  }
  runtime_.ReleaseStream(stream_);
}

void ScopedStream::Wait() {
  waited_ = true;
  runtime_.Wait(stream_);
}

}  // namespace ndarray_internal

void CopyBytes(void* dst, Device dst_device, const void* src, Device src_device,
               int64_t size_bytes) {
  if (size_bytes == 0) return;
  const bool dst_on_host = dst_device.dev_mask() == cpu::kDevMask;
  const bool src_on_host = src_device.dev_mask() == cpu::kDevMask;
  if (dst_on_host && src_on_host) {
    std::memcpy(dst, src, static_cast<size_t>(size_bytes));
    return;
  }
  const Device device = src_on_host ? dst_device : src_device;
  DeviceRuntime& runtime = RuntimeFor(device);
  RunOnDevice(device, [&](void* stream) { runtime.CopyBytes(dst, src, size_bytes, stream); });
}

}  // namespace tessera
