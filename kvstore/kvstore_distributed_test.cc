// Stores of many workers, whose ranks are threads of this process. Runs with both kinds of engine.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tessera/base/dtype.h"
#include "tessera/base/error.h"
#include "tessera/engine/engine.h"
#include "tessera/kvstore/kvstore.h"
#include "tessera/kvstore/testing/simulated_communicator.h"
#include "tessera/ndarray/ndarray.h"
#include "tessera/ndarray/sparse.h"
#include "tessera/ndarray/testing/array_values.h"

namespace tessera {
namespace {

using kvstore_testing::SimulatedGroup;
using ndarray_testing::Vector;
using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

using Store = std::unique_ptr<KVStore>;

/// Makes a store on each rank and calls use(store). Returns the error of each rank, or "".
std::vector<std::string> RunGroup(const SimulatedGroup& group, int size,
                                  const std::function<void(KVStore&)>& use) {
  std::vector<std::string> errors(static_cast<size_t>(size));
  group.RunRanks([&](const std::shared_ptr<Communicator>& rank) {
    try {
      const Store store = KVStore::Create("dist_sync", rank);
      use(*store);
    } catch (const std::exception& error) {
      errors[static_cast<size_t>(rank->rank())] = error.what();
    }
  });
  return errors;
}

/// RunGroup for a new group, without an error.
void RunWell(int size, const std::function<void(KVStore&)>& use) {
  const SimulatedGroup group(size);
  EXPECT_THAT(RunGroup(group, size, use), Each(""));
}

std::vector<std::byte> Bytes(const NDArray& array) {
  const index_t size = array.shape().Size();
  std::vector<std::byte> bytes(static_cast<size_t>(size * DTypeSizeBytes(array.dtype())));
  array.SyncCopyToCPU(bytes.data(), size);
  return bytes;
}

NDArray Pulled(KVStore& store, const KVKey& key, const NDArray& like) {
  NDArray out(like.shape(), Device::Cpu(), like.dtype());
  store.Pull(key, out);
  return out;
}

NDArray Random(uint32_t seed, index_t size, DType dtype = DType::kFloat32) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> numbers(-100, 100);
  std::vector<float> values(static_cast<size_t>(size));
  for (float& value : values) value = numbers(random);
  return Vector(values).AsType(dtype);
}

TEST(DistributedStoreTest, FourRanksHaveTheBitsOfOneProcessWithFourDevices) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16,
                            DType::kInt32, DType::kInt8}) {
    std::vector<NDArray> values;
    for (uint32_t rank = 0; rank < 4; ++rank) values.push_back(Random(rank, 1001, dtype));
    const Store local = KVStore::Create("local");
    local->Init("w", values[0]);
    local->Push("w", values);
    const std::vector<std::byte> expected = Bytes(Pulled(*local, "w", values[0]));
    RunWell(4, [&](KVStore& store) {
      const NDArray& own = values[static_cast<size_t>(store.rank())];
      store.Init("w", own);
      store.Push("w", own);
      EXPECT_EQ(Bytes(Pulled(store, "w", own)), expected) << dtype;
    });
  }
}

/// Momentum on a quadratic loss, written with arrays: velocity = 0.9 velocity - 0.1 gradient.
KVStore::Updater Momentum(index_t size) {
  NDArray velocity({size});
  velocity = 0.0f;
  return [velocity](const KVKey&, const NDArray& received, const NDArray& stored) {
    NDArray state = velocity, weight = stored;  // handles
    state *= 0.9f;
    state -= received * 0.1f;
    weight += state;
  };
}

/// The gradient of |weight - target|^2 / 2, where each rank has a target of its own.
NDArray Gradient(const NDArray& weight, int rank) {
  return weight - Random(static_cast<uint32_t>(100 + rank), weight.shape()[0]);
}

