// Every allocation that an entry point makes fails once: those of the device's memory, below the
// pool, and those of host memory for the manager's own records. Each time the call must throw an
// Error, or do without, and leave everything as it was.

#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/resource/resource.h"
#include "tessera/resource/resource_manager.h"
#include "tessera/storage/storage.h"
#include "tessera/tensor/philox.h"
#include "tessera/tensor/tensor.h"
#include "tessera/tools/testing/counted_new.h"

namespace tessera {
namespace {

constexpr ResourceRequest kSpace = {ResourceRequest::Type::kTempSpace};
constexpr ResourceRequest kRandom = {ResourceRequest::Type::kRandom};
constexpr Device kDevice = Device::Cpu();
constexpr int64_t kUsedBytes = 1000;
constexpr int64_t kMoreBytes = 50000;

/// Memory whose allocation number `n`, counted from 0 and from now, fails, and those after it,
/// `count` in all.
class FailingMemory final : public SystemAllocator {
 public:
  void FailCalls(int64_t n, int64_t count) {
    until_failure_ = n;
    failures_ = count;
    has_failed_ = false;
  }
  bool has_failed() const { return has_failed_; }
  int64_t outstanding() const { return outstanding_; }

  void* Allocate(int64_t size_bytes) override {
    if (failures_ > 0 && until_failure_-- <= 0) {
      --failures_;
      has_failed_ = true;
      return nullptr;
    }
    ++outstanding_;
    return std::aligned_alloc(64, static_cast<size_t>(size_bytes));
  }
  void Release(void* ptr, int64_t) noexcept override {
    --outstanding_;
    std::free(ptr);
  }

 private:
  int64_t until_failure_ = 0;
  int64_t failures_ = 0;
  bool has_failed_ = false;
  int64_t outstanding_ = 0;
};

/// A manager whose workspace and generator have been used.
class Scene {
 public:
  Scene()
      : memory_(std::make_shared<FailingMemory>()),
        storage_(std::make_unique<Storage>(
            StorageOptions{.pool = StoragePoolKind::kNone, .system_allocator = memory_})),
        engine_(Engine::Create({.kind = EngineKind::kNaive})),
        manager_(std::make_unique<ResourceManager>(engine_.get(), storage_.get())),
        space_(manager_->Request(kDevice, kSpace).resource),
        random_(manager_->Request(kDevice, kRandom).resource) {
    space_->GetSpaceBytes(kUsedBytes);
    manager_->SeedRandom(5);
    random_->GetRandomState()->Reserve(3);
  }
  ~Scene() {
    EndManager();
    EXPECT_EQ(storage_->Stats(kDevice).live_bytes, 0);
    storage_.reset();
    EXPECT_EQ(memory_->outstanding(), 0);
  }

  FailingMemory& memory() { return *memory_; }
  Storage& storage() { return *storage_; }
  Engine& engine() { return *engine_; }
  ResourceManager& manager() { return *manager_; }
  // On an engine that runs operations at their pushes, and none is under way.
  Resource& space() { return *space_; }
  Resource& random() { return *random_; }
  void EndManager() { manager_.reset(); }

  /// Returns the states that users can see of a generator and of the next one to be made.
  std::string Generators() {
    const PhiloxState& own = *random_->GetRandomState();
    const Device next = Device::Cpu(++last_device_);
    const PhiloxState& later = *manager_->Request(next, kRandom).resource->GetRandomState();
    return std::to_string(own.seed) + " " + std::to_string(own.next_block) + " " +
           std::to_string(later.seed) + " " + std::to_string(later.next_block);
  }

