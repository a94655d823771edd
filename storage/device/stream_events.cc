#include "tessera/storage/device/stream_events.h"

#include <atomic>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// The array is constant-initialized, so that it is ready when the static initializers of back ends
// run.
constexpr int kNumTypes = 8;
constinit std::atomic<StreamEventsFactory> factories[kNumTypes];

bool IsType(DeviceType type) {
  return static_cast<int>(type) >= 0 && static_cast<int>(type) < kNumTypes;
}

}  // namespace

bool RegisterStreamEvents(DeviceType type, StreamEventsFactory factory) {
  TESSERA_DCHECK(IsType(type));
  factories[static_cast<int>(type)].store(factory);
  return true;
}

std::unique_ptr<StreamEvents> MakeStreamEvents(Device device) {
  const StreamEventsFactory factory =
      IsType(device.type) ? factories[static_cast<int>(device.type)].load() : nullptr;
  return factory == nullptr ? nullptr : factory(device);
}

}  // namespace tessera