TEST(DistributedStoreTest, WeightsStayEqualAndHaveTheBitsOfOneProcessOverFiftySteps) {
  constexpr index_t kSize = 37;
  constexpr int kSteps = 50;
  const NDArray start = Random(1, kSize);
  const Store local = KVStore::Create("local");
  local->set_updater(Momentum(kSize));
  local->Init(0, start);
  std::vector<std::vector<std::byte>> expected;
  for (int step = 0; step < kSteps; ++step) {
    const NDArray weight = Pulled(*local, 0, start);
    std::vector<NDArray> gradients;
    for (int rank = 0; rank < 4; ++rank) gradients.push_back(Gradient(weight, rank));
    local->Push(0, gradients);
    expected.push_back(Bytes(Pulled(*local, 0, start)));
  }
  RunWell(4, [&](KVStore& store) {
    store.set_updater(Momentum(kSize));
    store.Init(0, start);
    for (int step = 0; step < kSteps; ++step) {
      store.Push(0, Gradient(Pulled(store, 0, start), store.rank()));
      ASSERT_EQ(Bytes(Pulled(store, 0, start)), expected[static_cast<size_t>(step)]) << step;
    }
  });
}

TEST(DistributedStoreTest, EveryWorkerBeginsWithTheValueOfRankZero) {
  RunWell(3, [](KVStore& store) {
    const float rank = static_cast<float>(store.rank());
    store.Init("w", Vector({rank + 1, rank + 2}));
    EXPECT_THAT(Pulled(store, "w", NDArray({2})).ToVector(), ElementsAre(1, 2));
    EXPECT_EQ(store.type(), "dist_sync");
    EXPECT_EQ(store.num_workers(), 3);
    store.Barrier();
  });
}

TEST(DistributedStoreTest, ValuesOfSeveralDevicesAreSummedFirst) {
  RunWell(2, [](KVStore& store) {
    store.Init("w", Vector({0}));
    const float rank = static_cast<float>(store.rank());
    store.Push("w", {Vector({1 + rank}), Vector({10})});
    EXPECT_THAT(Pulled(store, "w", NDArray({1})).ToVector(), ElementsAre(1 + 10 + 2 + 10));
  });
}

TEST(DistributedStoreTest, EveryWorkerCompressesTheSumOfItsOwnValues) {
  RunWell(2, [](KVStore& store) {
    store.CompressGradients(1);
    store.Init("w", Vector({0, 0, 0}));
    const float sign = store.rank() == 0 ? 1.0f : -1.0f;
    const std::vector<NDArray> values = {Vector({0.5f, 0.25f * sign, 2}), Vector({0.5f, 0, 0})};
    for (int push = 0; push < 2; ++push) {
      store.Push("w", values);
      EXPECT_THAT(Pulled(store, "w", NDArray({3})).ToVector(), ElementsAre(2, 0, 2));
    }
    // Of the second element, rank 0 has not sent 0.5 yet and rank 1 has not sent -0.5.
    store.Push("w", {Vector({0, 0.75f, 0}), Vector({0, 0, 0})});
    EXPECT_THAT(Pulled(store, "w", NDArray({3})).ToVector(), ElementsAre(0, 1, 2));
  });
}

TEST(DistributedStoreTest, WorkersStoreDifferentRowsOfASparseValue) {
  RunWell(3, [](KVStore& store) {
    const auto row = [](int row, float value) {
      return sparse::FromRows(NDArray::FromVector(std::vector<float>{value}, {1, 1}),
                              Vector({static_cast<float>(row)}), {5, 1});
    };
    store.Init("w", row(store.rank(), 7));
    const NDArray out = sparse::Zeros(StorageType::kRowSparse, {5, 1});
    store.Pull("w", out);
    EXPECT_THAT(out.ToVector(), ElementsAre(7, 0, 0, 0, 0));
    StorageType storage = StorageType::kUndefined;
    index_t count = 0;
    store.set_updater([&](const KVKey&, const NDArray& received, const NDArray& stored) {
      storage = StorageTypeOf(received);
      count = sparse::Count(received);
      CopyFromTo(received, stored);
    });
    store.CompressGradients(0.5f);  // of which sparse values take no notice
    store.Push("w", {row(store.rank(), 1), row(4, 2)});
    EXPECT_EQ(storage, StorageType::kRowSparse);
    EXPECT_EQ(count, 4);
    store.Pull("w", out);
    EXPECT_THAT(out.ToVector(), ElementsAre(1, 1, 1, 0, 6));
    store.PullRows("w", out, Vector({4, 1, 3}));
    EXPECT_THAT(out.ToVector(), ElementsAre(0, 1, 0, 0, 6));
  });
}

