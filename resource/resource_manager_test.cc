#include "tessera/resource/resource_manager.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <latch>
#include <memory>
#include <new>
#include <set>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/resource/resource.h"
#include "tessera/storage/storage.h"
#include "tessera/tensor/tensor.h"

namespace tessera {
namespace {

constexpr ResourceRequest kSpace = {ResourceRequest::Type::kTempSpace};
constexpr ResourceRequest kRandom = {ResourceRequest::Type::kRandom};

struct EngineCase {
  const char* name;
  EngineKind kind;
  int workers;
};

class ResourceManagerTest : public testing::TestWithParam<EngineCase> {
 protected:
  ResourceManagerTest()
      : engine_(Engine::Create({.kind = GetParam().kind, .workers = GetParam().workers})),
        manager_(std::make_unique<ResourceManager>(engine_.get(), &storage_)) {}

  /// Runs `body(resource)` as an operation on the resource.
  template <typename Body>
  void Run(ResourceHandle handle, const Body& body) {
    engine_->PushSync([handle, body](RunContext) { body(handle.resource); }, Device::Cpu(), {},
                      {handle.var});
  }

  std::vector<float> Draw(Device device, size_t n) {
    std::vector<float> values(n);
    const ResourceHandle random = manager_->Request(device, kRandom);
    Run(random, [&values](Resource* resource) {
      resource->get_random<cpu>(nullptr).SampleUniform(std::span(values));
    });
    engine_->WaitForVar(random.var);
    return values;
  }

  static std::vector<float> FirstNumbers(uint64_t seed, size_t n) {
    std::vector<float> values(n);
    Random<cpu>(seed).SampleUniform(std::span(values));
    return values;
  }