 private:
  const std::shared_ptr<FailingMemory> memory_;
  std::unique_ptr<Storage> storage_;
  const std::unique_ptr<Engine> engine_;
  std::unique_ptr<ResourceManager> manager_;
  Resource* const space_;
  Resource* const random_;
  int last_device_ = 100;
};

struct EntryPoint {
  const char* name;
  std::function<void(Scene&)> call;
};
void PrintTo(const EntryPoint& entry, std::ostream* os) { *os << entry.name; }

std::vector<EntryPoint> EntryPoints() {
  return {
      {"Construct", [](Scene& s) { ResourceManager another(&s.engine(), &s.storage()); }},
      {"RequestSpace", [](Scene& s) { s.manager().Request(kDevice, kSpace); }},
      {"RequestSpaceOfANewDevice", [](Scene& s) { s.manager().Request(Device::Cpu(3), kSpace); }},
      {"RequestRandom", [](Scene& s) { s.manager().Request(kDevice, kRandom); }},
      {"RequestRandomOfANewDevice", [](Scene& s) { s.manager().Request(Device::Cpu(4), kRandom); }},
      {"SeedRandom", [](Scene& s) { s.manager().SeedRandom(8); }},
      {"SeedRandomOfADevice", [](Scene& s) { s.manager().SeedRandom(kDevice, 9); }},
      {"SeedRandomOfANewDevice", [](Scene& s) { s.manager().SeedRandom(Device::Cpu(5), 9); }},
      {"GetSpaceBytes", [](Scene& s) { EXPECT_NE(s.space().GetSpaceBytes(kMoreBytes), nullptr); }},
      {"GetSpaceBytesOnStream",
       [](Scene& s) { EXPECT_NE(s.space().GetSpaceBytesOnStream(kMoreBytes, nullptr), nullptr); }},
      {"GetSpace",
       [](Scene& s) {
         const auto space = s.space().get_space<cpu>(Shape2(10, kMoreBytes), nullptr);
         EXPECT_NE(space.dptr_, nullptr);
       }},
      {"GetSpaceThatIsThere",
       [](Scene& s) { EXPECT_NE(s.space().GetSpaceBytes(kUsedBytes), nullptr); }},
      {"GetRandomState", [](Scene& s) { EXPECT_NE(s.random().GetRandomState(), nullptr); }},
      {"GetRandom", [](Scene& s) { s.random().get_random<cpu>(nullptr); }},
  };
}

/// The entry point's error, if it throws one.
std::optional<absl::StatusCode> CodeOf(const EntryPoint& entry, Scene& scene) {
  try {
    entry.call(scene);
  } catch (const Error& error) {
    return error.code();
  }
  return std::nullopt;
}

/// After a failure: nothing has changed but that a workspace that could not grow is empty, and the
/// call works.
void ExpectAsBefore(Scene& scene, const std::string& generators, const EntryPoint& entry) {
  EXPECT_EQ(scene.Generators(), generators);
  const int64_t live_bytes = scene.storage().Stats(kDevice).live_bytes;
  EXPECT_TRUE(live_bytes == kUsedBytes || live_bytes == 0) << live_bytes;
  EXPECT_NE(scene.space().GetSpaceBytes(kUsedBytes), nullptr);
  EXPECT_EQ(CodeOf(entry, scene), std::nullopt) << "memory is back";
}

class ResourceFailureTest : public testing::TestWithParam<EntryPoint> {};
INSTANTIATE_TEST_SUITE_P(EveryEntryPoint, ResourceFailureTest, testing::ValuesIn(EntryPoints()),
                         [](const auto& info) { return std::string(info.param.name); });

TEST_P(ResourceFailureTest, EveryFailureOfTheSystemIsAnErrorThatChangesNothing) {
  // One failure, which a second try makes up for, and more than there are tries.
  for (const int64_t count : {1, 1000}) {
    for (int64_t n = 0;; ++n) {
      ASSERT_LT(n, 20);
      Scene scene;
      const std::string generators = scene.Generators();
      scene.memory().FailCalls(n, count);
      const std::optional<absl::StatusCode> code = CodeOf(GetParam(), scene);
      const bool has_failed = scene.memory().has_failed();
      scene.memory().FailCalls(0, 0);
      EXPECT_EQ(code.has_value(), has_failed && count > 1);
      if (code.has_value()) {
        EXPECT_EQ(*code, Error::kResourceExhausted);
        ExpectAsBefore(scene, generators, GetParam());
      }
      if (!has_failed) break;
    }
  }
}

TEST_P(ResourceFailureTest, EveryFailureOfOperatorNewIsAnErrorThatChangesNothing) {
  for (int64_t n = 0;; ++n) {
    ASSERT_LT(n, 200);
    Scene scene;
    const std::string generators = scene.Generators();
    std::optional<absl::StatusCode> code;
    bool has_failed = false;
    {
      const FailingNew failing(n);
      code = CodeOf(GetParam(), scene);
      has_failed = failing.has_failed();
    }
    if (code.has_value()) {
      EXPECT_EQ(*code, Error::kResourceExhausted);
      ExpectAsBefore(scene, generators, GetParam());
    }
    if (!has_failed) break;
  }
}

TEST_P(ResourceFailureTest, NothingLeaksWhateverFails) {
  const auto run = [](int64_t n) {
    Scene scene;
    const FailingNew failing(n);
    static_cast<void>(CodeOf(GetParam(), scene));
    return failing.has_failed();
  };
  EXPECT_LE(NewsLeftBehind(run), 0);
}

TEST(ResourceEndFailureTest, TheEndOfAManagerNeedsNoMemory) {
  for (int64_t n = 0;; ++n) {
    ASSERT_LT(n, 100);
    Scene scene;
    bool has_failed = false;
    {
      const FailingNew failing(n);
      scene.EndManager();
      has_failed = failing.has_failed();
    }
    EXPECT_EQ(scene.storage().Stats(kDevice).live_bytes, 0);
    if (!has_failed) break;
  }
}

}  // namespace
}  // namespace tessera