TEST(DistributedStoreTest, RanksMayPushInDifferentOrders) {
  constexpr int kKeys = 5, kSteps = 20;
  RunWell(3, [](KVStore& store) {
    for (int key = 0; key < kKeys; ++key) store.Init(key, Vector({0}));
    for (int step = 0; step < kSteps; ++step) {
      std::vector<NDArray> outs(kKeys);
      for (int i = 0; i < kKeys; ++i) {
        const int key = (i * (store.rank() + 1) + step) % kKeys;
        NDArray& out = outs[static_cast<size_t>(key)];
        out = NDArray({1});
        store.Push(key, Vector({static_cast<float>(100 * key + step)}));
        store.Pull(key, out);
      }
      for (int key = 0; key < kKeys; ++key) {
        EXPECT_THAT(outs[static_cast<size_t>(key)].ToVector(), ElementsAre(3 * (100 * key + step)));
      }
    }
  });
}

TEST(DistributedStoreTest, AKeyMayBePushedAgainBeforeItsSumIsComplete) {
  RunWell(2, [](KVStore& store) {
    store.Init("w", Vector({0}));
    store.set_updater([](const KVKey&, const NDArray& received, const NDArray& stored) {
      NDArray target = stored;
      target *= 2.0f;  // the order of the sums shows
      target += received;
    });
    for (int i = 0; i < 8; ++i) store.Push("w", Vector({static_cast<float>(i % 3)}));
    float expected = 0;
    for (int i = 0; i < 8; ++i) expected = 2 * expected + 2 * static_cast<float>(i % 3);
    EXPECT_THAT(Pulled(store, "w", NDArray({1})).ToVector(), ElementsAre(expected));
  });
}

TEST(DistributedStoreTest, KeysOfManySizesAndTypesShareRounds) {
  // Two fill a bucket of 4 MiB, one is larger, and the types differ.
  const std::vector<std::pair<index_t, DType>> keys = {
      {500000, DType::kFloat32},  {700000, DType::kFloat32}, {1, DType::kFloat16},
      {1500000, DType::kFloat32}, {3, DType::kFloat64},      {70, DType::kFloat32}};
  RunWell(2, [&](KVStore& store) {
    std::vector<NDArray> values;
    for (size_t i = 0; i < keys.size(); ++i) {
      values.emplace_back(TShape{keys[i].first}, Device::Cpu(), keys[i].second);
      values.back() = static_cast<float>(i + 1);
      store.Init(static_cast<int>(i), values.back());
    }
    for (int step = 0; step < 2; ++step) {
      for (size_t i = keys.size(); i-- > 0;) store.Push(static_cast<int>(i), values[i]);
      for (size_t i = 0; i < keys.size(); ++i) {
        const std::vector<float> sums = Pulled(store, static_cast<int>(i), values[i]).ToVector();
        const auto expected = static_cast<std::ptrdiff_t>(sums.size());
        EXPECT_EQ(std::count(sums.begin(), sums.end(), 2 * static_cast<float>(i + 1)), expected);
      }
    }
  });
}