  Storage storage_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<ResourceManager> manager_;
};

std::string EngineName(const testing::TestParamInfo<EngineCase>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(EveryEngine, ResourceManagerTest,
                         testing::Values(EngineCase{"Naive", EngineKind::kNaive, 0},
                                         EngineCase{"OneWorker", EngineKind::kThreaded, 1},
                                         EngineCase{"TwoWorkers", EngineKind::kThreaded, 2},
                                         EngineCase{"ManyWorkers", EngineKind::kThreaded, 8}),
                         EngineName);

TEST_P(ResourceManagerTest, WorkspacesAreHandedOutInTurn) {
  std::vector<ResourceHandle> spaces;
  for (int i = 0; i < 8; ++i) spaces.push_back(manager_->Request(Device::Cpu(), kSpace));
  std::set<Resource*> resources;
  std::set<Variable*> vars;
  for (int i = 0; i < 4; ++i) {
    resources.insert(spaces[i].resource);
    vars.insert(spaces[i].var);
    EXPECT_EQ(spaces[i].resource, spaces[i + 4].resource);
    EXPECT_EQ(spaces[i].var, spaces[i + 4].var);
    EXPECT_EQ(spaces[i].resource->request(), kSpace);
    EXPECT_EQ(spaces[i].resource->device(), Device::Cpu());
  }
  EXPECT_EQ(resources.size(), 4u);
  EXPECT_EQ(vars.size(), 4u);
  EXPECT_EQ(storage_.Stats(Device::Cpu()).allocations, 0);
}

TEST_P(ResourceManagerTest, ThereIsOneGeneratorForADevice) {
  const ResourceHandle a = manager_->Request(Device::Cpu(0), kRandom);
  const ResourceHandle b = manager_->Request(Device::Cpu(0), kRandom);
  const ResourceHandle c = manager_->Request(Device::Cpu(1), kRandom);
  EXPECT_EQ(a.resource, b.resource);
  EXPECT_EQ(a.var, b.var);
  EXPECT_NE(a.resource, c.resource);
  EXPECT_EQ(c.resource->device(), Device::Cpu(1));
  EXPECT_EQ(c.resource->request(), kRandom);
}

TEST_P(ResourceManagerTest, AWorkspaceOnlyGrows) {
  const ResourceHandle space = manager_->Request(Device::Cpu(), kSpace);
  Run(space, [](Resource* resource) {
    EXPECT_EQ(resource->GetSpaceBytes(0), nullptr);
    void* const large = resource->GetSpaceBytes(100000);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(large) % 64, 0u);
    std::memset(large, 1, 100000);
    EXPECT_EQ(resource->GetSpaceBytes(10), large);
    EXPECT_EQ(resource->GetSpaceBytes(100000), large);
    std::memset(resource->GetSpaceBytes(100001), 1, 100001);
  });
  engine_->WaitForVar(space.var);
  EXPECT_EQ(storage_.Stats(Device::Cpu()).allocations, 2);
  EXPECT_EQ(storage_.Stats(Device::Cpu()).live_bytes, 100001);
  ASSERT_EQ(storage_.TagStats(Device::Cpu()).size(), 1u);
  EXPECT_EQ(storage_.TagStats(Device::Cpu())[0].tag, "workspace");
}

TEST_P(ResourceManagerTest, AWorkspaceComesAsATensor) {
  const ResourceHandle space = manager_->Request(Device::Cpu(), kSpace);
  Run(space, [](Resource* resource) {
    Stream<cpu> stream;
    const Tensor<cpu, 2, float> matrix = resource->get_space<cpu>(Shape2(3, 5), &stream);
    EXPECT_EQ(matrix.shape_, Shape2(3, 5));
    EXPECT_TRUE(matrix.CheckContiguous());
    EXPECT_EQ(matrix.stream_, &stream);
    const auto bytes = resource->get_space_typed<cpu, 1, uint8_t>(Shape1(60), &stream);
    EXPECT_EQ(static_cast<void*>(bytes.dptr_), static_cast<void*>(matrix.dptr_));
  });
  engine_->WaitForVar(space.var);
  EXPECT_EQ(storage_.Stats(Device::Cpu()).live_bytes, 60);
}

TEST_P(ResourceManagerTest, ImpossibleWorkspacesAreErrors) {
  const ResourceHandle space = manager_->Request(Device::Cpu(), kSpace);
  const auto code_of = [](const auto& call) {
    try {
      call();
    } catch (const Error& error) {
      return error.code();
    }
    return absl::StatusCode{};
  };
  Run(space, [code_of](Resource* resource) {
    constexpr index_t kHuge = index_t{1} << 40;
    EXPECT_EQ(code_of([&] { resource->GetSpaceBytes(-1); }), Error::kInvalidArgument);
    EXPECT_EQ(code_of([&] { resource->get_space<cpu>(Shape2(kHuge, kHuge), nullptr); }),
              Error::kInvalidArgument);
    EXPECT_EQ(code_of([&] { resource->get_space<cpu>(Shape2(-1, 4), nullptr); }),
              Error::kInvalidArgument);
    EXPECT_EQ(code_of([&] { resource->GetRandomState(); }), Error::kFailedPrecondition);
  });
  const ResourceHandle random = manager_->Request(Device::Cpu(), kRandom);
  Run(random, [code_of](Resource* resource) {
    EXPECT_EQ(code_of([&] { resource->GetSpaceBytes(8); }), Error::kFailedPrecondition);
  });
  engine_->WaitForAll();
}

TEST_P(ResourceManagerTest, AWorkspaceIsUsableAgainAfterMemoryRanOut) {
  const ResourceHandle space = manager_->Request(Device::Cpu(), kSpace);
  storage_.SetLimit(Device::Cpu(), 1 << 20);
  Run(space, [](Resource* resource) {
    resource->GetSpaceBytes(1000);
    EXPECT_THROW(resource->GetSpaceBytes(2 << 20), Error);
    std::memset(resource->GetSpaceBytes(1000), 1, 1000);
  });
  engine_->WaitForVar(space.var);
  EXPECT_EQ(storage_.Stats(Device::Cpu()).live_bytes, 1000);
}

TEST_P(ResourceManagerTest, WorkspacesOfParallelOperationsDoNotOverlap) {
  std::atomic<int> wrong{0};
  std::vector<ResourceHandle> spaces;
  for (int i = 0; i < 400; ++i) {
    const ResourceHandle space = manager_->Request(Device::Cpu(), kSpace);
    spaces.push_back(space);
    Run(space, [i, &wrong](Resource* resource) {
      constexpr int64_t kBytes = 20000;
      auto* bytes = static_cast<unsigned char*>(resource->GetSpaceBytes(kBytes + i % 7 * 1000));
      std::memset(bytes, i % 256, kBytes);
      for (int64_t k = 0; k < kBytes; ++k) wrong += bytes[k] != i % 256;
    });
  }
  engine_->WaitForAll();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_P(ResourceManagerTest, AShortageTakesWorkspaceThatNobodyUses) {
  storage_.SetLimit(Device::Cpu(), 1 << 20);
  const ResourceHandle space = manager_->Request(Device::Cpu(), kSpace);
  for (int round = 0; round < 3; ++round) {
    Run(space, [](Resource* resource) { std::memset(resource->GetSpaceBytes(600000), 1, 600000); });
    engine_->WaitForVar(space.var);
    EXPECT_EQ(storage_.Stats(Device::Cpu()).live_bytes, 600000);
    const Storage::Handle block = storage_.Alloc(900000, Device::Cpu());
    EXPECT_EQ(storage_.Stats(Device::Cpu()).live_bytes, 900000);
    storage_.Free(block);
  }
}

TEST_P(ResourceManagerTest, AShortageTakesNoMoreThanTheShortDevicesWorkspace) {
  const ResourceHandle other = manager_->Request(Device::Cpu(1), kSpace);
  Run(other, [](Resource* resource) { resource->GetSpaceBytes(5000); });
  engine_->WaitForVar(other.var);
  storage_.SetLimit(Device::Cpu(0), 1 << 20);
  const Storage::Handle held = storage_.Alloc(600000, Device::Cpu(0));
  EXPECT_THROW(storage_.Alloc(900000, Device::Cpu(0)), Error);
  EXPECT_EQ(storage_.Stats(Device::Cpu(1)).live_bytes, 5000);
  storage_.Free(held);
}

TEST_P(ResourceManagerTest, AnOperationThatIsShortTakesTheWorkspacesOfOthersThatAreDone) {
  storage_.SetLimit(Device::Cpu(), 1 << 20);
  for (int i = 0; i < 8; ++i) {
    Run(manager_->Request(Device::Cpu(), kSpace),
        [i](Resource* resource) { std::memset(resource->GetSpaceBytes(900000), i, 900000); });
    // One after the other: two at once have no room.
    engine_->WaitForAll();
  }
  EXPECT_EQ(storage_.Stats(Device::Cpu()).live_bytes, 900000);
}

TEST_P(ResourceManagerTest, AShortageLeavesWorkspaceThatAnOperationUses) {
  storage_.SetLimit(Device::Cpu(), 1 << 20);
  const ResourceHandle space = manager_->Request(Device::Cpu(), kSpace);
  Run(space, [this](Resource* resource) {
    auto* const bytes = static_cast<unsigned char*>(resource->GetSpaceBytes(600000));
    std::memset(bytes, 7, 600000);
    EXPECT_THROW(storage_.Alloc(900000, Device::Cpu()), Error);
    EXPECT_EQ(bytes[599999], 7);
    EXPECT_EQ(resource->GetSpaceBytes(600000), bytes);
  });
  engine_->WaitForVar(space.var);
  storage_.Free(storage_.Alloc(900000, Device::Cpu()));
}

TEST_P(ResourceManagerTest, AShortageLeavesWorkspaceOfAnOperationThatIsNotComplete) {
  storage_.SetLimit(Device::Cpu(), 1 << 20);
  const ResourceHandle space = manager_->Request(Device::Cpu(), kSpace);
  // Its function has returned, and somebody else goes on with the workspace.
  std::promise<std::pair<unsigned char*, OnComplete>> issued;
  engine_->PushAsync(
      [&](RunContext, OnComplete on_complete) {
        auto* const bytes = static_cast<unsigned char*>(space.resource->GetSpaceBytes(600000));
        std::memset(bytes, 7, 600000);
        issued.set_value({bytes, std::move(on_complete)});
      },
      Device::Cpu(), {}, {space.var});
  auto [bytes, on_complete] = issued.get_future().get();
  EXPECT_THROW(storage_.Alloc(900000, Device::Cpu()), Error);
  EXPECT_EQ(storage_.Stats(Device::Cpu()).live_bytes, 600000);
  EXPECT_EQ(bytes[599999], 7);
  on_complete();
  engine_->WaitForVar(space.var);
  storage_.Free(storage_.Alloc(900000, Device::Cpu()));
}

TEST_P(ResourceManagerTest, OperationsKeepTheirWorkspaceWhileMemoryIsShort) {
  // Four workspaces and the block below have no room together.
  storage_.SetLimit(Device::Cpu(), 1 << 20);
  std::atomic<int> wrong{0};
  std::atomic<int> used{0};
  for (int i = 0; i < 400; ++i) {
    Run(manager_->Request(Device::Cpu(), kSpace), [i, &wrong, &used](Resource* resource) {
      constexpr int64_t kBytes = 200000;
      const auto mark = static_cast<unsigned char>(i % 255);
      try {
        auto* const bytes = static_cast<unsigned char*>(resource->GetSpaceBytes(kBytes));
        std::memset(bytes, mark, kBytes);
        std::this_thread::yield();
        wrong += !std::all_of(bytes, bytes + kBytes, [=](auto byte) { return byte == mark; });
        ++used;
      } catch (const Error& error) {
        wrong += error.code() != Error::kResourceExhausted;
      }
    });
    try {
      const Storage::Handle block = storage_.Alloc(700000, Device::Cpu());
      std::memset(block.dptr, 255, 700000);
      storage_.Free(block);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kResourceExhausted);
    }
  }
  engine_->WaitForAll();
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_GT(used.load(), 0);
}

TEST_P(ResourceManagerTest, RepeatedStepsAllocateNothingAfterTheFirst) {
  const auto step = [&] {
    for (int i = 0; i < 4; ++i) {
      Run(manager_->Request(Device::Cpu(), kSpace),
          [](Resource* resource) { resource->GetSpaceBytes(5000); });
    }
    engine_->WaitForAll();
  };
  step();
  const int64_t allocations = storage_.Stats(Device::Cpu()).allocations;
  for (int i = 0; i < 5; ++i) step();
  EXPECT_EQ(storage_.Stats(Device::Cpu()).allocations, allocations);
}

TEST_P(ResourceManagerTest, NumbersFollowEachOtherInTheOrderOfPushes) {
  const std::vector<float> expected = FirstNumbers(0, 3 * 64);
  std::vector<float> values;
  for (int i = 0; i < 3; ++i) {
    const std::vector<float> part = Draw(Device::Cpu(), 64);
    values.insert(values.end(), part.begin(), part.end());
  }
  EXPECT_EQ(values, expected);
}

TEST_P(ResourceManagerTest, SeedRandomStartsAllGeneratorsAnew) {
  Draw(Device::Cpu(0), 100);
  manager_->SeedRandom(9);
  EXPECT_EQ(Draw(Device::Cpu(0), 100), FirstNumbers(9, 100));
  const std::vector<float> second = Draw(Device::Cpu(1), 100);  // made after the seed was set
  EXPECT_NE(second, FirstNumbers(9, 100));
  manager_->SeedRandom(9);
  EXPECT_EQ(Draw(Device::Cpu(1), 100), second);
}

TEST_P(ResourceManagerTest, SeedRandomOfOneDeviceIsExactAndLeavesTheOthers) {
  manager_->SeedRandom(9);
  const std::vector<float> before = Draw(Device::Cpu(0), 64);
  manager_->SeedRandom(Device::Cpu(1), 1234);
  EXPECT_EQ(Draw(Device::Cpu(1), 100), FirstNumbers(1234, 100));
  std::vector<float> all = before;
  const std::vector<float> after = Draw(Device::Cpu(0), 64);
  all.insert(all.end(), after.begin(), after.end());
  EXPECT_EQ(all, FirstNumbers(9, 128));
}

TEST_P(ResourceManagerTest, SeedingTakesItsTurnAmongOperations) {
  std::vector<float> first(64);
  std::vector<float> second(64);
  const ResourceHandle random = manager_->Request(Device::Cpu(), kRandom);
  const auto draw = [&](std::vector<float>* values) {
    Run(random, [values](Resource* resource) {
      resource->get_random<cpu>(nullptr).SampleUniform(std::span(*values));
    });
  };
  draw(&first);
  manager_->SeedRandom(0);
  draw(&second);
  engine_->WaitForVar(random.var);
  EXPECT_EQ(first, FirstNumbers(0, 64));
  EXPECT_EQ(second, first);
}

TEST_P(ResourceManagerTest, ARecordedSeedingTakesItsTurnAtEachReplay) {
  Draw(Device::Cpu(), 10);
  const std::unique_ptr<Schedule> schedule =
      engine_->Record([this] { manager_->SeedRandom(Device::Cpu(), 5); });
  for (const uint64_t seed : {9, 10}) {
    manager_->SeedRandom(seed);
    EXPECT_EQ(Draw(Device::Cpu(), 64), FirstNumbers(seed, 64));
    schedule->Replay();
    EXPECT_EQ(Draw(Device::Cpu(), 64), FirstNumbers(5, 64));
  }
}

TEST_P(ResourceManagerTest, MemoryStandsInTheEnginesTrace) {
  engine_->StartTrace();
  storage_.StartTimeline();
  const ResourceHandle space = manager_->Request(Device::Cpu(), kSpace);
  engine_->PushSync([&](RunContext) { space.resource->GetSpaceBytes(1000); }, Device::Cpu(), {},
                    {space.var}, {.name = "traced"});
  engine_->WaitForAll();
  const std::string trace = engine_->StopTrace();
  const std::string both = storage_.StopTimeline(trace);
  EXPECT_THAT(both, testing::AllOf(testing::HasSubstr("\"memory cpu(0)\""),
                                   testing::HasSubstr("\"live\": 1000,"),
                                   testing::HasSubstr("\"traced\"")));
  // In the same time: the memory was taken inside the operation.
  double taken = 0, begin = 0, end = 0;
  const nlohmann::json parsed = nlohmann::json::parse(both);
  for (const nlohmann::json& event : parsed["traceEvents"]) {
    if (event["ph"] == "C" && event["args"]["live"] == 1000) taken = event["ts"];
    if (event["ph"] == "X" && event["name"] == "traced") {
      begin = event["ts"];
      end = begin + event["dur"].get<double>();
    }
  }
  EXPECT_GE(taken, begin);
  EXPECT_LE(taken, end + 0.002);  // printed in thousandths
  EXPECT_GT(begin, 0);
  // All of the trace's events, and behind the last of memory's a comma.
  EXPECT_TRUE(both.ends_with(trace.substr(trace.find('[') + 1)));
  EXPECT_THAT(both, testing::HasSubstr("}},\n{\"ph\""));
}

TEST_P(ResourceManagerTest, TheEndWaitsForUsersAndFreesEverything) {
  std::atomic<int> done{0};
  for (int i = 0; i < 20; ++i) {
    Run(manager_->Request(Device::Cpu(), kSpace), [&done](Resource* resource) {
      std::memset(resource->GetSpaceBytes(50000), 1, 50000);
      ++done;
    });
  }
  manager_.reset();
  EXPECT_EQ(done.load(), 20);
  EXPECT_EQ(storage_.Stats(Device::Cpu()).live_bytes, 0);
}

TEST_P(ResourceManagerTest, AFailedUserLeavesTheResourceUsable) {
  const ResourceHandle random = manager_->Request(Device::Cpu(), kRandom);
  Run(random, [](Resource*) { throw InvalidArgument("on purpose"); });
  EXPECT_THROW(engine_->WaitForVar(random.var), Error);
  EXPECT_EQ(Draw(Device::Cpu(), 64), FirstNumbers(0, 64));
}

/// An engine that does something else before the next seeding, and before each wait.
class HookedEngine final : public Engine {
 public:
  explicit HookedEngine(Engine* engine) : engine_(engine) {}

