#include "tessera/resource/resource_manager.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <limits>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "tessera/base/environment.h"
#include "tessera/base/error.h"

namespace tessera {
namespace {

/// Workspace that only grows, except that Trim frees it when memory is short and no operation uses
/// it.
class TempSpace final : public Resource {
 public:
  TempSpace(Device device, Storage* storage) : device_(device), storage_(storage) {}
  ~TempSpace() override { storage_->Free(space_); }

  /// Frees the memory if no operation uses it; `is_unused` asks the engine.
  template <typename IsUnused>
  void Trim(const IsUnused& is_unused) {
    // An operation that begins now waits for the lock in its first call, or is already allocating.
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (lock.owns_lock() && space_.dptr != nullptr && is_unused()) {
      storage_->Free(std::exchange(space_, {}));
    }
  }

  ResourceRequest request() const override { return {ResourceRequest::Type::kTempSpace}; }
  Device device() const override { return device_; }

  // Returns the workspace. If it grows, the old block is freed first, so that the new one may use
  // its memory. If that fails, the workspace is empty, as it was at first.
  void* GetSpaceBytes(int64_t size_bytes) override {
    if (void* space = nullptr; Has(size_bytes, &space)) return space;
    storage_->Free(Take());
    return Keep(storage_->Alloc(size_bytes, device_, kTag));
  }
  void* GetSpaceBytesOnStream(int64_t size_bytes, void* stream) override {
    if (void* space = nullptr; Has(size_bytes, &space)) return space;
    // The engine has made the stream wait for earlier users of the workspace.
    const Storage::Handle outgrown = Take();
    try {
      storage_->FreeOnStream(outgrown, stream);
    } catch (...) {
      Keep(outgrown);
      throw;
    }
    return Keep(storage_->AllocOnStream(size_bytes, device_, stream, kTag));
  }

  PhiloxState* GetRandomState() override {
    throw FailedPrecondition("Resource::GetRandomState: this is workspace on ", device_,
                             "; request ResourceRequest::Type::kRandom");
  }

 private:
  static constexpr std::string_view kTag = "workspace";

  /// Returns whether the workspace already has that size.
  bool Has(int64_t size_bytes, void** space) {
    if (size_bytes < 0) {
      throw InvalidArgument("Resource::GetSpaceBytes: ", size_bytes, " bytes; expected at least 0");
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    *space = size_bytes == 0 ? nullptr : space_.dptr;
    return size_bytes <= space_.size_bytes;
  }
  Storage::Handle Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(space_, {});
  }
  void* Keep(const Storage::Handle& space) {
    const std::lock_guard<std::mutex> lock(mutex_);
    space_ = space;
    return space.dptr;
  }

  const Device device_;
  Storage* const storage_;
  // Excludes the current operation and Trim from each other. It is not held while allocating,
  // because that may call Trim.
  std::mutex mutex_;
  Storage::Handle space_ ABSL_GUARDED_BY(mutex_);
};

/// The begin and end of a call of SeedRandom, as values of one counter.
struct Seeding {
  uint64_t begin = 0;
  std::atomic<uint64_t> end{std::numeric_limits<uint64_t>::max()};
};

class RandomResource final : public Resource {
 public:
  RandomResource(Device device, PhiloxState state, uint64_t now)
      : device_(device), state_(state), seeded_(now) {}

  /// Restarts the sequence, in an operation. If calls overlap, the one that began last is the last
  /// for every generator, even if another call's operation runs after its own.
  void Seed(PhiloxState state, const Seeding& seeding) {
    // Relaxed: the engine has made visible all writes before this operation.
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
  uint64_t seeded_;  // the beginning of the call that has set the state
};

/// Calls `body`. Throws Error(kResourceExhausted) if there is no memory for the manager's records.
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
        gpu_spaces_(EnvironmentInt("TESSERA_GPU_TEMP_COPY", 1, 1, 1024)),
        seeds_(1),
        trimmer_(storage->AddTrimmer([this](Device device) { Trim(device); })) {}

