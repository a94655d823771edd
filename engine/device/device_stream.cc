#include "tessera/engine/device/device_stream.h"

#include <map>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace tessera::engine_internal {
namespace {

struct Backends {
  std::mutex mutex;
  std::map<DeviceType, DeviceBackend*> by_type ABSL_GUARDED_BY(mutex);
};

Backends& TheBackends() {
  // Never destroyed: static initializers fill it, and engines may outlive static objects.
  static auto& backends = *new Backends;
  return backends;
}

}  // namespace

DeviceBackend* SetDeviceBackend(DeviceType type, DeviceBackend* backend) {
  Backends& backends = TheBackends();
  std::lock_guard<std::mutex> hold(backends.mutex);
  DeviceBackend*& place = backends.by_type[type];
  DeviceBackend* const previous = place;
  place = backend;
  return previous;
}

DeviceBackend* FindDeviceBackend(DeviceType type) {
  Backends& backends = TheBackends();
  std::lock_guard<std::mutex> hold(backends.mutex);
  const auto it = backends.by_type.find(type);
  return it == backends.by_type.end() ? nullptr : it->second;
}

}  // namespace tessera::engine_internal
