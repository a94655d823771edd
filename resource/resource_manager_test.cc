#include "tessera/resource/resource_manager.h"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
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

TEST(ResourceSingletonTest, GetIsAlwaysTheSame) {
  EXPECT_EQ(ResourceManager::Get(), ResourceManager::Get());
  EXPECT_NE(ResourceManager::Get()->Request(Device::Cpu(), kSpace).resource, nullptr);
}

}  // namespace
}  // namespace tessera