  std::function<void()> before_seeding;
  std::function<void()> before_wait;

  void PushSync(SyncFn fn, Device device, VariableList reads, VariableList writes,
                const PushOptions& options, std::source_location site) override {
    if (options.name == "SeedRandom" && before_seeding) std::exchange(before_seeding, nullptr)();
    engine_->PushSync(std::move(fn), device, reads, writes, options, site);
  }

  Variable* NewVariable(std::string_view name) override { return engine_->NewVariable(name); }
  void DeleteVariable(Variable* variable) override { engine_->DeleteVariable(variable); }
  void PushAsync(AsyncFn fn, Device device, VariableList reads, VariableList writes,
                 const PushOptions& options, std::source_location site) override {
    engine_->PushAsync(std::move(fn), device, reads, writes, options, site);
  }
  EngineOperator* NewOperator(SyncFn fn, VariableList reads, VariableList writes,
                              const PushOptions& options, std::source_location site) override {
    return engine_->NewOperator(std::move(fn), reads, writes, options, site);
  }
  EngineOperator* NewOperator(AsyncFn fn, VariableList reads, VariableList writes,
                              const PushOptions& options, std::source_location site) override {
    return engine_->NewOperator(std::move(fn), reads, writes, options, site);
  }
  void Push(EngineOperator* op, Device device, int priority, std::source_location site) override {
    engine_->Push(op, device, priority, site);
  }
  void DeleteOperator(EngineOperator* op) override { engine_->DeleteOperator(op); }
  std::unique_ptr<Schedule> Record(const std::function<void()>& pushes,
                                   const RecordOptions& options) override {
    return engine_->Record(pushes, options);
  }
  void WaitForVar(Variable* variable) override {
    if (before_wait) before_wait();
    engine_->WaitForVar(variable);
  }
  void WaitForAll() override { engine_->WaitForAll(); }
  void Throw(Variable* variable) override { engine_->Throw(variable); }
  bool IsIdle(Variable* variable) override { return engine_->IsIdle(variable); }
  void Stop() override { engine_->Stop(); }
  void Start() override { engine_->Start(); }
  void Shutdown() override { engine_->Shutdown(); }
  int num_workers() const override { return engine_->num_workers(); }
  EngineCounters counters() const override { return engine_->counters(); }
  std::string DebugString() const override { return engine_->DebugString(); }
  void StartTrace() override { engine_->StartTrace(); }
  std::string StopTrace() override { return engine_->StopTrace(); }

