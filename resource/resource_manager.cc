#include "tessera/resource/resource_manager.h"

#include <atomic>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
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

  // Where it grows, the old block goes first, so that the new one may use its memory. Should there
  // be none, this workspace is empty, as it was in the beginning.
  void* GetSpaceBytes(int64_t size_bytes) override {
    if (MustGrow(size_bytes)) {
      storage_->Free(std::exchange(space_, {}));
      space_ = storage_->Alloc(size_bytes, device_, kTag);
    }
    return size_bytes == 0 ? nullptr : space_.dptr;
  }
  void* GetSpaceBytesOnStream(int64_t size_bytes, void* stream) override {
    if (MustGrow(size_bytes)) {
      // The engine has made the stream wait for whoever used the workspace before.
      storage_->FreeOnStream(space_, stream);
      space_ = {};
      space_ = storage_->AllocOnStream(size_bytes, device_, stream, kTag);
    }
    return size_bytes == 0 ? nullptr : space_.dptr;
  }

  PhiloxState* GetRandomState() override {
    throw FailedPrecondition("Resource::GetRandomState: this is workspace on ", device_,
                             "; request ResourceRequest::Type::kRandom");
  }

 private:
  static constexpr std::string_view kTag = "workspace";

  bool MustGrow(int64_t size_bytes) const {
    if (size_bytes < 0) {
      throw InvalidArgument("Resource::GetSpaceBytes: ", size_bytes, " bytes; expected at least 0");
    }
    return size_bytes > space_.size_bytes;
  }

  const Device device_;
  Storage* const storage_;
  Storage::Handle space_;
};

/// A call of SeedRandom: when it began and ended, as numbers that one clock has counted up to.
struct Seeding {
  uint64_t begin = 0;
  std::atomic<uint64_t> end{std::numeric_limits<uint64_t>::max()};
};

class RandomResource final : public Resource {
 public:
  RandomResource(Device device, PhiloxState state, uint64_t now)
      : device_(device), state_(state), seeded_(now) {}

  /// Starts anew, in an operation. Of calls that overlap, the one that began last is the last for
  /// every generator, also where another one's operation runs after its own.
  void Seed(PhiloxState state, const Seeding& seeding) {
    // Relaxed: what came before this operation, the engine has made visible.
    const bool overtaken =
        seeded_ > seeding.begin && seeded_ < seeding.end.load(std::memory_order_relaxed);
    if (overtaken) return;
    state_ = state;
    seeded_ = seeding.begin;
  }

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
  uint64_t seeded_;  // when the call began that the state comes from
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

  Engine* engine() const { return engine_; }

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
    const auto seeding = std::make_shared<Seeding>();
    std::vector<ResourceHandle> generators;
    uint64_t previous_seed = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const auto& [device, resources] : devices_) {
        if (resources.random.resource) generators.push_back(Handle(resources.random));
      }
      previous_seed = std::exchange(seed_, seed);
      seeding->begin = seed_set_ = ++now_;
    }
    // Without the lock: a push may wait for room, and operations that make it may request. One push
    // for all, so that all start anew or none.
    try {
      if (!generators.empty()) PushSeed(std::move(generators), seed, seeding);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      // Unless somebody has set another one since.
      if (seed_set_ == seeding->begin) seed_ = previous_seed;
      throw;
    }
    End(*seeding);
  }

  void Seed(Device device, uint64_t seed) {
    const auto seeding = std::make_shared<Seeding>();
    ResourceHandle generator;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      generator = Random(device);
      seeding->begin = ++now_;
    }
    // The state lies in host memory, also that of a GPU's generator.
    engine_->PushSync(
        [generator, seed, seeding](RunContext) {
          Generator(generator).Seed(PhiloxState{.seed = seed}, *seeding);
        },
        Device::Cpu(), {}, {generator.var}, {.name = "SeedRandom"});
    End(*seeding);
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

  static RandomResource& Generator(ResourceHandle handle) {
    return static_cast<RandomResource&>(*handle.resource);
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
      random =
          Own(std::make_unique<RandomResource>(device, StateOf(device, seed_), now_), "random");
    }
    return Handle(random);
  }

  void PushSeed(std::vector<ResourceHandle> generators, uint64_t seed,
                const std::shared_ptr<const Seeding>& seeding) {
    std::vector<Variable*> vars;
    for (const ResourceHandle& generator : generators) vars.push_back(generator.var);
    engine_->PushSync(
        [generators = std::move(generators), seed, seeding](RunContext) {
          for (const ResourceHandle& generator : generators) {
            Generator(generator).Seed(StateOf(generator.resource->device(), seed), *seeding);
          }
        },
        Device::Cpu(), {}, vars, {.name = "SeedRandom"});
  }

  void End(Seeding& seeding) {
    const std::lock_guard<std::mutex> lock(mutex_);
    seeding.end.store(++now_, std::memory_order_relaxed);
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
    try {
      engine_->DeleteVariable(owned->var);
    } catch (const std::bad_alloc&) {  // then it goes with the engine
    }
  }

  Engine* const engine_;
  Storage* const storage_;
  const int64_t cpu_spaces_;
  const int64_t gpu_spaces_;

  std::mutex mutex_;
  // Not one of Abseil's maps: they break when operator new throws while they grow.
  std::unordered_map<Device, DeviceResources> devices_ ABSL_GUARDED_BY(mutex_);
  uint64_t seed_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t seed_set_ ABSL_GUARDED_BY(mutex_) = 0;  // when the call began that set seed_
  uint64_t now_ ABSL_GUARDED_BY(mutex_) = 0;       // begins and ends of calls of SeedRandom
};

ResourceManager* ResourceManager::Get() {
  // Without a lock: in the child of a fork a thread that is gone could hold it.
  static constinit std::atomic<ResourceManager*> current{nullptr};
  Engine* const engine = Engine::Get();
  // Acquire: pairs with the exchange by whoever made it.
  ResourceManager* known = current.load(std::memory_order_acquire);
  while (known == nullptr || known->impl_->engine() != engine) {
    auto made = OrResourceExhausted("ResourceManager::Get", [engine] {
      return std::make_unique<ResourceManager>(engine, Storage::Get());
    });
    if (current.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) {
      return made.release();
    }
  }
  return known;
}

ResourceManager::ResourceManager(Engine* engine, Storage* storage)
    : impl_(OrResourceExhausted("ResourceManager::ResourceManager",
                                [&] { return std::make_unique<Impl>(engine, storage); })) {}

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
