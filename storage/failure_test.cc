// Lets every allocation that an entry point makes fail once: those of the device's memory, below
// the pool, and those of host memory for storage's own records. Each time the call must throw an
// Error or succeed without the memory, and leave the state unchanged.

#include <sys/resource.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tessera/base/error.h"
#include "tessera/storage/shared_memory.h"
#include "tessera/storage/storage.h"
#include "tessera/storage/testing/fake_system_allocator.h"
#include "tessera/storage/testing/simulated_streams.h"
#include "tessera/tools/testing/counted_new.h"

namespace tessera {
namespace {

constexpr int64_t kMegabyte = int64_t{1} << 20;
constexpr Device kDevice = Device::Cpu();

/// A storage after many different calls.
class Scene {
 public:
  explicit Scene(StoragePoolKind pool)
      : fake_(std::make_shared<FakeSystemAllocator>()),
        streams_(std::make_shared<SimulatedStreams>()),
        storage_(std::make_unique<Storage>(
            StorageOptions{.pool = pool, .system_allocator = fake_, .stream_events = streams_})) {
    streams_->Enqueue(&stream_);
    live_.push_back(storage_->Alloc(1000, kDevice, "first"));
    live_.push_back(storage_->Alloc(3 * kMegabyte, kDevice, "second"));
    storage_->Free(storage_->Alloc(500, kDevice));
  }
  ~Scene() {
    for (const Storage::Handle& block : live_) storage_->Free(block);
    storage_.reset();
    EXPECT_EQ(fake_->outstanding(), 0);
    EXPECT_EQ(fake_->wrong_releases(), 0);
    EXPECT_EQ(streams_->live_events(), 0);
  }

  Storage& storage() { return *storage_; }
  FakeSystemAllocator& fake() { return *fake_; }
  void* stream() { return &stream_; }
  /// The blocks that the destructor frees.
  std::vector<Storage::Handle>& live() { return live_; }

  /// Returns the visible state, except the counts of failures.
  std::string State() const {
    const StorageStats stats = storage_->Stats(kDevice);
    std::string state;
    for (const int64_t count :
         {stats.live_bytes, stats.in_use_bytes, stats.pending_bytes, stats.limit_bytes,
          stats.peak_bytes, stats.allocations, stats.frees, stats.pool_hits}) {
      state += std::to_string(count) + " ";
    }
    for (const StorageTagStats& tag : storage_->TagStats(kDevice)) {
      state += tag.tag + " " + std::to_string(tag.live_bytes) + " " +
               std::to_string(tag.allocations) + " ";
    }
    return state;
  }