 private:
  Engine* const engine_;
};

/// The seed of the generator's state, which all earlier operations have left.
uint64_t SeedOf(ResourceManager& manager, Engine& engine, Device device) {
  const ResourceHandle random = manager.Request(device, kRandom);
  engine.WaitForVar(random.var);
  return random.resource->GetRandomState()->seed;
}

class OverlappingSeedTest : public testing::Test {
 protected:
  const std::unique_ptr<Engine> engine_ =
      Engine::Create({.kind = EngineKind::kThreaded, .workers = 2});
  Storage storage_;
  HookedEngine hooked_{engine_.get()};
  ResourceManager manager_{&hooked_, &storage_};
};

TEST_F(OverlappingSeedTest, OneCallIsTheLastForAllGenerators) {
  manager_.Request(Device::Cpu(0), kRandom);
  // Another thread's whole call comes in the middle of this one's.
  hooked_.before_seeding = [this] { manager_.SeedRandom(2); };
  manager_.SeedRandom(1);
  EXPECT_EQ(SeedOf(manager_, *engine_, Device::Cpu(0)), 2u);
  EXPECT_EQ(SeedOf(manager_, *engine_, Device::Cpu(1)), 2u);
}

TEST_F(OverlappingSeedTest, TheSeedOfOneDeviceLeavesTheOthers) {
  manager_.Request(Device::Cpu(0), kRandom);
  manager_.Request(Device::Cpu(1), kRandom);
  hooked_.before_seeding = [this] { manager_.SeedRandom(Device::Cpu(0), 2); };
  manager_.SeedRandom(1);
  EXPECT_EQ(SeedOf(manager_, *engine_, Device::Cpu(0)), 2u);
  EXPECT_EQ(SeedOf(manager_, *engine_, Device::Cpu(1)), 1u);
  EXPECT_EQ(SeedOf(manager_, *engine_, Device::Cpu(2)), 1u);
  // What comes after both is not held back by either.
  manager_.SeedRandom(3);
  EXPECT_EQ(SeedOf(manager_, *engine_, Device::Cpu(0)), 3u);
}

TEST_F(OverlappingSeedTest, CallsThatFailLeaveNoSeedBehind) {
  manager_.Request(Device::Cpu(0), kRandom);
  manager_.SeedRandom(5);
  // In the middle of a call that fails, another one fails.
  hooked_.before_seeding = [&] {
    hooked_.before_seeding = [] { throw std::bad_alloc(); };
    EXPECT_THROW(manager_.SeedRandom(2), Error);
    throw std::bad_alloc();
  };
  EXPECT_THROW(manager_.SeedRandom(1), Error);
  EXPECT_EQ(SeedOf(manager_, *engine_, Device::Cpu(0)), 5u);
  EXPECT_EQ(SeedOf(manager_, *engine_, Device::Cpu(1)), 5u);
  // And another one succeeds.
  hooked_.before_seeding = [&] {
    manager_.SeedRandom(2);
    throw std::bad_alloc();
  };
  EXPECT_THROW(manager_.SeedRandom(1), Error);
  EXPECT_EQ(SeedOf(manager_, *engine_, Device::Cpu(0)), 2u);
  EXPECT_EQ(SeedOf(manager_, *engine_, Device::Cpu(2)), 2u);
  // Or fails while this one succeeds.
  hooked_.before_seeding = [&] {
    hooked_.before_seeding = [] { throw std::bad_alloc(); };
    EXPECT_THROW(manager_.SeedRandom(3), Error);
  };
  manager_.SeedRandom(4);
  EXPECT_EQ(SeedOf(manager_, *engine_, Device::Cpu(0)), 4u);
  EXPECT_EQ(SeedOf(manager_, *engine_, Device::Cpu(3)), 4u);
}

TEST(ResourceEndTest, WaitsForTheLastUserThoughWaitsFindNoMemory) {
  const auto engine = Engine::Create({.kind = EngineKind::kThreaded, .workers = 2});
  Storage storage;
  HookedEngine hooked(engine.get());
  auto own = std::make_unique<ResourceManager>(&hooked, &storage);
  const ResourceHandle space = own->Request(Device::Cpu(), kSpace);
  std::latch may_end(1);
  std::atomic<bool> done{false};
  engine->PushSync(
      [&](RunContext) {
        void* const bytes = space.resource->GetSpaceBytes(5000);
        may_end.wait();
        std::memset(bytes, 1, 5000);
        done = true;
      },
      Device::Cpu(), {}, {space.var});
  int waits = 0;
  hooked.before_wait = [&] {
    if (++waits <= 3) throw std::bad_alloc();
    if (waits == 4) may_end.count_down();
  };
  own.reset();
  EXPECT_TRUE(done.load());
  EXPECT_EQ(waits, 4);
  EXPECT_EQ(storage.Stats(Device::Cpu()).live_bytes, 0);
  if (waits < 4) may_end.count_down();
}

/// Streams whose work is done when the test says so.
class ManualStreams final : public StreamEvents {
 public:
  void Finish() { done_ = true; }