TEST(DistributedStoreTest, SumsBeginWhileTheEngineHasOtherWork) {
  // Chains of operations keep every worker, as a backward pass does. The push has a lower priority.
  constexpr int kLinks = 500;
  Engine& engine = *Engine::Get();
  std::atomic<bool> is_pulled_meanwhile = false;
  RunWell(2, [&](KVStore& store) {
    store.set_updater([](const KVKey&, const NDArray& received, const NDArray& stored) {
      NDArray target = stored;
      target += received;
    });
    store.Init("w", Vector({0}));
    const NDArray gradient = Vector({1}), out({1});
    gradient.WaitToRead();
    store.Barrier();
    const bool has_chains = store.rank() == 0;
    if (has_chains) engine.Stop();  // waits for pushes that have begun: no rank has one yet
    store.Barrier();
    store.Push("w", gradient, -1);
    store.Pull("w", out, 1);
    std::vector<Variable*> chains;
    for (int i = 0; has_chains && i < engine.num_workers(); ++i) {
      chains.push_back(engine.NewVariable("chain"));
    }
    for (int link = 0; link < kLinks; ++link) {
      for (Variable* const chain : chains) {
        engine.PushSync(
            [&, out](RunContext) {
              if (engine.IsIdle(out.var())) is_pulled_meanwhile = true;
              if (is_pulled_meanwhile) return;
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
            },
            Device::Cpu(), {}, {chain}, {.name = "link"});
      }
    }
    if (has_chains) engine.Start();
    store.Barrier();  // unlike a wait for `out`, it makes nothing go first
    for (Variable* const chain : chains) {
      engine.WaitForVar(chain);
      engine.DeleteVariable(chain);
    }
    EXPECT_THAT(out.ToVector(), ElementsAre(2));
  });
  EXPECT_TRUE(is_pulled_meanwhile);
}

TEST(DistributedStoreTest, AnUpdaterMayWaitForTheSum) {
  RunWell(2, [](KVStore& store) {
    store.set_updater([](const KVKey&, const NDArray& received, const NDArray& stored) {
      NDArray target = stored;
      target += received.ToVector()[0];
    });
    store.Init("w", Vector({1}));
    store.Push("w", Vector({2}));
    EXPECT_THAT(Pulled(store, "w", NDArray({1})).ToVector(), ElementsAre(5));
  });
}

TEST(DistributedStoreTest, ASlowRankAndASlowNetworkOnlyTakeTime) {
  using std::chrono::milliseconds;
  SimulatedGroup group(3, {.latency = milliseconds(2), .bytes_per_second = 1e8});
  group.SlowDown(1, milliseconds(5));
  EXPECT_THAT(RunGroup(group, 3,
                       [](KVStore& store) {
                         for (int key = 0; key < 3; ++key) store.Init(key, Vector({0, 0}));
                         for (int step = 0; step < 3; ++step) {
                           for (int key = 0; key < 3; ++key) store.Push(key, Vector({1, 2}));
                           EXPECT_THAT(Pulled(store, 2, NDArray({2})).ToVector(),
                                       ElementsAre(3, 6));
                         }
                       }),
              Each(""));
}

TEST(DistributedStoreTest, TwoStoresOfAJobOneAfterTheOther) {
  const SimulatedGroup first(2), second(2);
  for (const SimulatedGroup* const group : {&first, &second}) {
    EXPECT_THAT(RunGroup(*group, 2,
                         [](KVStore& store) {
                           store.Init("w", Vector({0}));
                           store.Push("w", Vector({3}));  // complete when the store ends
                         }),
                Each(""));
  }
}

TEST(DistributedStoreTest, AWorkerWithFewerBatchesIsAnError) {
  const SimulatedGroup group(3);
  const auto errors = RunGroup(group, 3, [](KVStore& store) {
    store.Init("w", Vector({0}));
    const int batches = store.rank() == 1 ? 2 : 3;
    for (int i = 0; i < batches; ++i) {
      store.Push("w", Vector({1}));
      Pulled(store, "w", NDArray({1})).WaitToRead();
    }
  });
  for (const int rank : {0, 2}) {
    EXPECT_THAT(errors[static_cast<size_t>(rank)],
                AllOf(HasSubstr("rank 0 waits for the sum of key \"w\""),
                      HasSubstr("rank 1 is at the end of the store")));
  }
}