  ~Impl() {
    storage_->RemoveTrimmer(trimmer_);
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

  /// Sets all generators.
  void Set(const RandomState& state) {
    const auto seeding = std::make_shared<Seeding>();
    std::vector<ResourceHandle> generators;
    std::vector<PhiloxState> positions;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const auto& [device, position] : state.generators) Random(device);
      for (const auto& [device, resources] : devices_) {
        if (!resources.random.resource) continue;
        generators.push_back(Handle(resources.random));
        const auto given =
            std::find_if(state.generators.begin(), state.generators.end(),
                         [device = device](const auto& entry) { return entry.first == device; });
        positions.push_back(given == state.generators.end() ? StateOf(device, state.seed)
                                                            : given->second);
      }
      seeds_.push_back({now_ + 1, state.seed});
      seeding->begin = ++now_;
    }
    // The lock is not held, because a push may block, and operations that would unblock it may call
    // Request. There is one push for all generators, so that all restart or none.
    try {
      if (!generators.empty()) PushSeed(generators, std::move(positions), seeding);
    } catch (...) {
      const std::lock_guard<std::mutex> lock(mutex_);
      std::erase_if(seeds_, [&](const SetSeed& set) { return set.begin == seeding->begin; });
      throw;
    }
    End(*seeding);
    const std::lock_guard<std::mutex> lock(mutex_);
    std::erase_if(seeds_, [&](const SetSeed& set) { return set.begin < seeding->begin; });
  }

  void Seed(Device device, uint64_t seed) {
    const auto seeding = std::make_shared<Seeding>();
    ResourceHandle generator;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      generator = Random(device);
      seeding->begin = ++now_;
    }
    // The state is in host memory, also for a GPU's generator.
    engine_->PushSync(
        [generator, seed, seeding](RunContext) {
          Generator(generator).Seed(PhiloxState{.seed = seed}, *seeding);
        },
        Device::Cpu(), {}, {generator.var}, {.name = "SeedRandom"});
    End(*seeding);
  }

