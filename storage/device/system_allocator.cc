#include "tessera/storage/device/system_allocator.h"

#include <atomic>

#include "tessera/base/error.h"

namespace tessera {
namespace {

// The array is constant-initialized, so that it is ready when the static initializers of back ends
// run.
constexpr int kNumTypes = 8;
constinit std::atomic<SystemAllocatorFactory> factories[kNumTypes];

bool IsType(DeviceType type) {
  return static_cast<int>(type) >= 0 && static_cast<int>(type) < kNumTypes;
}

}  // namespace

bool RegisterSystemAllocator(DeviceType type, SystemAllocatorFactory factory) {
  TESSERA_DCHECK(IsType(type));
  factories[static_cast<int>(type)].store(factory);
  return true;
}

std::unique_ptr<SystemAllocator> MakeSystemAllocator(Device device) {
  const SystemAllocatorFactory factory =
      IsType(device.type) ? factories[static_cast<int>(device.type)].load() : nullptr;
  if (factory == nullptr) {
    throw Unimplemented("Storage: this build has no memory for ", device,
                        device.type == DeviceType::kCpuShared
                            ? ""
                            : "; GPU and pinned memory need a build with --config=cuda");
  }
  return factory(device);
}

}  // namespace tessera