 private:
  const std::shared_ptr<FakeSystemAllocator> fake_;
  const std::shared_ptr<SimulatedStreams> streams_;
  std::unique_ptr<Storage> storage_;
  std::vector<Storage::Handle> live_;
  int stream_ = 0;
};

struct EntryPoint {
  const char* name;
  std::function<void(Scene&)> call;
};

/// Returns every public member after whose failure a caller may continue. The blocks that they
/// allocate go to live(), which has capacity.
std::vector<EntryPoint> EntryPoints() {
  const auto keep = [](Scene& scene, const Storage::Handle& block) {
    scene.live().push_back(block);
  };
  return {
      {"AllocSmall", [=](Scene& s) { keep(s, s.storage().Alloc(64, kDevice)); }},
      {"AllocLarge", [=](Scene& s) { keep(s, s.storage().Alloc(9 * kMegabyte, kDevice)); }},
      {"AllocTagged", [=](Scene& s) { keep(s, s.storage().Alloc(5000, kDevice, "a new name")); }},
      {"AllocOnAnotherDevice",
       [](Scene& s) {
         const Storage::Handle block = s.storage().Alloc(100, Device::Cpu(3), "elsewhere");
         s.storage().Free(block);
       }},
      {"Free",
       [](Scene& s) {
         s.storage().Free(s.live().back());
         s.live().pop_back();
       }},
      {"DirectFree",
       [](Scene& s) {
         s.storage().DirectFree(s.live().back());
         s.live().pop_back();
       }},
      {"AllocOnStream",
       [=](Scene& s) {
         keep(s, s.storage().AllocOnStream(7 * kMegabyte, kDevice, s.stream(), "t"));
       }},
      {"FreeOnStream",
       [](Scene& s) {
         s.storage().FreeOnStream(s.live().back(), s.stream());
         s.live().pop_back();
       }},
      {"SetLimit", [](Scene& s) { s.storage().SetLimit(kDevice, 40 * kMegabyte); }},
      {"SetLimitOfAnotherDevice", [](Scene& s) { s.storage().SetLimit(Device::Cpu(2), 1); }},
      {"AddTrimmer",
       [](Scene& s) { s.storage().RemoveTrimmer(s.storage().AddTrimmer([](Device) {})); }},
      {"Stats", [](Scene& s) { s.storage().Stats(kDevice); }},
      {"TagStats", [](Scene& s) { s.storage().TagStats(kDevice); }},
      {"Report",
       [](Scene& s) { EXPECT_NE(s.storage().Report().find("tag second"), std::string::npos); }},
      {"MarkPeak", [](Scene& s) { s.storage().MarkPeak(kDevice); }},
      {"ReleaseAll", [](Scene& s) { s.storage().ReleaseAll(kDevice); }},
      {"StartTimeline", [](Scene& s) { s.storage().StartTimeline(10); }},
      {"StopTimeline",
       [](Scene& s) {
         EXPECT_NE(s.storage().StopTimeline().find("traceEvents"), std::string::npos);
       }},
      {"StopTimelineInATrace",
       [](Scene& s) {
         EXPECT_NE(s.storage().StopTimeline("{\"traceEvents\":[]}").find("storage_dropped_events"),
                   std::string::npos);
       }},
  };
}

/// Returns the entry point's error, if it throws one.
std::optional<absl::StatusCode> CodeOf(const EntryPoint& entry, Scene& scene) {
  try {
    entry.call(scene);
  } catch (const Error& error) {
    return error.code();
  }
  return std::nullopt;
}

struct Case {
  StoragePoolKind pool;
  EntryPoint entry;
};
void PrintTo(const Case& c, std::ostream* os) { *os << c.entry.name; }

class StorageFailureTest : public testing::TestWithParam<Case> {};

std::vector<Case> AllCases() {
  std::vector<Case> cases;
  for (const StoragePoolKind pool : {StoragePoolKind::kNone, StoragePoolKind::kExact,
                                     StoragePoolKind::kRounded, StoragePoolKind::kBestFit}) {
    for (EntryPoint& entry : EntryPoints()) cases.push_back({pool, std::move(entry)});
  }
  return cases;
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  constexpr const char* kNames[] = {"None", "Exact", "Rounded", "BestFit"};
  return std::string(info.param.entry.name) + kNames[static_cast<int>(info.param.pool)];
}

INSTANTIATE_TEST_SUITE_P(EveryEntryPoint, StorageFailureTest, testing::ValuesIn(AllCases()),
                         CaseName);

TEST_P(StorageFailureTest, EveryFailureOfTheSystemIsAnErrorThatChangesNothing) {
  for (int64_t n = 0;; ++n) {
    ASSERT_LT(n, 100);
    Scene scene(GetParam().pool);
    scene.live().reserve(8);
    const std::string before = scene.State();
    // A call tries up to four times, so all its tries fail.
    scene.fake().FailCalls(n, /*count=*/4);
    const std::optional<absl::StatusCode> code = CodeOf(GetParam().entry, scene);
    const bool has_failed = scene.fake().has_failed();
    scene.fake().FailCalls(0, 0);
    if (code.has_value()) {
      EXPECT_EQ(*code, Error::kResourceExhausted);
      EXPECT_EQ(scene.State(), before);
    }
    if (!has_failed) break;
    EXPECT_EQ(CodeOf(GetParam().entry, scene), std::nullopt) << "memory is back";
  }
}

TEST_P(StorageFailureTest, EveryFailureOfOperatorNewIsAnErrorThatChangesNothing) {
  // Each call runs on a new thread, so that it has to make the thread's cache, too.
  int64_t errors = 0;
  int64_t n = 0;
  bool done = false;
  for (; !done; ++n) {
    ASSERT_LT(n, 200);
    std::thread([&] {
      Scene scene(GetParam().pool);
      scene.live().reserve(8);
      const std::string before = scene.State();
      std::optional<absl::StatusCode> code;
      {
        const FailingNew failing(n);
        code = CodeOf(GetParam().entry, scene);
        done = !failing.has_failed();
      }
      if (!code.has_value()) return;
      ++errors;
      EXPECT_EQ(*code, Error::kResourceExhausted);
      EXPECT_EQ(scene.State(), before);
      EXPECT_EQ(CodeOf(GetParam().entry, scene), std::nullopt) << "memory is back";
    }).join();
  }
  RecordProperty("errors", static_cast<int>(errors));
}

TEST_P(StorageFailureTest, NothingLeaksWhateverFails) {
  const auto run = [](int64_t n) {
    Scene scene(GetParam().pool);
    scene.live().reserve(8);
    const FailingNew failing(n);
    static_cast<void>(CodeOf(GetParam().entry, scene));
    return failing.has_failed();
  };
  EXPECT_LE(NewsLeftBehind(run), 0);
}

TEST(StorageFreeFailureTest, AFirstFreeOnAThreadNeedsNoMemory) {
  Storage storage({.system_allocator = std::make_shared<FakeSystemAllocator>()});
  const Storage::Handle block = storage.Alloc(100, kDevice, "tag");
  const Storage::Handle direct = storage.Alloc(100, kDevice);
  std::thread([&] {
    const FailingNew failing(0);
    storage.Free(block);
    storage.DirectFree(direct);
  }).join();
  EXPECT_EQ(storage.Stats(kDevice).live_bytes, 0);
  EXPECT_EQ(storage.Stats(kDevice).frees, 2);
}

TEST(StorageConstructionFailureTest, AStorageThatCannotBeMadeLeaksNothing) {
  const StorageOptions options = {.system_allocator = std::make_shared<FakeSystemAllocator>()};
  for (int64_t n = 0;; ++n) {
    ASSERT_LT(n, 100);
    const int64_t before = OutstandingNews();
    bool has_failed = false;
    try {
      const FailingNew failing(n);
      const Storage storage(options);
      has_failed = failing.has_failed();
      EXPECT_FALSE(has_failed);
    } catch (const Error& error) {
      has_failed = true;
      EXPECT_EQ(error.code(), Error::kResourceExhausted);
    }
    EXPECT_EQ(OutstandingNews(), before);
    if (!has_failed) break;
  }
}

TEST(SharedMemoryFailureTest, WithoutAFreeDescriptorThereIsNoMemory) {
  Storage storage;
  const Storage::Handle kept = storage.Alloc(100, Device::CpuShared());
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  std::optional<absl::StatusCode> code;
  try {
    storage.Alloc(8 * kMegabyte, Device::CpuShared());
  } catch (const Error& error) {
    code = error.code();
  }
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(code, Error::kResourceExhausted);
  EXPECT_EQ(storage.Stats(Device::CpuShared()).live_bytes, 100);
  storage.Free(storage.Alloc(8 * kMegabyte, Device::CpuShared()));
  storage.Free(kept);
}

TEST(SharedMemoryFailureTest, SharingAndItsTextFailCleanly) {
  Storage storage;
  const Storage::Handle block = storage.Alloc(kMegabyte, Device::CpuShared());
  const std::string text = Share(block).ToString();
  for (int64_t n = 0;; ++n) {
    ASSERT_LT(n, 100);
    bool has_failed = false;
    {
      const FailingNew failing(n);
      try {
        const Storage::Handle other = storage.Alloc(8 * kMegabyte, Device::CpuShared());
        storage.Free(other);
        const SharedMapping mapping = SharedMapping::Open(SharedBlock::FromString(text));
        EXPECT_EQ(mapping.size_bytes(), kMegabyte);
        EXPECT_EQ(Share(block).ToString(), text);
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), Error::kResourceExhausted);
      }
      has_failed = failing.has_failed();
    }
    storage.ReleaseAll(Device::CpuShared());
    EXPECT_EQ(storage.Stats(Device::CpuShared()).live_bytes, kMegabyte);
    if (!has_failed) break;
  }
  storage.Free(block);
}

}  // namespace
}  // namespace tessera
