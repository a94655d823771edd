#include "tessera/resource/resource_manager.h"

#include <mutex>
#include <new>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/base/environment.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

/// Workspace that only ever grows.
class TempSpace final : public Resource {
 public:
  TempSpace(Device device, Storage* storage) : device_(device), storage_(storage) {}
  ~TempSpace() override { storage_->Free(space_); }

  ResourceRequest request() const override { return {ResourceRequest::Type::kTempSpace}; }
  Device device() const override { return device_; }

  void* GetSpaceBytes(int64_t size_bytes) override {
    if (size_bytes < 0) {
      throw InvalidArgument("Resource::GetSpaceBytes: ", size_bytes, " bytes; expected at least 0");
    }
    if (size_bytes == 0) return nullptr;
    if (size_bytes > space_.size_bytes) {
      // The old block first, so that the new one may use its memory. Should there be none, this
      // workspace is empty, as it was in the beginning.
      storage_->Free(std::exchange(space_, {}));
      space_ = storage_->Alloc(size_bytes, device_, "workspace");
    }
    return space_.dptr;
  }

  PhiloxState* GetRandomState() override {
    throw FailedPrecondition("Resource::GetRandomState: this is workspace on ", device_,
                             "; request ResourceRequest::Type::kRandom");
  }

 private:
  const Device device_;
  Storage* const storage_;
  Storage::Handle space_;
};

class RandomResource final : public Resource {
 public:
  RandomResource(Device device, PhiloxState state) : device_(device), state_(state) {}

  ResourceRequest request() const override { return {ResourceRequest::Type::kRandom}; }
  Device device() const override { return device_; }

  void* GetSpaceBytes(int64_t) override {
    throw FailedPrecondition("Resource::GetSpaceBytes: this is a random generator on ", device_,
                             "; request ResourceRequest::Type::kTempSpace");
  }

  PhiloxState* GetRandomState() override { return &state_; }

 private:
  const Device device_;
  PhiloxState state_;
};

/// Calls `body`, which may find no host memory for the manager's own records.
template <typename Body>
auto OrResourceExhausted(const char* call, const Body& body) {
  try {
    return body();
  } catch (const std::bad_alloc&) {
    throw ResourceExhausted(call, ": no host memory is left for the manager's own records");
  }
}

}  // namespace

class ResourceManager::Impl {
 public:
  Impl(Engine* engine, Storage* storage)
      : engine_(engine),
        storage_(storage),
        cpu_spaces_(EnvironmentInt("TESSERA_CPU_TEMP_COPY", 4, 1, 1024)),
        gpu_spaces_(EnvironmentInt("TESSERA_GPU_TEMP_COPY", 1, 1, 1024)) {}

  ~Impl() {
    for (auto& [device, resources] : devices_) {
      for (Owned& space : resources.spaces) Release(&space);
      Release(&resources.random);
    }
  }

  ResourceHandle RequestSpace(Device device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    DeviceResources& resources = devices_[device];
    const auto count =
        static_cast<size_t>(device.type == DeviceType::kGpu ? gpu_spaces_ : cpu_spaces_);
    if (resources.spaces.size() < count) {
      resources.spaces.reserve(count);
      resources.spaces.push_back(Own(std::make_unique<TempSpace>(device, storage_), "workspace"));
      return Handle(resources.spaces.back());
    }
    return Handle(resources.spaces[resources.next_space++ % count]);
  }

