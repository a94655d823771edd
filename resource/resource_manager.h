#ifndef TESSERA_RESOURCE_RESOURCE_MANAGER_H_
#define TESSERA_RESOURCE_RESOURCE_MANAGER_H_

#include <cstdint>
#include <memory>

#include "tessera/base/device.h"
#include "tessera/engine/engine.h"
#include "tessera/resource/resource.h"
#include "tessera/storage/storage.h"

namespace tessera {

/// A resource and the engine variable that orders its users. Both belong to the manager.
struct ResourceHandle {
  Resource* resource = nullptr;  ///< valid as long as the manager
  Variable* var = nullptr;       ///< to be among what the operation changes
};

/// Hands out workspace and random generators, a few of each for every device.
///
/// Whoever uses a resource inside an engine operation puts its variable into the operation's
/// mutable list. Operations that hold different workspaces may then run side by side, and those
/// that share one wait for each other.
///
///     ResourceHandle space = ResourceManager::Get()->Request(
///         Device::Cpu(), {ResourceRequest::Type::kTempSpace});
///     engine->PushSync([=](RunContext) { use(space.resource->GetSpaceBytes(n)); },
///                      Device::Cpu(), reads, {output, space.var});
///
/// Threads: every member may be called from any thread.
class ResourceManager {
 public:
  /// The process's manager over Engine::Get() and Storage::Get(), never destroyed. In the child of
  /// a fork it is a fresh one, as the engine is.
  static ResourceManager* Get();

  /// A manager of its own. Engine and storage are borrowed and must outlive it. The number of
  /// workspaces comes from TESSERA_CPU_TEMP_COPY (4) and TESSERA_GPU_TEMP_COPY (1), the first seed
  /// is 0.
  ResourceManager(Engine* engine, Storage* storage);

  /// Waits for the operations that use its resources, then frees them. Not inside an operation, nor
  /// while the engine is stopped.
  ~ResourceManager();
  ResourceManager(const ResourceManager&) = delete;
  ResourceManager& operator=(const ResourceManager&) = delete;

  /// Workspaces are handed out in turn, so that operators which ask one after the other get
  /// different ones as long as there are any. There is one generator for a device.
  /// The result stays valid as long as the manager. No memory is taken before a workspace is used.
  ResourceHandle Request(Device device, ResourceRequest request);

  /// Starts the generators of all devices, and of those used later, anew: each on its own
  /// independent stream of `seed`, chosen by the device's number. Takes its turn among the
  /// operations already pushed, and returns at once. Of calls that overlap, one is the last for all
  /// generators.
  void SeedRandom(uint64_t seed);

  /// Starts one device's generator anew: it will draw what Random<Dev>(seed) draws.
  void SeedRandom(Device device, uint64_t seed);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera

#endif  // TESSERA_RESOURCE_RESOURCE_MANAGER_H_