TEST(DistributedStoreTest, ABarrierThatOthersDoNotCallIsAnError) {
  const SimulatedGroup group(2);
  const auto errors = RunGroup(group, 2, [](KVStore& store) {
    store.Init(7, Vector({0}));
    if (store.rank() == 0) return store.Barrier();
    store.Push(7, Vector({1}));
    Pulled(store, 7, NDArray({1})).WaitToRead();
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("rank 0 is at Barrier"),
                                 HasSubstr("rank 1 waits for the sum of key 7"))));
}

TEST(DistributedStoreTest, RanksThatPushDifferentKeysAreAnError) {
  const SimulatedGroup group(2);
  const auto errors = RunGroup(group, 2, [](KVStore& store) {
    store.Init("a", Vector({0}));
    store.Init("b", Vector({0}));
    store.Push(store.rank() == 0 ? "a" : "b", Vector({1}));
    store.Barrier();
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("rank 0 waits for the sum of key \"a\""),
                                 HasSubstr("rank 1 waits for the sum of key \"b\""))));
}

TEST(DistributedStoreTest, RanksThatInitializeDifferentlyAreAnError) {
  struct Case {
    std::function<void(KVStore&)> init;
    std::vector<std::string> words;
  };
  const Case cases[] = {
      {[](KVStore& store) {
         store.Init("w", store.rank() == 0 ? NDArray({2, 3}) : NDArray({3, 2}));
       },
       {"rank 0 is at Init of key \"w\", (2,3) of float32", "rank 1 is at Init", "(3,2)"}},
      {[](KVStore& store) {
         store.Init("w", NDArray({2}, Device::Cpu(),
                                 store.rank() == 0 ? DType::kFloat32 : DType::kFloat16));
       },
       {"(2,) of float32", "(2,) of float16"}},
      {[](KVStore& store) {
         const KVKey key = store.rank() == 0 ? KVKey(7) : KVKey("7");
         store.Init(key, Vector({1}));
       },
       {"key 7,", "key \"7\","}},
      {[](KVStore& store) {
         if (store.rank() == 0) return store.Init("w", Vector({1}));
         store.Barrier();
       },
       {"rank 0 is at Init of key \"w\"", "rank 1 is at Barrier"}},
  };
  for (const Case& c : cases) {
    const SimulatedGroup group(2);
    const auto errors = RunGroup(group, 2, c.init);
    for (const std::string& word : c.words) EXPECT_THAT(errors, Each(HasSubstr(word)));
  }
}

TEST(DistributedStoreTest, TheDeathOfARankIsAnErrorOfTheOthers) {
  SimulatedGroup group(3);
  const auto errors = RunGroup(group, 3, [&](KVStore& store) {
    store.Init("w", Vector({0}));
    for (int i = 0; i < 3; ++i) {
      if (store.rank() == 2 && i == 1) return group.Kill(2);
      store.Push("w", Vector({1}));
      Pulled(store, "w", NDArray({1})).WaitToRead();
    }
  });
  EXPECT_THAT(errors[0], HasSubstr("rank 2 has died"));
  EXPECT_THAT(errors[1], HasSubstr("rank 2 has died"));
}

TEST(DistributedStoreTest, AnExceptionOfOneRankIsAnErrorOfTheOthers) {
  const SimulatedGroup group(2);
  const auto errors = RunGroup(group, 2, [](KVStore& store) {
    store.Init("w", Vector({0}));
    if (store.rank() == 0) throw std::runtime_error("no such file");
    store.Push("w", Vector({1}));
    Pulled(store, "w", NDArray({1})).WaitToRead();
  });
  EXPECT_EQ(errors[0], "no such file");
  EXPECT_THAT(errors[1], HasSubstr("rank 0: an exception has ended the use of the store"));
}