  void* Record(void*) override { return this; }
  bool HasHappened(void*) noexcept override { return done_; }
  bool Wait(void*) noexcept override { return done_ = true; }
  void Release(void*) noexcept override {}

 private:
  bool done_ = false;
};

TEST(WorkspaceOnStreamTest, MemoryThatIsOutgrownServesOthersOnlyAfterTheStreamsWork) {
  const auto streams = std::make_shared<ManualStreams>();
  Storage storage({.pool = StoragePoolKind::kExact, .stream_events = streams});
  const auto engine = Engine::Create({.kind = EngineKind::kNaive});
  ResourceManager manager(engine.get(), &storage);
  const ResourceHandle space = manager.Request(Device::Cpu(), kSpace);
  int handle = 0;
  Stream<gpu> stream;
  stream.stream_ = reinterpret_cast<CUstream_st*>(&handle);
  const auto grow = [&](index_t size) {
    void* ptr = nullptr;
    engine->PushSync(
        [&](RunContext) {
          // As an operation whose work the device does later.
          ptr = space.resource->get_space_typed<gpu, 1, uint8_t>(Shape1(size), &stream).dptr_;
        },
        Device::Cpu(), {}, {space.var});
    engine->WaitForVar(space.var);
    return ptr;
  };
  void* const outgrown = grow(1000);
  ASSERT_NE(grow(100000), nullptr);
  const Storage::Handle early = storage.Alloc(1000, Device::Cpu());
  EXPECT_NE(early.dptr, outgrown);
  const Storage::Handle same_stream = storage.AllocOnStream(1000, Device::Cpu(), &handle);
  EXPECT_EQ(same_stream.dptr, outgrown);
  storage.FreeOnStream(same_stream, &handle);
  streams->Finish();
  const Storage::Handle late = storage.Alloc(1000, Device::Cpu());
  EXPECT_EQ(late.dptr, outgrown);
  for (const Storage::Handle& block : {early, late}) storage.Free(block);
}

TEST(ResourceSingletonTest, GetIsAlwaysTheSame) {
  EXPECT_EQ(ResourceManager::Get(), ResourceManager::Get());
  EXPECT_NE(ResourceManager::Get()->Request(Device::Cpu(), kSpace).resource, nullptr);
}

/// 0 if the process's manager serves operations of the process's engine.
int UseManager() {
  ResourceManager* const manager = ResourceManager::Get();
  const ResourceHandle space = manager->Request(Device::Cpu(), kSpace);
  const ResourceHandle random = manager->Request(Device::Cpu(), kRandom);
  bool done = false;
  manager->SeedRandom(7);
  Engine::Get()->PushSync(
      [&](RunContext) {
        std::memset(space.resource->GetSpaceBytes(5000), 1, 5000);
        done = random.resource->GetRandomState()->seed == 7;
      },
      Device::Cpu(), {}, {space.var, random.var});
  Engine::Get()->WaitForAll();
  return done ? 0 : 1;
}

/// The number of this process's other threads that do not sleep.
int ThreadsAtWork() {
  int at_work = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(gettid())) continue;
    std::ifstream file(task.path() / "stat");
    std::string stat;
    std::getline(file, stat);
    // The state stands behind the name in parentheses. No line: the thread has just ended.
    const size_t name_end = stat.rfind(')');
    at_work += name_end != std::string::npos && stat.substr(name_end + 2, 1) != "S";
  }
  return at_work;
}

/// The engine's workers go to sleep a while after the last operation. A sanitizer's malloc that one
/// of them has locked stays locked in the child of a fork.
void AwaitSleepOfOthers() {
  for (int quiet_looks = 0; quiet_looks < 5;) {
    quiet_looks = ThreadsAtWork() == 0 ? quiet_looks + 1 : 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

TEST(ResourceSingletonTest, TheChildOfAForkHasOneOfItsOwn) {
  ASSERT_EQ(UseManager(), 0);
  const ResourceManager* const of_parent = ResourceManager::Get();
  AwaitSleepOfOthers();
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    std::_Exit(ResourceManager::Get() == of_parent ? 2 : UseManager());
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ResourceManager::Get(), of_parent);
  EXPECT_EQ(UseManager(), 0);
}

}  // namespace
}  // namespace tessera