  ResourceHandle RequestRandom(Device device) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return Random(device);
  }

  void Seed(uint64_t seed) {
    std::vector<ResourceHandle> generators;
    uint64_t previous_seed = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const auto& [device, resources] : devices_) {
        if (resources.random.resource) generators.push_back(Handle(resources.random));
      }
      previous_seed = std::exchange(seed_, seed);
    }
    if (generators.empty()) return;
    // Without the lock: a push may wait for room, and operations that make it may request. One push
    // for all, so that all start anew or none.
    try {
      PushSeed(generators, seed);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      seed_ = previous_seed;
      throw;
    }
  }

  void Seed(Device device, uint64_t seed) {
    Push(RequestRandom(device), PhiloxState{.seed = seed});
  }

 private:
  struct Owned {
    std::unique_ptr<Resource> resource;
    Variable* var = nullptr;
  };
  struct DeviceResources {
    std::vector<Owned> spaces;
    size_t next_space = 0;
    Owned random;
  };

  static ResourceHandle Handle(const Owned& owned) { return {owned.resource.get(), owned.var}; }

  static PhiloxState StateOf(Device device, uint64_t seed) {
    return {.seed = seed, .stream = static_cast<uint64_t>(device.id)};
  }

  Owned Own(std::unique_ptr<Resource> resource, const char* name) {
    Owned owned;
    owned.resource = std::move(resource);
    owned.var = engine_->NewVariable(name);
    return owned;
  }

  ResourceHandle Random(Device device) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Owned& random = devices_[device].random;
    if (!random.resource) {
      random = Own(std::make_unique<RandomResource>(device, StateOf(device, seed_)), "random");
    }
    return Handle(random);
  }

  void PushSeed(const std::vector<ResourceHandle>& generators, uint64_t seed) {
    std::vector<Variable*> vars;
    for (const ResourceHandle& generator : generators) vars.push_back(generator.var);
    engine_->PushSync(
        [generators, seed](RunContext) {
          for (const ResourceHandle& generator : generators) {
            *generator.resource->GetRandomState() = StateOf(generator.resource->device(), seed);
          }
        },
        Device::Cpu(), {}, vars, {.name = "SeedRandom"});
  }

  void Push(ResourceHandle generator, PhiloxState state) {
    // The state lies in host memory, also that of a GPU's generator.
    engine_->PushSync(
        [generator, state](RunContext) { *generator.resource->GetRandomState() = state; },
        Device::Cpu(), {}, {generator.var}, {.name = "SeedRandom"});
  }

  /// Frees the resource after its last user.
  void Release(Owned* owned) {
    if (!owned->resource) return;
    try {
      engine_->PushSync([owned](RunContext) { owned->resource.reset(); }, Device::Cpu(), {},
                        {owned->var}, {.name = "release resource"});
      // Returns when the push above has run. It reads nothing, so it ends without an error, and
      // this wait takes no user's error away from other waits.
      engine_->WaitForVar(owned->var);
    } catch (const std::bad_alloc&) {
      // No memory for the push: the wait is for the last user, whose error finds nobody else.
      try {
        engine_->WaitForVar(owned->var);
      } catch (...) {  // an operation's error may be of any type
      }
      owned->resource.reset();
    } catch (const Error&) {
      // The engine is shut down: nobody uses the resource any more.
      owned->resource.reset();
    }
    engine_->DeleteVariable(owned->var);
  }

  Engine* const engine_;
  Storage* const storage_;
  const int64_t cpu_spaces_;
  const int64_t gpu_spaces_;

  std::mutex mutex_;
  // Not one of Abseil's maps: they break when operator new throws while they grow.
  std::unordered_map<Device, DeviceResources> devices_ ABSL_GUARDED_BY(mutex_);
  uint64_t seed_ ABSL_GUARDED_BY(mutex_) = 0;
};

ResourceManager* ResourceManager::Get() {
  static ResourceManager* const manager = new ResourceManager(Engine::Get(), Storage::Get());
  return manager;
}

ResourceManager::ResourceManager(Engine* engine, Storage* storage)
    : impl_(std::make_unique<Impl>(engine, storage)) {}

ResourceManager::~ResourceManager() = default;

ResourceHandle ResourceManager::Request(Device device, ResourceRequest request) {
  return OrResourceExhausted("ResourceManager::Request", [&] {
    switch (request.type) {
      case ResourceRequest::Type::kTempSpace:
        return impl_->RequestSpace(device);
      case ResourceRequest::Type::kRandom:
        return impl_->RequestRandom(device);
    }
    throw InvalidArgument("ResourceManager::Request: type ", static_cast<int>(request.type),
                          " is no kind of resource");
  });
}

void ResourceManager::SeedRandom(uint64_t seed) {
  OrResourceExhausted("ResourceManager::SeedRandom", [&] { impl_->Seed(seed); });
}

void ResourceManager::SeedRandom(Device device, uint64_t seed) {
  OrResourceExhausted("ResourceManager::SeedRandom", [&] { impl_->Seed(device, seed); });
}

}  // namespace tessera
