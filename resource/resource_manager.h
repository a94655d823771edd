#ifndef TESSERA_RESOURCE_RESOURCE_MANAGER_H_
#define TESSERA_RESOURCE_RESOURCE_MANAGER_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "tessera/base/device.h"
#include "tessera/engine/engine.h"
#include "tessera/resource/resource.h"
#include "tessera/storage/storage.h"
#include "tessera/tensor/philox.h"

namespace tessera {

/// A resource and the engine variable that orders its users. The manager owns both.
struct ResourceHandle {
  Resource* resource = nullptr;  ///< valid as long as the manager
  Variable* var = nullptr;       ///< an operation that uses the resource must write it
};

/// The positions of all random generators, from which a program may draw the same numbers again.
struct RandomState {
  uint64_t seed = 0;  ///< the seed of generators that are not used yet
  std::vector<std::pair<Device, PhiloxState>> generators = {};  ///< those in use, each once
};

/// Provides workspace and random generators, a few of each for every device.
///
/// An engine operation that uses a resource must have the resource's variable in its mutable list.
/// Operations with different workspaces may then run in parallel, and operations that share one
/// wait for each other.
///
///     ResourceHandle space = ResourceManager::Get()->Request(
///         Device::Cpu(), {ResourceRequest::Type::kTempSpace});
///     engine->PushSync([=](RunContext) { use(space.resource->GetSpaceBytes(n)); },
///                      Device::Cpu(), reads, {output, space.var});
///
/// Threads: every member may be called from any thread.
class ResourceManager {
 public:
  /// Returns the process's manager, which uses Engine::Get() and Storage::Get() and is never
  /// destroyed. The child of a fork has a new manager, as it has a new engine.
  static ResourceManager* Get();

  /// Constructs a manager over an engine and a storage, which must outlive it.
  /// TESSERA_CPU_TEMP_COPY (4) and TESSERA_GPU_TEMP_COPY (1) set the number of workspaces. The
  /// first seed is 0.
  ResourceManager(Engine* engine, Storage* storage);

  /// Waits for the operations that use the manager's resources, then frees them. Requires: not
  /// called inside an operation or while the engine is stopped.
  ~ResourceManager();
  ResourceManager(const ResourceManager&) = delete;
  ResourceManager& operator=(const ResourceManager&) = delete;

  /// Returns a resource of the device. Workspaces are returned in rotation, so that operators which
  /// request one after the other get different ones as far as possible. Each device has one
  /// generator. The result is valid as long as the manager. Memory is allocated only when a
  /// workspace is used.
  ResourceHandle Request(Device device, ResourceRequest request);

  /// Restarts the generators of all devices, and of those used later, each on its own independent
  /// stream of `seed`, which the device's number selects. Takes effect in order with the operations
  /// already pushed, and returns at once. If calls overlap, one of them is the last for all
  /// generators.
  void SeedRandom(uint64_t seed);

  /// Restarts one device's generator: it will draw the numbers of Random<Dev>(seed). Takes effect
  /// in order with the operations already pushed.
  void SeedRandom(Device device, uint64_t seed);

  /// Returns the positions of the generators after the operations already pushed, and waits for
  /// those that draw numbers.
  RandomState GetRandomState();

  /// Sets all generators, so that later operations draw the numbers that followed GetRandomState. A
  /// generator that the state does not have restarts on its stream of the state's seed. Takes
  /// effect as SeedRandom does.
  void SetRandomState(const RandomState& state);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera

#endif  // TESSERA_RESOURCE_RESOURCE_MANAGER_H_