  RandomState GetRandomState() {
    std::vector<ResourceHandle> generators;
    RandomState state;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      for (const auto& [device, resources] : devices_) {
        if (resources.random.resource) generators.push_back(Handle(resources.random));
      }
      state.seed = seeds_.back().seed;
    }
    if (generators.empty()) return state;
    const auto positions = std::make_shared<std::vector<PhiloxState>>();
    // The operation reads nothing, so that it ends without an error of an earlier one.
    engine_->PushSync(
        [generators, positions](RunContext) {
          for (const ResourceHandle& generator : generators) {
            positions->push_back(*generator.resource->GetRandomState());
          }
        },
        Device::Cpu(), {}, VarsOf(generators), {.name = "GetRandomState"});
    engine_->WaitForVar(generators[0].var);
    for (size_t i = 0; i < generators.size(); ++i) {
      state.generators.emplace_back(generators[i].resource->device(), (*positions)[i]);
    }
    return state;
  }

 private:
  /// Frees unused workspaces. Storage calls it when memory is short, in any thread: inside an
  /// operation, or in the child of a fork, in which a lock may stay locked.
  void Trim(Device device) ABSL_NO_THREAD_SAFETY_ANALYSIS {
    std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    // Other threads hold the lock only briefly.
    for (int looks = 0; looks < 1000 && !lock.owns_lock(); ++looks) {
      std::this_thread::yield();
      static_cast<void>(lock.try_lock());
    }
    if (!lock.owns_lock()) return;
    const auto found = devices_.find(device);
    if (found == devices_.end()) return;
    for (const Owned& space : found->second.spaces) {
      static_cast<TempSpace&>(*space.resource).Trim([&] { return engine_->IsIdle(space.var); });
    }
  }

  struct Owned {
    std::unique_ptr<Resource> resource;
    Variable* var = nullptr;
  };
  /// A seed for all devices, and the beginning of the call that has set it.
  struct SetSeed {
    uint64_t begin = 0;
    uint64_t seed = 0;
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
          Own(std::make_unique<RandomResource>(device, StateOf(device, seeds_.back().seed), now_),
              "random");
    }
    return Handle(random);
  }

  static std::vector<Variable*> VarsOf(const std::vector<ResourceHandle>& generators) {
    std::vector<Variable*> vars;
    for (const ResourceHandle& generator : generators) vars.push_back(generator.var);
    return vars;
  }

  void PushSeed(const std::vector<ResourceHandle>& generators, std::vector<PhiloxState> positions,
                const std::shared_ptr<const Seeding>& seeding) {
    engine_->PushSync(
        [generators, positions = std::move(positions), seeding](RunContext) {
          for (size_t i = 0; i < generators.size(); ++i) {
            Generator(generators[i]).Seed(positions[i], *seeding);
          }
        },
        Device::Cpu(), {}, VarsOf(generators), {.name = "SeedRandom"});
  }

  void End(Seeding& seeding) {
    const std::lock_guard<std::mutex> lock(mutex_);
    seeding.end.store(++now_, std::memory_order_relaxed);
  }

  /// Frees the resource after its last user.
  void Release(Owned* owned) {
    if (!owned->resource) return;
    try {
      // The operation reads nothing, so it ends without an error, and waiting for it hides no
      // user's error from other waits.
      engine_->PushSync([](RunContext) {}, Device::Cpu(), {}, {owned->var},
                        {.name = "release resource"});
      Await(owned->var);
    } catch (const std::bad_alloc&) {
      // There is no memory for the push. The wait is for the last user, whose error no other wait
      // would report.
      Await(owned->var);
    } catch (const Error&) {
      // The engine is shut down, so no operation uses the resource any more.
    }
    owned->resource.reset();
    try {
      engine_->DeleteVariable(owned->var);
    } catch (const std::bad_alloc&) {  // the engine then deletes it
    }
  }

  /// Returns when all operations pushed on the variable are done.
  void Await(Variable* var) {
    for (;;) {
      try {
        return engine_->WaitForVar(var);
      } catch (const std::bad_alloc&) {
        // The wait threw the last user's error, which is reported once, or it found no memory and
        // the user may still run. The next wait tells which.
        std::this_thread::yield();
      } catch (...) {  // an operation's error may be of any type
        return;
      }
    }
  }

  Engine* const engine_;
  Storage* const storage_;
  const int64_t cpu_spaces_;
  const int64_t gpu_spaces_;

  std::mutex mutex_;
  // Not one of Abseil's maps, which break if operator new throws while they grow.
  std::unordered_map<Device, DeviceResources> devices_ ABSL_GUARDED_BY(mutex_);
  // The last entry is for generators created now. Earlier ones are valid if calls in progress fail.
  std::vector<SetSeed> seeds_ ABSL_GUARDED_BY(mutex_);
  uint64_t now_ ABSL_GUARDED_BY(mutex_) = 0;  // the counter of begins and ends of SeedRandom

  // The last member, because shortages call it as soon as it is constructed.
  const int64_t trimmer_;
};

ResourceManager* ResourceManager::Get() {
  // No lock is used, because a thread that is missing in the child of a fork could hold it.
  static constinit std::atomic<ResourceManager*> current{nullptr};
  Engine* const engine = Engine::Get();
  // Acquire: pairs with the exchange of the thread that created the manager.
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
  OrResourceExhausted("ResourceManager::SeedRandom", [&] { impl_->Set({.seed = seed}); });
}

void ResourceManager::SeedRandom(Device device, uint64_t seed) {
  OrResourceExhausted("ResourceManager::SeedRandom", [&] { impl_->Seed(device, seed); });
}

RandomState ResourceManager::GetRandomState() {
  return OrResourceExhausted("ResourceManager::GetRandomState",
                             [&] { return impl_->GetRandomState(); });
}

void ResourceManager::SetRandomState(const RandomState& state) {
  OrResourceExhausted("ResourceManager::SetRandomState", [&] { impl_->Set(state); });
}

}  // namespace tessera