TEST(DistributedStoreTest, NumbersAreSummedOverWorkers) {
  RunWell(3, [](KVStore& store) {
    store.Init("w", Vector({0}));
    store.Push("w", Vector({1}));
    // From the left the small one is lost; in any other order it would not be.
    const double first[] = {1e17, 1, -1e17};
    double numbers[] = {first[store.rank()], store.rank() + 0.5};
    store.SumOverWorkers(numbers);
    EXPECT_THAT(numbers, ElementsAre(0, 4.5));
    store.SumOverWorkers({});
  });
  const SimulatedGroup group(2);
  const auto errors = RunGroup(group, 2, [](KVStore& store) {
    std::vector<double> numbers(static_cast<size_t>(store.rank() + 1));
    store.SumOverWorkers(numbers);
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("rank 0 is at SumOverWorkers of 1 numbers"),
                                 HasSubstr("rank 1 is at SumOverWorkers of 2 numbers"))));
}

TEST(DistributedStoreTest, AWorkerMayMakeTheJobFail) {
  const SimulatedGroup group(2);
  const auto errors = RunGroup(group, 2, [](KVStore& store) {
    store.Init("w", Vector({0}));
    if (store.rank() == 1) store.Fail("the disk is full");
    store.Barrier();
  });
  EXPECT_THAT(errors, Each(HasSubstr("rank 1: the disk is full")));
}

TEST(DistributedStoreTest, AGradientThatCannotBeComputedIsAnErrorOfEveryRank) {
  const SimulatedGroup group(2);
  const auto errors = RunGroup(group, 2, [](KVStore& store) {
    store.Init("w", Vector({0}));
    const NDArray gradient = Vector({1});
    if (store.rank() == 1) {
      Engine::Get()->PushSync([](RunContext) { throw DataLoss("a torn record"); }, Device::Cpu(),
                              {}, {gradient.var()}, {.name = "read"});
    }
    store.Push("w", gradient);
    store.Barrier();
  });
  EXPECT_THAT(errors, Each(AllOf(HasSubstr("rank 1: "), HasSubstr("a torn record"))));
}

TEST(DistributedStoreTest, AfterAFailureEveryCallHasItsError) {
  const SimulatedGroup group(2);
  const auto errors = RunGroup(group, 2, [](KVStore& store) {
    store.Init("w", Vector({0}));
    if (store.rank() == 0) return store.Init("v", Vector({0}));
    EXPECT_THROW(store.Barrier(), Error);
    EXPECT_THROW(store.Barrier(), Error);
    EXPECT_THROW(store.Init("v", Vector({0})), Error);
    EXPECT_THROW(store.Push("w", Vector({0})), Error);
  });
  EXPECT_THAT(errors[0], HasSubstr("the job has failed"));
  EXPECT_EQ(errors[1], "");
}

TEST(DistributedStoreTest, WrongCallsOfOneRankThrowThereAndChangeNothing) {
  RunWell(2, [](KVStore& store) {
    store.Init("w", Vector({1, 2}));
    EXPECT_THROW(store.Init("w", Vector({1, 2})), Error);
    EXPECT_THROW(store.Init("v", NDArray()), Error);
    EXPECT_THROW(store.Push("v", Vector({1})), Error);
    EXPECT_THROW(store.Push("w", Vector({1})), Error);
    EXPECT_THAT(Pulled(store, "w", NDArray({2})).ToVector(), ElementsAre(1, 2));
  });
}

TEST(DistributedStoreTest, OtherKindsUseNoCommunicator) {
  const SimulatedGroup group(1);
  for (const char* const type : {"local", "nearby"}) {
    try {
      KVStore::Create(type, group.communicator(0));
      ADD_FAILURE() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Error::kInvalidArgument);
      EXPECT_THAT(error.what(), AllOf(HasSubstr(type), HasSubstr("dist_sync")));
    }
  }
  EXPECT_THROW(KVStore::Create("dist_sync", nullptr), Error);
  EXPECT_EQ(KVStore::Create("dist_device_sync", group.communicator(0))->type(), "dist_device_sync");
}

}  // namespace
}  // namespace tessera
